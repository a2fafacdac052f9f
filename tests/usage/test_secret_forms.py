"""How many forms of secrets are kept out of the log, and how many ordinary requests lose a word to that.

`secret_forms.txt` has a made-up secret a line between « and », broken by `~` where a scanner would take it for a real
one; `harmless_requests.txt` has requests around the same words. Both were written before the rules for what is
announced. Every second line was looked at when those were made; the others are held back, and say how the rules do on
what they never saw.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from agent_utilities.usage.redaction import without_secrets
from tests.every import every

LEAST_FOUND, MOST_HARMED = 0.98, 0.02
HALVES = every("half", [slice(0, None, 2), slice(1, None, 2)], ids=["seen", "held back"])
_SECRET = re.compile("«(.*?)»")


def lines(name: str) -> Sequence[str]:
    return Path(__file__).with_name(name).read_text(encoding="utf-8").replace("~", "").splitlines()


def kept_of_secret(line: str) -> list[str]:
    """Return the words of a line's secrets that are left of it."""
    beside = set(_SECRET.sub("", line).split())
    left = " ".join(word for word in without_secrets(re.sub("[«»]", "", line)).split() if word not in beside)
    return [word for secret in _SECRET.findall(line) for word in secret.split() if word.casefold() in left.casefold()]


@HALVES
def test_secrets_are_found(half: slice) -> None:
    forms = lines("secret_forms.txt")
    assert len(forms) == 100
    missed = {form: kept for form in forms[half] if (kept := kept_of_secret(form))}
    assert 1 - len(missed) / len(forms[half]) >= LEAST_FOUND, missed


@HALVES
def test_ordinary_requests_stay(half: slice) -> None:
    requests = lines("harmless_requests.txt")
    assert len(set(requests)) == 300
    harmed = {request: left for request in requests[half] if (left := without_secrets(request)) != request}
    assert len(harmed) / len(requests[half]) <= MOST_HARMED, harmed


@every(
    ("request_text", "left"),
    [
        ("show it, mot de passe : secret1234", "show it, mot de passe :"),
        ("passphrase correct horse battery staple", "passphrase"),
        (
            "the passphrase for the backup is maple river lantern, then list it",
            "the passphrase for the backup is then list it",
        ),
        ("use AK" + "IA IOSF ODNN 7EXA MPLE", "use"),
        ("activate with X7KQ-9MZP-4TRW-2BND today", "activate with today"),
        ("the code is 4821", "the code is 4821"),
        ("your security code is 4821", "your security code is"),
        ("enter hunter2!x as the password", "enter as the password"),
        ("the password is expired", "the password is expired"),
    ],
)
def test_what_is_announced_goes_and_the_request_stays(request_text: str, left: str) -> None:
    assert without_secrets(request_text) == left

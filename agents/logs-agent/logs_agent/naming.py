"""Names of logs: what looks like one, and which names are its rotated siblings."""

from __future__ import annotations

import re
from collections.abc import Iterable

_ROTATED = re.compile(r"(?P<base>.+?)[.\-_](?P<mark>\d{1,5}|\d{4}[\-_.]?\d\d[\-_.]?\d\d[\dTZ_.:\-]*)(?:\.(?:gz|gzip))?")
_LOG = re.compile(
    r"(?i).+\.(?:log|logs|jsonl|ndjson|out|err|trace|clf)|.*[._-](?:log|logs|out|err)|syslog|messages|maillog|secure"
    r"|dmesg|kern|(?:access|error|debug|audit|auth|daemon)(?:_log|_logs)?|log|logs"
)


def rotated(name: str) -> tuple[str, str] | None:
    """Return (log, mark) of a rotated sibling's name: `app.log.2.gz` is `("app.log", "2")`."""
    found = _ROTATED.fullmatch(name)
    return (found["base"], found["mark"]) if found else None


def looks_like_log(name: str) -> bool:
    """Whether a name is a log's, rotated or not, gzipped or not. Hidden files never are."""
    if name.startswith(".") or name == "a.out":
        return False
    plain = re.sub(r"(?i)\.(?:gz|gzip)$", "", name)
    found = rotated(plain)
    return bool(_LOG.fullmatch(plain) or (found and _LOG.fullmatch(found[0])))


def siblings(name: str, names: Iterable[str]) -> list[str]:
    """Return the rotated siblings of a log, oldest first: dated ones, then numbered ones downwards.

    Of `app.log.1` and `app.log.1.gz` only the first is kept: both stand there only while one is being packed.
    """
    found: dict[str, str] = {}
    for other in sorted(names):
        match = rotated(other)
        if match and match[0] == name and match[1] not in found:
            found[match[1]] = other
    return [found[mark] for mark in sorted(found, key=_age)]


def number_of(name: str) -> int | None:
    """Return the number of a numbered sibling: 2 for `app.log.2.gz`."""
    match = rotated(name)
    return int(match[1]) if match and match[1].isdigit() and len(match[1]) <= 5 else None


def _age(mark: str) -> tuple[int, int, str]:
    return (1, -int(mark), "") if mark.isdigit() and len(mark) <= 5 else (0, 0, mark)

"""Secrets that a sentence announces, and keys that are written in groups: what no single word tells."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile

EDGES = "\"'`()[]{}<>,.;:!?*-"
_QUOTES = "\"'`"
_PHRASES = re.compile(
    r"(?:pass[- ]?phrases?|passw(?:or)?ds?|passcodes?|pwd|mnemonic|(?:seed|recovery|secret|wallet) (?:phrase|words)"
    r"|(?:mot|mots) de passe|phrase secrète|passwort|kennwort|contraseña|senha|wachtwoord|пароль)"
)
"""What announces words."""
_CODES = re.compile(
    r"(?:(?:verification|security|recovery|backup|one-time|2fa|mfa|access|login|log-in|sign-in|door|gate|alarm|unlock"
    r"|entry|confirmation|pin|sms|reset|safe) (?:codes?|keys?|combination)"
    r"|(?:licen[cs]e|product|activation|setup|serial) (?:key|number|code)"
    r"|serial|passcode|otp|pin|(?:app|application) password)"
)
"""What announces figures and groups."""
_LINKS = frozenset("is are was = : := => -> - is: are: ist lautet est es é".split())
"""What stands between a secret's name and the secret."""
_BESIDE = frozenset(("for", "of", "to", "on", "pour", "für", "para", "do", "du", "de", "voor"))
_ENDS = _BESIDE | frozenset(
    "and or but then in at with by from please now today again here so when which that because as into via".split()
)
"""Words that end a secret: what follows them is the request again."""
_STATES = re.compile(
    r"(?:not|no|never|too|still|being|asked|older|newer|only|also|always|already|wrong|missing|empty|invalid|incorrect|weak"
    r"|strong|hidden|shown|sent|set|stored|known|kept|broken|lost|late|case-sensitive|oublié|vergessen|hasta|\w+(?:ed|é))"
)
"""How a secret may be: `the password is expired` announces none."""
_ABOUT = re.compile(
    r"(?:rotation|policy|strength|generator|prompt|field|column|page|file|files|reset|manager|length|rules?|hash\w*|screen"
    r"|warning|backup|guide|detection|devices?|techniques?|changes?|changer|entry|input|dialog|form|check\w*|require\w*"
    r"|protect\w*|expir\w*|recovery|storage|text|must|should|can|may|does|do|has|have|will|appears?|works?|fails?"
    r"|is|are|was|were|oublié|vergessen|ändern|\w+ing)"
)
"""What may follow a secret's name where the secret itself is spoken of."""
_GROUP = re.compile(r"[A-Z0-9]{3,6}|[a-z0-9]{3,6}")
_GROUPS = re.compile(r"[A-Z0-9]+|[a-z0-9]+")
_DASHED = re.compile(r"(?:[A-Z0-9]{3,6}-){2,}[A-Z0-9]{3,6}|(?:[a-z0-9]{4,6}-){2,}[a-z0-9]{4,6}")
_MOST_WORDS = 26
_FEWEST_OF_GROUPS = 12
"""Characters of a key in groups, at least."""


def announced(words: Sequence[str]) -> set[int]:
    """Return the places of words that the ones before announce as a secret, or the ones after."""
    folded = [word.casefold() for word in words]
    bare = [word.strip(EDGES) for word in folded]
    places: set[int] = set()
    for place in range(len(words)):
        for pattern, value in ((_PHRASES, _phrase), (_CODES, _code)):
            if (end := _named(pattern, bare, place)) is not None:
                start, is_linked = _linked(folded, bare, end)
                places.update(value(words, bare, start, is_linked=is_linked))
                places.update(_before(folded, bare, place))
        if words[place].startswith("-p") and len(words[place]) > 4 and "mysql" in " ".join(bare[:place]):
            places.add(place)
    return places


def is_state(words: Sequence[str], place: int) -> bool:
    """Return whether a word tells how something is, as after `the password is`, and is not the thing itself."""
    if place >= len(words) or words[place][:1] in _QUOTES:
        return False
    ends = place + 1 == len(words) or words[place + 1].casefold() in _ENDS or words[place + 1].casefold() == "than"
    return _STATES.fullmatch(words[place].casefold().strip(EDGES)) is not None and (ends or len(words[place]) < 6)


def grouped(words: Sequence[str]) -> set[int]:
    """Return the places of words that are groups of one key: `AKIA IOSF ODNN 7EXA MPLE`, `X7KQ-9MZP-4TRW`."""
    places: set[int] = set()
    bare = [word.strip(EDGES) for word in words]
    place = 0
    while place < len(words):
        if (dashed := _DASHED.fullmatch(bare[place])) and _are_of_a_key(dashed[0].split("-")):
            places.add(place)
        run = _run(bare, place)
        if len(run) >= 3 and _are_of_a_key(run):
            places.update(range(place, place + len(run)))
        place += max(1, len(run))
    return places


def _named(pattern: re.Pattern[str], bare: Sequence[str], place: int) -> int | None:
    """Return the place after a name that begins here, of three words at most; None where none does."""
    for n_words in (3, 2, 1):
        name = " ".join(bare[place : place + n_words])
        if len(bare[place : place + n_words]) == n_words and pattern.fullmatch(name):
            return place + n_words
    return None


def _linked(folded: Sequence[str], bare: Sequence[str], start: int) -> tuple[int, bool]:
    """Return where a value begins, and whether a sign or a verb leads to it: `the PIN of the card is 1234`."""
    if folded[start - 1].endswith((":", "=")):
        return (start + 1, True) if folded[start : start + 1] == ["is"] else (start, True)
    for place in range(start, min(start + 5, len(folded))):
        if folded[place] in _LINKS:
            return place + 1, True
        if place == start and bare[place] not in _BESIDE:
            break
    return start, False


def _phrase(words: Sequence[str], bare: Sequence[str], start: int, *, is_linked: bool) -> Iterator[int]:
    """Yield the places of a passphrase: the words up to what is the request again."""
    if start >= len(words) or is_state(words, start):
        return
    if is_linked and _is_no_word(bare[start]):
        yield start
        if len(run := _run(bare, start)) > 1:
            yield from range(start, start + len(run))
        return
    places = [*_sentence(words, bare, start)]
    if is_linked or (len(places) > 1 and not any(_ABOUT.fullmatch(bare[place]) for place in places[:4])):
        yield from places


def _sentence(words: Sequence[str], bare: Sequence[str], start: int) -> Iterator[int]:
    for place in range(start, min(start + _MOST_WORDS, len(words))):
        if bare[place] in _ENDS:
            return
        yield place
        if words[place][-1] in ",;!?." and place > start:
            return


def _code(words: Sequence[str], bare: Sequence[str], start: int, *, is_linked: bool) -> Iterator[int]:
    """Yield the places of a code: the words that have figures, or groups of one length."""
    run = _run(bare, start)
    if is_linked and len(run) > 2 and not any(word in _ENDS for word in run):
        yield from range(start, start + len(run))
    figured = list(takewhile(lambda place: any(map(str.isdigit, bare[place])), range(start, len(words))))
    if sum(map(str.isdigit, "".join(bare[place] for place in figured))) >= 3:
        yield from figured


def _before(folded: Sequence[str], bare: Sequence[str], place: int) -> Iterator[int]:
    """Yield the place of what is given `as the password`."""
    at = place - 1
    while at > 0 and bare[at] in ("the", "a", "my", "your", "new"):
        at -= 1
    if at > 1 and bare[at] == "as" and (_is_no_word(folded[at - 1]) or bare[at - 2] in ("use", "enter", "type", "set")):
        yield at - 1


def _is_no_word(text: str) -> bool:
    return any(letter.isdecimal() or letter in "!@#$%^&*+=~|\\<>" for letter in text)


def _run(bare: Sequence[str], start: int) -> list[str]:
    """Return the groups that stand from a place on, all of the first one's length and case."""
    run: list[str] = []
    for word in islice(bare, start, None):
        if not _GROUP.fullmatch(word) or word.casefold() in _ENDS:
            break
        if run and (len(word) != len(run[0]) or not _GROUPS.fullmatch("".join(run) + word)):
            break
        run.append(word)
    return run


def _are_of_a_key(groups: Sequence[str]) -> bool:
    """Return whether groups are those of one key: figures and letters among each other, in no pattern."""
    shapes = ["".join("9" if letter.isdigit() else "a" for letter in group) for group in groups]
    n_mixed = sum("9" in shape and "a" in shape for shape in shapes)
    n_wanted = 1 if all(group.upper() == group for group in groups) else (len(groups) + 1) // 2
    return len(set(shapes)) > 1 and n_mixed >= n_wanted and sum(map(len, groups)) >= _FEWEST_OF_GROUPS

"""Telling a word that looks like a secret or like somebody's address from one of ordinary language."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from urllib.parse import unquote

from agent_utilities.runtime.issued_tokens import ISSUED

LONGEST_WORD = 200
"""Characters of the longest word that is taken for one."""

_FEWEST_DIGITS = 9
"""From here a number is a phone's, a card's, an account's."""
_MOST_BESIDE_YEARS = 5
"""Digits that may stand among years: `v2 2024 2025 10-15`."""
_ADDRESS = re.compile(r"[^\s@]@[^\W\d]|://[^/\s@]*@")
"""Mail addresses, and URLs that a user's name or password stands in."""
_QUERY_SECRET = re.compile(r"[?&#;](?:code|state|sig|key|jwt|sid|pass|pwd|auth|x-amz-[a-z-]+)=", re.IGNORECASE)
_IPV4 = re.compile(r"(?<!\d)\d{1,3}(?:\.\d{1,3}){3}(?!\d)")
_IPV6 = re.compile(
    r"(?<![A-Za-z0-9:])(?:(?:[A-Fa-f0-9]{1,4}:){7}[A-Fa-f0-9]{1,4}|(?=[A-Fa-f0-9:]*::)[A-Fa-f0-9:]{3,39})"
    r"(?:%\w+)?(?![A-Za-z0-9:])"
)
_MAC = re.compile(r"(?<![A-Fa-f0-9])[A-Fa-f0-9]{2}(?:[:-][A-Fa-f0-9]{2}){5}(?![A-Fa-f0-9])")
_SHAPES = (ISSUED, _ADDRESS, _QUERY_SECRET, _IPV4, _IPV6, _MAC)
_ORDINARY_DIGITS = re.compile(
    r"""(?<![\d.]) (?: (?:19|20)\d\d([-/.]?)(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12]\d|3[01])   # a date, its year first
    | (?:0?[1-9]|[12]\d|3[01])([-/.])(?:0?[1-9]|[12]\d|3[01])\2(?:19|20)\d\d             # or last
    | T?\d\d?:\d\d(?::\d\d(?:\.\d+)?)?                                                   # a time
    | \d\d[01]\d\.\d{5} ) (?![\d.]*\d)                                                   # a paper on arXiv""",
    re.VERBOSE,
)
_DIGITS = re.compile(r"\d(?:[-._/()+:*# ]{0,3}\d)*")
_GROUP = re.compile(r"\d+")
_YEAR = re.compile(r"(?:19|20)\d\d")
_HEX = re.compile(r"[A-Fa-f0-9]{16}|[A-Fa-f0-9]{8}-(?:[A-Fa-f0-9]{4}-){3}[A-Fa-f0-9]{8}")
_RUN = re.compile(r"[A-Za-z0-9+/_=-]{10,}")
_UNBROKEN_RUN = re.compile(r"[A-Za-z0-9]{10,}")
_HOST = re.compile(r"https?://[A-Za-z][A-Za-z0-9.-]*(?=[/?#])", re.IGNORECASE)
_ASCII_PART = re.compile(r"([!-~]+)")
_PAIRS = frozenset(
    row[0] + second
    for row in (
        "abcdgiklmnprstuvyz baeilorsuy cacehiklorstu dadeiorsu eabcdefgilmnopqrstvwxy faefiortu gaeghinorsu haeiotu "
        "iabcdefglmnoprstvz je keins ladeilopstuy maeimopuy nacdefgilnostvy oabcdfgiklmnoprstuvw padehiloprstu qlu "
        "racdegiklmnorstuvy sacehikopqstuy tacehilorstuy uabcdegilmnprst vaei waehiors xpt ynops zeu"
    ).split()
    for second in row[1:]
)
"""The letters that follow one another in 97 of 100 places of the names and texts of tools; by chance 37 would."""


def looks_secret(word: str) -> bool:
    """Return whether a word looks like a key, a token, an address, or a number that is somebody's."""
    if len(word) > LONGEST_WORD:
        return True
    spelt = _without_marks(word)
    forms = {spelt, unquote(spelt)} if "%" in spelt else {spelt}
    return any(
        any(shape.search(form) for shape in _SHAPES) or any(long_numbers(form)) or _is_random(form) for form in forms
    )


def without_secret_part(word: str) -> str:
    """Return what of a word does not look like a secret: all, nothing, a URL's host, or what is not ASCII around one.

    Languages that put no space between words would lose a sentence for each secret in it.
    """
    if not looks_secret(word):
        return word
    if (url := _HOST.match(word)) and "@" not in word:
        return "" if looks_secret(url[0]) else url[0]
    if not any(unicodedata.category(letter) == "Lo" for letter in word):
        return ""
    rest = "".join(part for part in _ASCII_PART.split(word) if part and not looks_secret(part))
    return "" if looks_secret(rest) else rest


def long_numbers(text: str) -> Iterator[tuple[int, int]]:
    """Yield where numbers of nine digits or more begin and end, in groups too; dates, times and years are none."""
    rest = _ORDINARY_DIGITS.sub(lambda match: "~" * len(match[0]), text)
    for number in _DIGITS.finditer(rest):
        groups = _GROUP.findall(number[0])
        n_digits = sum(map(len, groups))
        n_of_years = 4 * sum(_YEAR.fullmatch(group) is not None for group in groups)
        if n_digits >= _FEWEST_DIGITS and n_digits - n_of_years > _MOST_BESIDE_YEARS:
            yield number.span()


def _without_marks(word: str) -> str:
    if word.isascii():
        return word
    return "".join(letter for letter in unicodedata.normalize("NFKD", word) if unicodedata.category(letter)[0] != "M")


def _is_random(word: str) -> bool:
    """Return whether letters and digits follow one another as chance has them, and not as in a language."""
    if _HEX.search(word):
        return True
    for run in _UNBROKEN_RUN.findall(word):
        n_kinds = any(map(str.isupper, run)) + any(map(str.islower, run)) + any(map(str.isdigit, run))
        if len(run) < 16 and n_kinds == 3 and _strangeness(run) > 0.7:
            return True
    return any(
        len(part) >= fewest and _strangeness(part) > most
        for runs, fewest, most in ((_UNBROKEN_RUN, 16, 0.4), (_RUN, 20, 0.5))
        for run in runs.findall(word)
        for part in _windows(run)
    )


def _windows(run: str) -> Iterator[str]:
    """Yield a run's parts of 20 characters, so that words around a key do not hide it."""
    yield run
    for start in range(0, max(0, len(run) - 20) + 1, 5):
        yield run[start : start + 20]


def _strangeness(run: str) -> float:
    """Return the share of a run's neighbours that are strangers: rare pairs of letters, a letter beside a digit."""
    n_pairs = n_strange = 0
    for first, second in pairwise(run):
        if not (first.isalnum() and second.isalnum()) or (first.islower() and second.isupper()):
            continue
        n_pairs += 1
        if first.isdigit() and second.isdigit():
            continue
        n_strange += (first + second).lower() not in _PAIRS
    return n_strange / n_pairs if n_pairs >= 6 else 0.0

"""What of a message its user wrote: neither blocks that hosts put into it, such as skills, nor what was pasted.

Pasted are lines that a program wrote, such as stack traces, logs, JSON, tables and code. What they are about is not
what is asked for: a log that names a database calls for no query. So what is said around them is read alone. A line is
told by its form, whatever program wrote it: how few of its words are plain ones, how it begins, whether it stands in
columns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import groupby

# XML allows no `<` within a tag, not even in quotes, so that every character is looked at for one tag only: the time
# is linear, whatever the text. `a < b`, `Map<int, string>` and `<bob@example.org>` are no tags.
_TAG = re.compile(
    r"<(?P<end>/?)(?P<name>[A-Za-z_][\w.-]*+(?::[\w.-]++)?+)(?=[\s/>])"
    r"(?:(?:[^<>\"']|\"[^\"<]*+\"|'[^'<]*+')*+>|[^<>]*+>)"
)
_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
"""Elements of HTML that are never closed."""


def intent_text(text: str) -> str:
    """Return a message without its XML blocks and what else was pasted into it; as it is where it has neither.

    A tag that is never closed is prose or code (`centre a <div>`, `List<int>`) and stays. At the start of a line it
    opens a block whose end was cut off: nothing after it is known to be the user's, and all of that goes.

    >>> intent_text('<log level="x">kubectl: refused</log> why is a < b for List<int>?')
    'why is a < b for List<int>?'
    """
    if "<" in text and (blocks := _blocks(text)):
        starts, ends = zip(*blocks, strict=True)
        said = (text[end:start].strip() for end, start in zip((0, *ends), (*starts, len(text)), strict=True))
        text = "\n".join(filter(None, said))
    return without_pastes(text)


def _blocks(text: str) -> list[tuple[int, int]]:
    """Return where the outermost blocks start and end, in order."""
    opened: list[tuple[str, int]] = []
    n_opened = Counter[str]()
    blocks: list[tuple[int, int]] = []
    for tag in _TAG.finditer(text):
        name, start = tag["name"].lower(), tag.start()
        if name in _VOID or (not tag["end"] and tag.group().endswith("/>")):
            continue
        if not tag["end"]:
            opened.append((name, start))
            n_opened[name] += 1
        elif n_opened[name]:
            last = ""
            while last != name:  # what was opened within it is closed too
                last, start = opened.pop()
                n_opened[last] -= 1
            while blocks and blocks[-1][0] > start:
                blocks.pop()
            blocks.append((start, tag.end()))
    cut_off = next((start for _, start in opened if _starts_line(text, start)), None)
    if cut_off is None:
        return blocks
    return [block for block in blocks if block[0] < cut_off] + [(cut_off, len(text))]


def _starts_line(text: str, place: int) -> bool:
    line_start = max(text.rfind("\n", 0, place), text.rfind("\r", 0, place)) + 1
    return not text[line_start:place].strip(" \t")


_N_CHARACTERS = 240
"""Of a line, that are looked at."""
_MANY, _N_COLUMNS, _N_IN_A_ROW = 3, 3, 3
_MOST, _LARGE, _SMALL = 0.6, 0.4, 0.15
"""Shares of words that are not plain: of few words, where there are three of them, and beside lines of a program."""

_PLAIN = re.compile(
    r"""[("'\u201c\u2018*_]*+(?![^\W\d_]*[a-z][A-Z])[^\W\d_]++(?:['\u2019/-][^\W\d_]++)*+[)"'\u201d\u2019*_.,;:!?\u2026]*+\Z
    |.*[^\W\x00-\x7f]""",
    re.VERBOSE,
)
"""A word as people write it: without capitals, marks and digits inside. Scripts without spaces are words too."""
_NUMBER = re.compile(r"[^\w{}\[\]|\\]*+(?:v?\d++(?:[.,:/-]\d++){0,2}\w{0,2}[^\w\s]*+)?\Z")
"""A number, a date, a version, or marks alone: they tell nothing of who wrote them."""
_BEGINNING = re.compile(
    r"""\s*+(?:
      \[?\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}[T\ ,]+\d\d?:\d\d | \[?\d\d?:\d\d:\d\d | \[\s*\d+\.\d+\]
    | (?:[A-Z][a-z]{2}\ )?[A-Z][a-z]{2}\ [ \d]\d\ \d\d:\d\d
    | [\[<(]?(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL|SEVERE)(?:[\]>):]|\s+[\[(\d])
    | [\w.$]*(?:Error|Exception|Warning)\b[^\s:]*: | (?:[eE]rror|panic|fatal)(?:\[\w+\])?: | [A-Z]{2,}[-_]?\d+:
    | (?:Uncaught|Unhandled|Exception\ in|Caused\ by:|Traceback\ \(|File\ "|npm\ (?:ERR!|WARN))
    | at\ [\w.$<>]+\( | thread\ '\w+'\ panicked | [\w./\\-]*[a-zA-Z][:(]\d+[,:)] | [\w./-]+:\ [\w./-]+(?:\ \d+)?:\s
    | [\[{]\s*["\[{] | [\]}][\]}),;]*+\s*\Z | <[?!] | ([-=_*\#~+])\1{4} | (?!https?:)\S{60}
    )""",
    re.VERBOSE,
)
"""Of a line that begins with a time, a level, an error, a place in a file, JSON or a rule, or with no word at all."""
_LIKELY = re.compile(r"(?![-*•] \w)\W|[A-Z]{3,}\b|[\w-]+(?: [\w-]+)?:(?:\s+\S+){0,4}\s*\Z|.*[^\s.!?:;](?: {2,}|\t)\S")
"""Of a line that is indented, has a key, or stands in two columns; a person's list has one space after each mark."""
_COLUMN_END = re.compile(r"\S(?: {2,}|\t)(?=\S)")
_FENCE = re.compile(r"[ \t]*(```|~~~)")


class _Look(IntEnum):
    BLANK = 0
    PROSE = 1
    LIKELY = 2
    PASTED = 3


def without_pastes(text: str) -> str:
    r"""Return what a message says around what was pasted into it; as it is where nothing was.

    >>> without_pastes('why is this?\nKeyError: "id"\n  File "a.py", line 3, in get\nplease open an issue')
    'why is this?\nplease open an issue'
    """
    lines = text.split("\n")
    looks = _looks(lines)
    if _Look.PASTED not in looks:
        return text
    paragraphs = groupby(range(len(lines)), lambda place: looks[place] is _Look.BLANK)
    kept = [place for is_blank, places in paragraphs if not is_blank for place in _said(looks, list(places))]
    return "\n".join(lines[place].strip() for place in kept)


def _looks(lines: Sequence[str]) -> list[_Look]:
    """Return what each line looks like; all that stands between fences is pasted."""
    looks, fence = [], ""
    said = ["", *(line[:_N_CHARACTERS].strip() for line in lines), ""]
    for place, line in enumerate(lines):
        mark = opened[1] if (opened := _FENCE.match(line)) else ""
        is_alone = not said[place] and not said[place + 2]
        looks.append(_Look.PASTED if mark or fence else _look(line[:_N_CHARACTERS], is_alone))
        if mark and fence in ("", mark):
            fence = "" if fence else mark
    for place in range(len(looks) - _N_IN_A_ROW + 1):
        row = slice(place, place + _N_IN_A_ROW)
        if min(looks[row]) >= _Look.LIKELY:
            looks[row] = [_Look.PASTED] * _N_IN_A_ROW
    return looks


def _look(line: str, is_alone: bool) -> _Look:
    said = line.strip()
    if not said or _BEGINNING.match(line):
        return _Look.PASTED if said else _Look.BLANK
    words = said.split()
    others = [word for word in words if not (word.isalpha() and word.islower())]
    unsure = [word for word in others if not _NUMBER.match(word)]
    n_odd = sum(not _PLAIN.match(word) for word in unsure)
    share = n_odd / max(1, len(words) - len(others) + len(unsure))
    is_odd = share >= _LARGE if n_odd >= _MANY else share > _MOST and not is_alone
    if is_odd or (n_odd and said[-1] in "{;") or len(_COLUMN_END.findall(said)) >= _N_COLUMNS - 1:
        return _Look.PASTED
    return _Look.LIKELY if share >= _SMALL or _LIKELY.match(line) else _Look.PROSE


def _said(looks: Sequence[_Look], places: Sequence[int]) -> Iterator[int]:
    """Yield the lines of a paragraph that its user wrote: those of prose at its edges; a program has no other."""
    certain = [place for place in places if looks[place] is _Look.PASTED]
    if not certain:
        yield from places if any(looks[place] is _Look.PROSE for place in places) else ()
        return
    first, last = certain[0], certain[-1]
    while first > places[0] and looks[first - 1] is _Look.LIKELY:
        first -= 1
    while last < places[-1] and looks[last + 1] is _Look.LIKELY:
        last += 1
    yield from (place for place in places if not first <= place <= last)

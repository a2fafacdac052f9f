"""The tool `read_result`: its definition, its arguments, and what it answers of a kept result."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from agent_utilities.errors import InputError
from agent_utilities.results.content import LONE, Whole, bytes_of, written
from agent_utilities.results.outline import NO_VALUE
from agent_utilities.results.select import missing, select
from agent_utilities.results.shape import (
    Shown,
    Units,
    characters_of,
    go_on,
    head_of,
    quoted,
    shortened,
    units_of,
    whole_character,
    within,
)

READ_RESULT_DESCRIPTION = (
    "Read more of a result that was shortened: pick from JSON by `select`, search by `find`, or read on from `start`."
    " `start` or `find` beside `select` applies to what it selects."
)
READ_RESULT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "result": {"type": "string", "description": "r_…"},
        "select": {"type": "string", "description": "JMESPath: issues[?state=='open'].{n: number, title: title}"},
        "find": {"type": "string", "description": "Literal text"},
        "start": {"type": "integer", "description": "From 0; -10: the last 10"},
        "count": {"type": "integer"},
        "unit": {"enum": ["items", "lines", "characters"]},
    },
    "required": ["result"],
}
_TAKES = "it takes result, and select, find, start, count or unit"
_NUMBER = re.compile(r"[+-]?\d{1,15}(?:\.0*)?\Z", re.ASCII)
_MOST_PLACES = 10_000
_SHARES, _MOST_OF_MANY = 8, 1_200
"""Places whose items share a budget evenly; where there are more, the others follow by another call. A place in no item
has such a share at most, since what is meant is near it, and so many bytes where an even share is less."""
_LABEL = 64
"""Bytes of the line before a place."""
_STEP = 1 << 18
"""Characters that are searched in one call."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """Parsed arguments of `read_result`, without the result.

    Args:
        is_range: whether `start` or `count` was given.
    """

    select: str
    find: str
    start: int
    count: int | None
    unit: str | None
    is_range: bool

    def further(self, **changed: Any) -> dict[str, Any]:
        """Return the arguments of a call that goes on."""
        values = {"select": self.select, "find": self.find, "unit": self.unit, **changed}
        return {key: value for key, value in values.items() if value not in ("", None)}


def arguments_of(arguments: Mapping[str, Any]) -> Arguments:
    """Return parsed arguments: a number may come as text; null or an empty text stands for none.

    Raises:
        InputError: one is unknown, of the wrong type or out of bounds.
    """
    values = {key: value for key, value in arguments.items() if value not in (None, "")}
    if unknown := sorted(values.keys() - READ_RESULT_SCHEMA["properties"].keys()):
        raise InputError("no such argument", unknown[0], "read_result", _TAKES)
    for key in ("select", "find"):
        if not isinstance(values.get(key, ""), str):
            raise InputError("not a text", values[key], f"read_result: {key}", "give it as a string")
    is_range = "start" in values or "count" in values
    if (unit := values.get("unit")) not in (None, *READ_RESULT_SCHEMA["properties"]["unit"]["enum"]):
        raise InputError("no such unit", unit, "read_result: unit", "give items, lines or characters")
    start = _whole_number(values.get("start", 0), "start")
    count = _whole_number(values["count"], "count") if "count" in values else None
    if count is not None and count < 1:
        raise InputError("nothing to read", count, "read_result: count", "give 1 or more, or leave it out")
    return Arguments(values.get("select", ""), values.get("find", ""), start, count, unit, is_range)


def _whole_number(value: Any, key: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**15:
        return value
    if isinstance(value, str | float) and _NUMBER.match(str(value).strip()):
        return int(float(value))
    raise InputError("not a whole number", value, f"read_result: {key}", "give one, such as 20")


def read(whole: Whole, arguments: Mapping[str, Any], tokens: int, handle: str, *, reader: str = "read_result") -> Shown:
    """Return a part of a whole within a budget: what is selected, the places of a text, or a range.

    The first block is a line of ours: what is shown, and the call that goes on. A range, or what is selected where all
    of it fits, is the second block, exactly. `select` beside `find` or `start` searches or pages what is selected.

    Args:
        arguments: those of the tool; its `result` is not read.
        tokens: the budget, at least 200; never exceeded.
        handle: what the whole is kept under; empty where it is not.
        reader: the tool that reads on, as this caller knows it.

    Raises:
        InputError: they are malformed, or the whole has no such part.
    """
    asked = arguments_of(arguments)

    def further(**changed: Any) -> str:
        return go_on(reader, handle, asked.further(**changed))

    if asked.select:
        if whole.value is NO_VALUE:
            hint = "use find, or start and count"
            raise InputError("no JSON to select from", asked.select, "read_result: select", hint)
        result = select(asked.select, whole.value)
        selected = _selected(result)
        if not asked.find and not asked.is_range:
            n = f"{len(result):,} items, " if isinstance(result, list) else ""
            what = f"selected {n}{selected.tokens:,} of {whole.tokens:,} tokens, and all of it follows"
            why = missing(asked.select, whole.value, result)
            line = "; ".join(filter(None, [what, why, go_on(reader, handle, {"start": 0}, "has the whole")]))
            shown = Shown.of("what was selected", line, selected.text)
            if shown.n_tokens <= tokens:
                return shown
            less = "; a narrower select shows more of what it selects"
            return shortened(selected, tokens, handle, reader=reader, arguments=asked.further(), said=less)
        whole = selected
    return within(tokens, _places(whole, asked, handle, further) if asked.find else _range(whole, asked, further))


def _selected(result: Any) -> Whole:
    """Return what was selected as a whole: a text as it is, an array with one item a line."""
    if isinstance(result, str) and not LONE.search(result):
        return Whole.of(result)
    lines = ",\n".join(map(written, result)) if isinstance(result, list) else ""
    return Whole.of(f"[{lines}]" if lines else written(result))


def _first(asked: Arguments, n: int, name: str) -> int:
    """Return the index at which to start; below 0 it counts from the end."""
    start = asked.start if asked.start >= 0 else max(0, n + asked.start)
    if start >= n:
        hint = f"give 0 to {n - 1:,}" if n else "there is nothing to read"
        raise InputError(f"there are {n:,} {name}", asked.start, "read_result: start", hint)
    return start


def _range(whole: Whole, asked: Arguments, further: Callable[..., str]) -> Callable[[int], Shown]:
    """Return what makes the answer of a range, given the most bytes of content."""
    units, text = units_of(whole, asked.unit), whole.text
    if asked.unit not in (None, units.name):
        raise InputError("no JSON with items", asked.unit, "read_result: unit", "give lines or characters")
    first = _first(asked, units.n, units.name)
    last = min(units.n, first + (asked.count or units.n))
    start, limit = units.span(first)[0], units.span(last - 1)[1]

    def make(n_bytes: int) -> Shown:
        end = head_of(text, start, limit, units, n_bytes)
        after = last if end == limit else units.n_before(end)
        if after > first and units.span(after - 1)[1] == end:
            what = f"{units.name} {first:,} to {after - 1:,} of {units.n:,}"
            left = last - after if asked.count else None
            end_of_it = f"{units.n - last:,} more are not asked for" if last < units.n else "they are the last"
            rest = further(start=after, count=left) if after < last else end_of_it
        else:
            what = f"characters {start:,} to {end - 1:,} of {len(text):,}, which begin {units.name[:-1]} {first:,}"
            rest = further(start=end, unit="characters")
        return Shown.of(what, f"{what} follow; {rest}", text[start:end])

    return make


def _places(whole: Whole, asked: Arguments, handle: str, further: Callable[..., str]) -> Callable[[int], Shown]:
    """Return what makes the answer of a search, given the most bytes of content."""
    text, find, units = whole.text, asked.find, units_of(whole)
    spellings = {find, written(find)[1:-1], json.dumps(find)[1:-1]} if whole.outline else {find}
    is_any_case = find == find.lower()
    places = list(islice(_found(text, spellings, is_any_case=is_any_case), _MOST_PLACES))
    if not places and not is_any_case:
        is_any_case, places = True, list(islice(_found(text, spellings, is_any_case=True), _MOST_PLACES))
    n = f"{len(places):,} place{'s' * (len(places) != 1)}" + " or more" * (len(places) == _MOST_PLACES)
    said = quoted(find if len(find) < 60 else f"{find[:60]}…")
    what = f"{n} of {said}{' in any case' if is_any_case else ''}"
    if not places:
        return lambda _: Shown.of(what, f"{what}: it is not there, or is written otherwise")
    first = _first(asked, len(places), "places")
    last = min(len(places), first + (asked.count or len(places)))

    def make(n_bytes: int) -> Shown:
        body, after, n_places = list[str](), -1, last - first
        n_item = max(1, n_bytes // min(n_places, _SHARES) - _LABEL)
        n_around = max(n_bytes // max(n_places, _SHARES) - _LABEL, min(n_item, _MOST_OF_MANY))
        for i in range(first, last):
            if places[i][0] < after:
                continue
            start, end = _around(text, *places[i], units, n_item, n_around)
            part = text[max(start, after) : end].removesuffix("\n")
            label = f"[{handle} {units.name[:-1]} {units.n_before(places[i][0])}]"
            n_bytes -= bytes_of(part) + len(label) + 2
            if n_bytes < 0 and body:
                break
            body, after = [*body, label, part], end
        else:
            i = last
        shown = f"those from {first:,} to {i - 1:,} follow; {further(start=i)}" if i < len(places) else "all follow"
        return Shown.of(what, f"{what}; {shown}", "\n".join(body))

    return make


def _found(text: str, spellings: Collection[str], *, is_any_case: bool) -> Iterator[tuple[int, int]]:
    """Yield where a text is found, its first character and the one after it, by short steps."""
    pattern = re.compile("|".join(map(re.escape, sorted(spellings))), re.IGNORECASE if is_any_case else 0)
    at, longest = 0, max(map(len, spellings))
    while at < len(text):
        if (match := pattern.search(text, at, at + _STEP + longest)) is not None:
            yield match.span()
            at = match.end()
        else:
            at += _STEP


def _around(text: str, start: int, end: int, units: Units, n_item: int, n_bytes: int) -> tuple[int, int]:
    """Return what is shown around a place: its item where that fits, or its line with some before and after it."""
    lowest, limit = 0, len(text)
    if units.name == "items" and (n := units.n_before(start)) < units.n and units.span(n)[0] <= start:
        lowest, limit = units.span(n)
    if bytes_of(text[lowest : min(limit, lowest + n_item + 1)]) <= n_item:
        return lowest, limit
    lowest = max(lowest, start - n_bytes // 4)  # what is meant follows, more often than not
    line = text.rfind("\n", lowest, start) + 1
    first = text.find("\n", max(lowest, line - n_bytes // 6), max(0, line - 1)) + 1 or line
    first = first or whole_character(text, lowest)
    most = max(1, n_bytes - bytes_of(text[first:start]))
    return first, max(end, head_of(text, start, limit, characters_of(text), most))

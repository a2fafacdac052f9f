"""A reader by rules: it derives calls of `read_result` from a question and what was shown, as a model would.

It sees what a prompt has: the question, the line of what there is, the sketch, head and tail, and what was read since.
What a question names literally (an identifier, a number, a name, words in quotes) is what it looks for: by `select`
where one field of the sketch has examples that are written like it, or a map has such keys; else by `find`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_HANDLE = re.compile(r'result="([^"]+)"')
_QUOTED = re.compile(r'"([^"]+)"')
_NAME = re.compile(r"(?:[A-Z][a-z]+ )+[A-Z][a-z]+(?: \d+)?")
_SUBJECT = re.compile(r"^([\w-]+)(?:'s|:| in\b)|\b(?:of|for|does|did|may|can|from|by|in|at|to)(?: the)? ([\w-]+)")
"""Where a sentence names a thing: "fenim in production: …", "the timeout of the fenim service"."""
_KEY = r'"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*'
_SKETCHED = re.compile(rf"( *)((?:{_KEY})(?:, (?:{_KEY}))*|\*|)((?:\[\d*\])*): (.*)")
_SUCH_AS = re.compile(rf"keys such as ((?:{_KEY})(?:, (?:{_KEY}))*)")
_EXAMPLE = re.compile(r'"((?:[^"\\]|\\.)*)"')
_INTEGERS = re.compile(r"(?:integer|number) (-?\d+)(?: to (-?\d+))?(?![\d.])")
_LENGTHS = re.compile(r"of (\d[\d,]*)(?:-(\d[\d,]*))?")
_PLACE = re.compile(r"\[r_\w+ (item|line|character) ([\d,]+)\]")
_TIME = re.compile(r"\d{4}-\d\d-\d\d")
_PLAIN = re.compile(r"[A-Za-z_]\w*")
_COMMON = frozenset(
    "what which who whom whose when where how why does did do is are was were has have had may can the a an of in "
    "on at to for by with and or please be its it that this from into under over give gives get gets set tell find "
    "named called run runs use uses used take takes took come came out begin began start end happen listen stand "
    "stands change changed publish published release released send sent open opened close closed fail failed write "
    "written update updated modify modified create created reach reached assign assigned connect long large big "
    "many much old new last first next name value text number title time date day page file user service server "
    "request version issue code color size password address email mail phone price cost reason cause state status "
    "kind type id key word line part place owner author message error team port timeout database".split()
)
"""Words that name no one thing, a part of the English that a model knows."""
_ALSO = (
    "When: when time date modifi updat start; time: when date modifi updat start; Who: user author sender login; "
    "Where: url location path; large: size bytes; long: duration took"
).split("; ")
"""What a word of a question may be called in data."""
_LEAST_FIT, _IN_PART, _APART = 0.6, 0.6, 0.08
_DEEP = 4
"""Arrays within one another from which on a search is safer than a path."""
_LARGE_ITEM = 900
"""Tokens of an item from which on only the fields that a question names are selected."""
_ONWARDS = {"items": 1, "lines": 40, "characters": 6_000}
"""How much is read on from a place that a search found."""


@dataclass(frozen=True, slots=True)
class Field:
    """A line of the sketch.

    Args:
        path: the keys that lead to it, each with `[]` for every array that follows it; `*` for any key of a map.
        told: what the line says of its values.
    """

    path: tuple[str, ...]
    told: str

    @property
    def key(self) -> str:
        """Its own key."""
        return _bare(self.path[-1])

    @property
    def arrays(self) -> list[int]:
        """Where arrays are in its path."""
        return [i for i, name in enumerate(self.path) if "[" in name]


def next_read(
    question: str, prompt: Sequence[Sequence[str]], calls: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Return the arguments of the next `read_result`; None where there is nothing left to try.

    Args:
        question: in plain words.
        prompt: the texts of what was shown, then those of what each call gave.
        calls: made so far.
    """
    handle = _HANDLE.search(prompt[0][0])
    if handle is None:
        return None
    fields = list(_fields(prompt[0][1])) if len(prompt[0]) > 2 else []
    size = [int(n.replace(",", "")) for n in re.findall(r"([\d,]+) (?:tokens|items)", prompt[0][0])]
    sketch = _Sketch(question, fields, is_large=len(size) > 1 and size[0] > _LARGE_ITEM * size[1])
    tried = [{key: value for key, value in call.items() if key != "result"} for call in calls]
    selects = [{"select": expression} for expression in sketch.selects()]
    for arguments in [*_onwards(tried, prompt[-1]), *selects, *({"find": each} for each in sketch.literals)]:
        if arguments not in tried:
            return {"result": handle[1], **arguments}
    return None


def _onwards(tried: Sequence[Mapping[str, Any]], texts: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield what reads on from the first place that a search found: an item, or what follows a line or a character."""
    if tried and "find" in tried[-1] and (place := _PLACE.search("\n".join(texts))) is not None:
        unit = f"{place[1]}s"
        yield {"start": int(place[2].replace(",", "")), "count": _ONWARDS[unit], "unit": unit}


# -- what a question names ---------------------------------------------------------------------------------------------


def _literals(question: str, fields: Sequence[Field]) -> list[str]:
    """Return what a question names literally, the most telling first; a key of the sketch is none."""
    keys = {field.key for field in fields}
    first, _, others = question.partition(" ")
    rest = _QUOTED.sub(" ", f"{first.lower()} {others}" if first.lower() in _COMMON else question)
    tokens = [part for token in _NAME.sub(" ", rest).split() for part in re.split(r"@(?=\d)", _stripped(token))[::-1]]
    tokens = [token for token in tokens if token and token not in keys and token.lower() not in _COMMON]
    telling = sorted((token for token in tokens if _weight(token)), key=_weight, reverse=True)
    if literals := [*_QUOTED.findall(question), *telling, *(name for name in _NAME.findall(rest) if name not in keys)]:
        return list(dict.fromkeys(literals))
    words = _words(" ".join(keys))
    plain = [token for token in tokens if not _words(token) & words]
    subjects = [word for found in _SUBJECT.findall(rest) for word in found if word in plain]
    return list(dict.fromkeys([*subjects, *sorted(plain, key=len, reverse=True)]))


def _stripped(token: str) -> str:
    return re.sub(r"^[(\[#']+|('s)?[.:;?!,)\]']*$", "", token)


def _weight(token: str) -> int:
    """Return how little a token looks like a word: digits, then other marks within it, then capitals within it."""
    marks = (r"\d", r"\w[_./:@?=-]+\w|^/", r"[a-z][A-Z]")
    return sum(n * bool(re.search(mark, token)) for n, mark in zip((3, 2, 1), marks, strict=True))


def _words(text: str) -> set[str]:
    """Return the words of keys or of a question, without endings."""
    return {re.sub(r"(ies|es|s|ed|d)$", "", word.lower()) for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", text)}


# -- the sketch --------------------------------------------------------------------------------------------------------


def _fields(sketch: str) -> Iterator[Field]:
    """Yield the lines of a sketch with the paths that lead to them; what is said of several keys is said of each."""
    above: list[tuple[str, ...]] = []
    for parts in filter(None, map(_SKETCHED.fullmatch, sketch.splitlines())):
        names = re.findall(rf"{_KEY}|\*", parts[2]) or [""]
        above[len(parts[1]) // 2 :] = [tuple(name + parts[3] for name in names)]
        paths: list[tuple[str, ...]] = [()]
        for several in above:
            paths = [(*path, name) for path in paths for name in several]
        yield from (Field(path, parts[4]) for path in paths)


def _bare(name: str) -> str:
    return str(json.loads(name[: name.rindex('"') + 1])) if name.startswith('"') else name.partition("[")[0]


def _alike(literal: str, example: str) -> float:
    """Return how alike two texts are written: their marks and the order of these, digits or none, how they begin."""
    if example.endswith("…"):
        literal, example = literal[: len(example) - 1], example[:-1]
    marks = [re.sub(r"[A-Za-z0-9]+", "", text) for text in (literal, example)]
    if marks[0] != marks[1]:
        return _IN_PART if marks[0] and marks[1].startswith(marks[0]) else 0
    has_digits = [bool(re.search(r"\d", text)) for text in (literal, example)]
    begins = re.match(r"[A-Za-z]*", "" if re.fullmatch(r"[0-9a-f]+", example) else example)
    is_begun = begins is not None and begins[0] != "" and literal.startswith(begins[0])
    return (0.65 if has_digits[0] == has_digits[1] else 0.3) + 0.2 * is_begun + 0.1 * bool(marks[0])


@dataclass(frozen=True)
class _Way:
    """A literal that may be a field's value."""

    fit: float
    literal: str
    field: Field

    def condition(self, start: int) -> str:
        """Return the condition for it, beneath a place in the field's path."""
        path, literal, told = _dotted(self.field.path[start:]), self.literal, self.field.told
        value = f"`{literal}`" if literal.isdecimal() and "number" in told else "'" + literal.replace("'", "\\'") + "'"
        is_whole = literal.isdecimal() or any(_alike(literal, each) > _IN_PART for each in _EXAMPLE.findall(told))
        return f"{path}=={value}" if path and is_whole else f"contains({path or '@'}, {value})"


class _Sketch:
    """What a question may select by the sketch.

    Args:
        is_large: whether items are too large to be selected whole.
    """

    def __init__(self, question: str, fields: Sequence[Field], *, is_large: bool) -> None:
        self.fields, self.is_large, self.literals = fields, is_large, _literals(question, fields)
        self.said = {*map(_stripped, question.split())}
        self.asked = _words(question) | self.said
        also = (each.split(": ") for each in _ALSO)
        self.asked |= {word for said, words in also if said in question for word in words.split()}

    def selects(self) -> Iterator[str]:
        """Yield expressions, the most promising first: paths by keys that are named, then items by a field."""
        paths = [path for field in self.fields for path in (*self._beneath(field), *self._through(field))]
        yield from (path for _, path in sorted(paths, key=lambda each: -each[0]))
        ways = [
            _Way(fit - 0.02 * n, literal, field)
            for n, literal in enumerate(self.literals)
            for field in self.fields
            if " " not in literal and (fit := self._fit(literal, field)) >= _LEAST_FIT
        ]
        best = max(ways, key=lambda way: (way.fit, -len(way.field.path)), default=None)
        if best is not None and len(best.field.arrays) < _DEEP:
            near = [way for way in ways if way.literal == best.literal and way.fit > best.fit - _APART]
            if all(way.field.path == best.field.path for way in near):  # else it may be any of several fields
                yield self._items(best, [way for way in ways if way.literal != best.literal])

    def _fit(self, literal: str, field: Field) -> float:
        """Return how much a literal resembles the field of an item or a row, and a little more where it is named."""
        named = 0.1 * len(_words(field.key) & self.asked)
        is_scalar = field.arrays[-1:] == [len(field.path) - 1] and "[][]" not in field.path[-1]
        if "*" in field.path or not field.arrays or is_scalar or not (_weight(literal) or named):
            return 0
        if literal.isdecimal() and (numbers := _INTEGERS.search(field.told)) is not None:
            return 0.75 + named if int(numbers[1]) <= int(literal) <= int(numbers[2] or numbers[1]) else 0
        _, _, told = field.told.partition("string")
        lengths = [int(n.replace(",", "")) for found in _LENGTHS.findall(told)[:1] for n in found if n]
        fits = [0.0]
        for example in _EXAMPLE.findall(told):
            least, most = (lengths[0], lengths[-1]) if lengths else (len(example) * 0.7, len(example) * 1.4)
            if least * 0.8 - 1 <= len(literal) <= most * 1.2 + 1:
                fits.append(_alike(literal, example) + named)
        return max(fits)

    def _beneath(self, field: Field) -> Iterator[tuple[int, str]]:
        """Yield the paths of literals such as `a.b.c` beneath a key that is named: "a.b.c in de"."""
        if field.key in self.said and "*" not in field.path and "string" not in field.told:
            dotted = [each.split(".") for each in self.literals if each.count(".") > 1]
            yield from ((99, _dotted([*field.path, *keys])) for keys in dotted if all(map(_PLAIN.fullmatch, keys)))

    def _through(self, field: Field) -> Iterator[tuple[int, str]]:
        """Yield paths through a map by a literal and the keys beneath it; what is named more is better."""
        such_as = _SUCH_AS.search(field.told)
        if such_as is None or "*" in field.path[:-1] or field.path[-1] != "*" or field.arrays:
            return
        keys = [_bare(key) for key in re.findall(_KEY, such_as[1])]
        beneath = {other.key for other in self.fields if other.path[:-1][: len(field.path)] == field.path}
        before = [_bare(name) for name in field.path[:-1]]
        n_named = len(_words(" ".join((*before, *beneath))) & self.asked) + 2 * len(self.asked.intersection(before))
        n_named += 3 * ("when" in self.asked and bool(_TIME.search(field.told)))
        for n, literal in enumerate(self.literals):
            first, *rest = [literal] if any("." in key for key in keys) else literal.split(".")
            is_there = not beneath or {*rest[:1]} <= beneath
            if is_there and first not in before and max(_alike(first, key) for key in keys) >= _LEAST_FIT:
                yield n_named - 2 * n, ".".join(map(_quoted, (*before, first, *rest)))

    def _items(self, way: _Way, others: Sequence[_Way]) -> str:
        """Return the expression for the items of the outermost array, or for those within it where these are large."""
        path, outer, inner = way.field.path, way.field.arrays[0], way.field.arrays[-1]
        condition, container, within = way.condition(inner + 1), _dotted(path[: outer + 1]), path[outer + 1 : inner + 1]
        own = [field for field in self.fields if field.path[: outer + 1] == path[: outer + 1] != field.path]
        if within and (self.is_large or "[][]" in within[-1]):
            near = [f"?{of.condition(outer + 1)}" for of in others if of.field in own and of.field.arrays == [outer]]
            return f"{container}[{''.join(near[:1])}].{_dotted(within, '[]')} | [?{condition}]"
        for name in reversed(within):
            condition = f"{_dotted([name])}[?{condition}]" if "[" in name else f"{_dotted([name])}.{condition}"
        named = [field for field in own if _words(field.key) & self.asked and field is not way.field]
        if not (self.is_large and named):
            return f"{container}[?{condition}]"
        picked = {re.sub(r"\W", "_", each.key): _dotted(each.path[outer + 1 :], "[]") for each in [way.field, *named]}
        return f"{container}[?{condition}].{{{', '.join(f'{label}: {path}' for label, path in picked.items())}}}"


def _dotted(path: Sequence[str], flat: str = "") -> str:
    return ".".join(_quoted(_bare(name)) + flat * ("[" in name) for name in path)


def _quoted(key: str) -> str:
    return key if _PLAIN.fullmatch(key) or not key else json.dumps(key, ensure_ascii=False)

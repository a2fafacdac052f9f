"""Invisible text of other servers, made visible or dropped, and counted: what no person sees, and a model reads.

Invisible are the characters that Unicode lets a font ignore, controls and marks of annotations. `_STAYS` has a line for
each use that writing has for them. What stays is one, at most three in a row, beside visible text that takes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Set
from typing import Any, Literal, TypeAlias

Mode: TypeAlias = Literal["show", "drop"]
"""What is done with invisible text: it is written so that it is seen, or left out."""

_CONTROL = {chr(n): f"\\x{n:02x}" for n in [*range(9), *range(14, 32), 127]}  # tabs, ends of lines and pages are none
_MARKS, _PAIRED, _TAGS = "\u061c\u200e\u200f", "\u202a-\u202e\u2066-\u2069", "\U000e0000-\U000e007f"
_SELECTORS, _FILLERS = "\ufe00-\ufe0f\U000e0100-\U000e01ef", "\u115f\u1160\u17b4\u17b5\u3164\uffa0"
_THIN = f"\xad\u034f\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\ufe00-\ufe0f\ufeff\ufff0-\ufffb{_FILLERS}"
_NEXT = f"{_THIN}\U000e0000-\U000e0fff"
_TREATED = f"\x80-\x9f{_MARKS}{_PAIRED}{_NEXT}"
_ANY = "".join(_CONTROL) + _TREATED
_SIGNS = "\xa9\xae\u1000-\u109f\u203c\u2049\u2100-\u303d\u3297\u3299\ua840-\uaa7f\uff01-\uff1f\U0001f000-\U0001faff"
_HAN, _JOINS = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff", "[\u200b-\u200d]"
_SPACED = (  # of scripts that need joiners, or have no spaces between words: Hebrew to Burmese, Khmer to Balinese, Han
    "\u0591-\u061b\u061d-\u109f\u1700-\u17b3\u17b6-\u180a\u1810-\u1cff\u3001-\u3163\u3165-\uabff\uf900-\ufdff"
    "\ufe70-\ufefc\uff01-\uff9f\U00010a00-\U00011fff\U0001e900-\U0001e95f\U00020000-\U0003ffff"
)
_JAMO = "\u1100-\u115e\u1161-\u11ff\u1780-\u17b3\u3131-\u3163\u3165-\u318e\ua960-\ua97f\ud7b0-\ud7ff\uffa1-\uffdc"
_STAYS = (  # each is tried after the character that may stay
    rf"(?<={_JOINS})(?:(?<=[{_SPACED}].)|(?<=[{_SPACED}]{_JOINS}.)|(?<=[{_SPACED}]{_JOINS}{{2}}.)"
    rf"|(?<=[{_SPACED}][^\w{_ANY}].)|(?={_JOINS}{{0,2}}[^\w{_ANY}]?[{_SPACED}]))(?<!{_JOINS}{{4}})(?!{_JOINS}{{3}})"
    rf"(?!(?<={_JOINS}{{2}}){_JOINS}{{2}})(?!(?<={_JOINS}{{3}}){_JOINS})(?!(?!{_JOINS})[{_NEXT}])",
    rf"(?<=\u200d)(?<=[{_SIGNS}\ufe0f].)(?=[{_SIGNS}])",  # a family
    rf"(?<=[\ufe00-\ufe0f])(?:(?<=[{_SIGNS}0][\ufe00\ufe01\ufe0e\ufe0f])|(?<=[#*0-9]\ufe0f)(?=\u20e3))(?![{_SELECTORS}])",
    rf"(?<=[\ufe00-\ufe02\U000e0100-\U000e011f])(?<=[{_HAN}].)(?![{_SELECTORS}])",  # a name as its family writes it
    rf"(?<=\xad)(?<![{_ANY}].)(?![{_ANY}])",  # a soft hyphen
    r"(?<=[\u1807\u1810-\u18aa][\u180b-\u180f])|(?<=[\u180b-\u180d\u180f]\u180e)",  # of Mongolian
    rf"(?<=[{_FILLERS}])(?:(?<=[{_JAMO}].)|(?=\u1160?[{_JAMO}]))",  # a syllable that lacks a letter
    rf"(?<=[\u200b\u2060])(?<=[!#-/:-@\[-`{{-~\u2010-\u2015].)(?=[^\s\"{_ANY}])",  # where a path may break
    rf"(?<=[\u2061-\u2064])(?<=[^\s\"{_ANY}].)(?=[^\s\"{_ANY}])(?:(?<![^\W\d_]{{2}}.)|(?![^\W\d_]{{2}}))",  # formulas
    r"(?<=[ \n\xa0\u2007][\u034f\u200b-\u200d\ufeff])(?=[ \n\xa0\u2007])|(?<=\A\ufeff)",  # padding; a file's start
    r"(?<=[\u0300-\u034e\u0350-\u05ff]\u034f)",  # between accents
)
_ALIKE = "|".join(f"(?<=[{kind}])[{kind}]*" for kind in (_TAGS, _MARKS, f"{_THIN}\U000e0080-\U000e0fff"))
_RUN = re.compile(f"[{_TREATED}](?!{'|'.join(_STAYS)})(?:{_ALIKE}|)", re.S)  # one that is to change, and more alike
_FLAGS = {"".join(chr(0xE0000 + ord(c)) for c in f"gb{each}\x7f") for each in ("eng", "sct", "wls")}
_PAIR = re.compile(rf"(?m)[\u202a\u202b\u2066-\u2068]([^\r\n\u2029{_PAIRED}]*)([\u202c\u2069]|(?=\r)|$)")
_RTL = re.compile("[\u0590-\u061b\u061d-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?=[\x07\x1b])|\\)")
_HAS, _THINS, _SEEN = re.compile(f"[{_ANY}]"), re.compile(f"[{_NEXT}]"), re.compile(rf"[^\s{_ANY}]")
_PLAIN, _HIGH = bytes([*range(9, 14), *range(32, 127)]), bytes(range(128, 256))
_EXACT = frozenset("type mimeType uri uriTemplate src data blob nextCursor requestState taskId".split())
_EXACT_IN_CALLS = _EXACT | set("name const enum pattern required format propertyName $ref $id $schema $anchor".split())


def visible(text: str, mode: Mode, *, is_rtl: bool = False) -> tuple[str, int]:
    r"""Return a text of which nothing is hidden, and how many characters were; the same object where none was.

    `show` writes tag characters as what they spell, controls of ASCII as Python does (`\x1b`), others by number, or how
    many they are where over three follow one another. `drop` takes the sequence that an escape begins, too.
    `is_rtl` says that it is a part of text in Hebrew, Arabic or the like, where marks of direction stay.
    """
    if not _may_hide(text):
        return text, 0
    has_marks, ends, n = is_rtl or bool(_RTL.search(text)), set[int](), 0

    def seen(run: re.Match[str]) -> str:
        nonlocal n
        said, at = run[0], run.start()
        pair = _PAIR.match(text, at)
        if pair and pair[2] in ("\u202c" if said < "\u202d" else "\u2069") and _SEEN.search(pair[1]):
            is_plain = pair[2] and said in "\u202a\u2066\u2068" and not re.search("[\u061c\u200f]", pair[1])
            if is_plain or _RTL.search(pair[1]):  # a line ends what it leaves open
                ends.update((at, pair.start(2)))
        is_mark = has_marks and said[0] in _MARKS and len(said) <= 2 and not _THINS.search(text, at - 1, run.end() + 1)
        if at in ends or is_mark or (said in _FLAGS and text[at - 1 : at] == "\U0001f3f4"):
            return said
        n += len(said)
        return _shown(said) if mode == "show" else ""

    new = _RUN.sub(seen, text)
    if text.encode("utf-8", "surrogatepass").translate(None, _PLAIN + _HIGH):  # logs: ten times as fast as one by one
        n += sum(map(text.count, _CONTROL))
        new = new if mode == "show" else _ANSI.sub("", new)
        for code in _CONTROL:
            new = new.replace(code, _CONTROL[code] if mode == "show" else "")
    more = visible(new, mode, is_rtl=is_rtl) if mode == "drop" and n else (new, 0)  # what was apart may now be a run
    return (more[0], n + more[1]) if n else (text, 0)


def in_result(result: dict[str, Any], mode: Mode) -> tuple[dict[str, Any], int]:
    """Return a result without hidden text, and how many characters were hidden; the same object where none is changed.

    `structuredContent` is changed as text is, keys too. URIs, base64 and cursors are but counted; `_meta` is not read.
    """
    return _in(result, mode, "structuredContent", _EXACT)


def in_definition(item: dict[str, Any], mode: Mode) -> tuple[dict[str, Any], int]:
    """Return a definition of a tool, prompt or resource without hidden text, and the count, as `in_result` does.

    What calls repeat exactly is but counted: names, keys, `enum`. `outputSchema` is changed as the results are.
    """
    return _in(item, mode, "outputSchema", _EXACT_IN_CALLS)


def _may_hide(text: str) -> bool:
    rest = text.encode("utf-8", "surrogatepass").translate(None, _PLAIN)  # a tenth of the time of searching all of it
    return bool(rest) and _HAS.search(rest.decode("utf-8", "surrogatepass")) is not None


def _shown(said: str) -> str:
    if "\U000e0000" <= said[0] <= "\U000e007f":
        return f"⟨tags: {''.join(c if c.isprintable() else repr(c)[1:-1] for c in (chr(ord(c) & 127) for c in said))}⟩"
    return f"⟨{len(said):,} invisible characters⟩" if len(said) > 3 else "".join(f"⟨U+{ord(c):04X}⟩" for c in said)


def _in(item: dict[str, Any], mode: Mode, data: str, staying: Set[Any]) -> tuple[dict[str, Any], int]:
    found, strings = [item], list[str]()
    for each in found:  # which grows; no recursion, since a server may nest deeper than Python calls
        if isinstance(each, str):
            strings.append(each)
        elif isinstance(each, dict):
            strings += each
            found += each.values()
        elif isinstance(each, list):
            found += each
    together = "".join(strings)
    if not _may_hide(together):
        return item, 0
    is_rtl, counts = bool(_RTL.search(together)), [0, 0]

    def seen(text: str, stays: bool) -> str:
        new, n = visible(text, mode, is_rtl=is_rtl)
        counts[stays] += n
        return text if stays else new

    new = _changed(item, seen, data, staying)
    return (new if counts[False] else item), sum(counts)


def _changed(item: dict[str, Any], seen: Callable[[str, bool], str], data: str, staying: Set[Any]) -> Any:
    copies: list[tuple[Any, Set[Any]]] = [([item], staying)]  # with the keys whose strings stay; there are none in data
    for at, exact in copies:
        for nth, (key, value) in enumerate(list(at.items() if isinstance(at, dict) else enumerate(at))):
            if isinstance(value, str):
                value = seen(value, key in exact)
            elif isinstance(value, (dict, list)) and not (key == "_meta" and exact):
                value = value.copy()
                is_exact = key in exact and isinstance(value, list)  # a property, too, may be called `enum`
                copies.append((value, set() if key == data else set(range(len(value))) if is_exact else exact))
            if isinstance(at, dict):
                del at[key]
                key = seen(key, bool(exact))
                while key in at:
                    key += f"⟨{nth}⟩"
            at[key] = value
    return copies[0][0][0]

"""One field's value, read from the text that a channel holds."""

from __future__ import annotations

import re
import unicodedata

from agent_utilities.activation.active_text import read_active
from agent_utilities.activation.deferral import AUTO, OFF, ON, Threshold
from agent_utilities.errors import SelectionError
from agent_utilities.selection.channels import Field
from agent_utilities.selection.model import NameSet, Value, fold

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
MAX_PROFILE_NAME = 64
"""The most characters of a profile's name."""
MAX_CAPABILITIES = 64
"""The most capabilities that one value may name; far fewer are ever active at once."""
_IN_TEXT = "\n\r\t"
"""Control characters that people type in a message: what they paste has several lines."""
_COUNT = re.compile(r"[0-9]{1,9}")


def read_value(text: str, field: Field, key: str, source: str) -> Value | None:
    """Return the value of one spelling, or None for blank, which means not set.

    Args:
        text: the value as a channel holds it.
        field: the field that it is of.
        key: its spelling: a name among toolsets may be a tag, and so may one in a deny (law L2).
        source: what an error names.

    Raises:
        SelectionError: it can't be read.
    """
    _check_characters(text, field, source)
    text = text.strip()
    if not text:
        return None
    match field.kind:
        case "names" | "tags":
            return _names(text, field, toolsets="toolsets" in key.lower() or field.name == "pins", source=source)
        case "flag":
            return _flag(text, source)
        case "count" | "number":
            return _count(text, source) if field.kind == "count" else _number(text, source)
        case "threshold":
            return _threshold(text, source)
        case "active":
            return read_active(text, source)
        case "profile":
            return (_profile(text, source),)
        case "capabilities":
            return _capabilities(text, source)
        case "text":
            return (text,)


def _check_characters(text: str, field: Field, source: str) -> None:
    refused = ("Cc", "Cs") if field.kind == "text" else ("Cc", "Cs", "Cf")
    if text.isascii() and text.isprintable():
        return
    for character in text:
        if field.kind == "text" and character in _IN_TEXT:
            continue
        if unicodedata.category(character) in refused:
            what = f"control character U+{ord(character):04X}"
            raise SelectionError(what, text.encode("unicode_escape").decode(), source, "remove it")


def _names(text: str, field: Field, *, toolsets: bool, source: str) -> NameSet:
    names = frozenset(fold(part.strip()) for part in text.split(",") if part.strip())
    if not names:
        raise SelectionError("no name between the commas", text, source, "give names, or none for nothing")
    # A tool without tags has a name but no tag, so `*` is everything for names only.
    every = {"all"} if field.kind == "tags" else {"all", "*"}
    everything = not names.isdisjoint(every)
    names -= {*every, "none"}
    # A deny of a server's name holds (law L2). A pattern's would be too wide: `read*` would deny all tagged `read`.
    is_toolset = {name for name in names if toolsets or (field.name == "deny_tools" and "*" not in name)}
    return NameSet(names - is_toolset, frozenset(is_toolset), everything)


def _flag(text: str, source: str) -> bool:
    lowered = text.lower()
    if lowered not in _TRUE | _FALSE:
        raise SelectionError("not true or false", text, source, "use true or false")
    return lowered in _TRUE


def _profile(text: str, source: str) -> str:
    if len(text) > MAX_PROFILE_NAME or "," in text:
        raise SelectionError("not a profile's name", text, source, "give one name, of at most 64 characters")
    return fold(text)


def _capabilities(text: str, source: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise SelectionError("no name between the commas", text, source, "give names, or none for nothing")
    if len(names) > MAX_CAPABILITIES:
        raise SelectionError(
            "too many capabilities", f"{len(names)} names", source, f"give at most {MAX_CAPABILITIES}, used last last"
        )
    return () if names == ("none",) else names


def _count(text: str, source: str) -> int:
    if not _COUNT.fullmatch(text) or int(text) == 0:
        raise SelectionError("not a positive integer", text, source, "use a whole number from 1 up, such as 5")
    return int(text)


def _number(text: str, source: str) -> int:
    if not _COUNT.fullmatch(text):
        raise SelectionError("not a whole number", text, source, "use one from 0 up, such as 5")
    return int(text)


def _threshold(text: str, source: str) -> Threshold:
    lowered = text.lower()
    if lowered in _TRUE | _FALSE:
        return ON if lowered in _TRUE else OFF
    if lowered == "auto":
        return AUTO
    name, _, over = lowered.partition(":")
    if name != "auto" or not _COUNT.fullmatch(over) or int(over) == 0:
        hint = "use off, on, auto, or auto:N for more than N tools, such as auto:80"
        raise SelectionError("not a mode of tool search", text, source, hint)
    return Threshold(int(over))

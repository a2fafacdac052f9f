"""Parsers of each channel's text into selections; malformed text raises `SelectionError`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from urllib.parse import parse_qsl, quote, unquote_plus, unquote_to_bytes

from agent_utilities.errors import SelectionError
from agent_utilities.selection.active import AUTO, OFF, ON, Active, Threshold, check_active_count, read_active
from agent_utilities.selection.channels import FIELDS, META_KEY, Field, ValueKind, field_of, given_elsewhere, near_miss
from agent_utilities.selection.merge import merge
from agent_utilities.selection.model import (
    NO_LIMIT,
    NOTHING,
    Channel,
    NameSet,
    Selection,
    Setting,
    Value,
    fold,
    side_of,
)

_FLAGS = {**dict.fromkeys(("1", "true", "yes", "on"), True), **dict.fromkeys(("0", "false", "no", "off"), False)}
MAX_PROFILE_NAME = 64
"""The longest name of a profile, in characters."""
MAX_CAPABILITIES = 64
"""The most capabilities that one value may name; far fewer are ever active at once."""
AUTO_TOKENS = 8_000
"""The budget of `result_tokens=auto`: Claude Code warns of results of more than 10,000 tokens."""
LEAST_TOKENS = 200
"""The smallest budget: below it there is no room to say what was left out."""
_IN_TEXT = "\n\r\t"
"""Control characters that a query may have: people paste several lines."""
_COUNT = re.compile(r"[0-9]{1,9}")


def read_value(text: str, field: Field, key: str, source: str) -> Value | None:
    """Parse one value of a field spelt as `key`: a name among toolsets, or in a deny (law L2), may be a tag.

    None for blank, which means not set.
    """
    _check_characters(text, field, source)
    text = text.strip()
    if not text:
        return None
    if (read := _KINDS[field.kind][2]) is not None:
        return read(text, source)
    return _names(text, field, toolsets="toolsets" in key.lower() or field.name == "pins", source=source)


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
    names = frozenset(map(fold, _listed(text, source)))
    # A tool without tags has a name but no tag, so `*` is everything for names only.
    every = {"all"} if field.kind == "tags" else {"all", "*"}
    everything = not names.isdisjoint(every)
    names -= {*every, "none"}
    # A name in a deny is a toolset too (law L2). A glob isn't: `read*` would deny all that is tagged `read`.
    is_toolset = {name for name in names if toolsets or (field.name == "deny_tools" and "*" not in name)}
    return NameSet(names - is_toolset, frozenset(is_toolset), everything)


def _listed(text: str, source: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise SelectionError("no name between the commas", text, source, "give names, or none for nothing")
    return names


def _flag(text: str, source: str) -> bool:
    if text.lower() not in _FLAGS:
        raise SelectionError("not true or false", text, source, "use true or false")
    return _FLAGS[text.lower()]


def _profile(text: str, source: str) -> tuple[str]:
    if len(text) > MAX_PROFILE_NAME or "," in text:
        raise SelectionError("not a profile's name", text, source, "give one name, of at most 64 characters")
    return (fold(text),)


def _capabilities(text: str, source: str) -> tuple[str, ...]:
    names = _listed(text, source)
    if len(names) > MAX_CAPABILITIES:
        hint = f"give at most {MAX_CAPABILITIES}, last used at the end"
        raise SelectionError("too many capabilities", f"{len(names)} names", source, hint)
    return () if names == ("none",) else names


def _number(text: str, source: str, least: int = 0) -> int:
    if not _COUNT.fullmatch(text) or int(text) < least:
        what, number = ("not a positive integer", "a whole number") if least else ("not a whole number", "one")
        raise SelectionError(what, text, source, f"use {number} from {least} up, such as 5")
    return int(text)


def _budget(text: str, source: str) -> int:
    lowered = text.lower()
    if lowered in ("auto", "off", *_FLAGS):
        return AUTO_TOKENS if lowered == "auto" or _FLAGS.get(lowered) else NO_LIMIT
    if not _COUNT.fullmatch(text) or int(text) < LEAST_TOKENS:
        hint = f"use off, auto ({AUTO_TOKENS}), or a number of tokens from {LEAST_TOKENS} up"
        raise SelectionError("not a budget of tokens", text, source, hint)
    return int(text)


def _threshold(text: str, source: str) -> Threshold:
    lowered = text.lower()
    if lowered in _FLAGS:
        return ON if _FLAGS[lowered] else OFF
    match = re.fullmatch(r"auto(?::([0-9]{1,9}))?", lowered)
    if match is None or (match[1] and int(match[1]) == 0):
        hint = "use off, on, auto, or auto:N for more than N tools, such as auto:80"
        raise SelectionError("not a mode of tool search", text, source, hint)
    return Threshold(int(match[1])) if match[1] else AUTO


_Reader = Callable[[str, str], Value]
_KINDS: dict[ValueKind, tuple[type, str, _Reader | None]] = {
    "names": (list, "give a list of names", None),
    "tags": (list, "give a list of tags", None),
    "flag": (bool, "give true or false", _flag),
    "count": (int, "give a whole number from 1 up, such as 5", partial(_number, least=1)),
    "text": (str, "give text", lambda text, source: (text,)),
    "number": (int, "give a whole number from 0 up, such as 5", _number),
    "threshold": (bool, 'give "on", "off", "auto" or "auto:N"', _threshold),
    "active": (list, "give a list of names, or the value of active as a result told it", read_active),
    "profile": (str, "give one name", _profile),
    "capabilities": (list, "give a list of names", _capabilities),
    "budget": (int, 'give a number of tokens, "auto" or "off"', _budget),
}
"""By kind of field: the type of its JSON values beside text, the hint for any other, and the parser of a text and its
source; None for names, which are parsed by field and key too."""


MAX_BYTES = 8192
"""The most bytes of one channel's values, and of its query."""
CUT = f", cut to {MAX_BYTES} bytes"
"""Added to the source of a query that was cut."""
MAX_NAMES = 512
"""The most names of one field in one channel."""
MAX_GLOBS = 64
"""The most globs of one field in one channel; each costs a scan of the catalog."""
MAX_KEYS = 512
"""The most keys of one channel, known or not; each is looked at."""

_ENV_PREFIX = re.compile(r"(X[-_])?MCP[-_]", re.IGNORECASE)
_ENCODED = re.compile(r"utf-8'[a-z0-9-]*'((?:%[0-9a-f]{2}|[!#$&+.^_`|~0-9a-z-])*)", re.IGNORECASE | re.ASCII)
_SHOWN_KEY = 40
_LABEL: dict[Channel, str] = {"env": "env", "cli": "option", "query": "query", "header": "header", "meta": "_meta"}
"""The name of a channel in errors; a file has its own."""


def read_env(environ: Mapping[str, str], *, known: Iterable[str] = ()) -> Selection:
    """Parse `MCP_*` environment variables, in any case; `known` are others in use, which are no misspellings."""
    others = frozenset(known)
    own = sorted(key for key in environ if _ENV_PREFIX.match(key) and key not in others)
    pairs = [(key, unquoted(environ[key])) for key in own]
    return read_pairs(pairs, "env")


_QUOTED = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)')\s*""")


def unquoted(text: str) -> str:
    """Return a variable's value without the quotes that `docker --env-file` leaves around it, or around each name."""
    parts = [text] if _QUOTED.fullmatch(text) else text.split(",")
    matches = [_QUOTED.fullmatch(part) for part in parts]
    return ",".join(each[1] or each[2] or "" for each in matches if each) if all(matches) else text


def read_cli(options: Iterable[tuple[str, str]]) -> Selection:
    """Parse command-line options: (`--option`, value) pairs."""
    return read_pairs(options, "cli")


def read_request(query_string: bytes, headers: tuple[tuple[bytes, bytes], ...]) -> Selection:
    """Parse the URL query and headers of one HTTP request."""
    if len(headers) > MAX_KEYS:
        raise SelectionError("too many headers", f"{len(headers)} headers", "headers", f"give at most {MAX_KEYS}")
    pairs = query_pairs(query_string)
    decoded = [
        (name, _header_text(value, f"header {name}") if field_of(name, "header") else "")
        for name, value in ((key.decode("latin-1"), value) for key, value in headers)
    ]
    return merge(read_pairs(pairs, "query"), read_pairs(decoded, "header"))


def read_meta(meta: object) -> Selection:
    """Parse the `_meta` of one MCP request: an object under `META_KEY`, keyed as the URL query is.

    Lists and booleans may be JSON, or the text that a URL would hold; null and blank mean not set, an empty list means
    none. The object is ours alone, so every unknown key is refused, misspelt or not.
    """
    own = meta.get(META_KEY) if isinstance(meta, Mapping) else None
    if own is None:
        return NOTHING
    if not isinstance(own, Mapping):
        hint = 'give one such as {"tools": ["git_log"], "read_only": true}'
        raise SelectionError("not an object", own, f"_meta {META_KEY}", hint)
    pairs: list[tuple[str, str]] = []
    for key, value in own.items():
        field = field_of(str(key), "meta")
        if field is None:
            _check_unknown(str(key), "", "meta")
            hint = f"use one of {', '.join(each for field in FIELDS for each in field.spellings('meta'))}"
            raise SelectionError("unknown _meta name", key, f"_meta {str(key)[:_SHOWN_KEY]}", hint)
        if value is not None:
            pairs.append((key, text_of(value, field, f"_meta {key}")))
    return read_pairs(pairs, "meta")


def text_of(value: object, field: Field, source: str) -> str:
    """Convert a JSON or TOML value to the text that the other channels would hold."""
    wanted, hint, _ = _KINDS[field.kind]
    if isinstance(value, str):
        return value
    if type(value) is not wanted:
        raise SelectionError("of the wrong type", value, source, hint)
    if not isinstance(value, list):
        return str(value).lower()
    for name in value:
        if not isinstance(name, str) or "," in name or not name.strip():
            raise SelectionError("not a name", name, source, "names are text, not blank, and have no comma")
    return ",".join(value) or ("" if field.kind in ("active", "capabilities") else "none")


def query_pairs(query_string: bytes) -> list[tuple[str, str]]:
    """Split a URL query into keys and values; a flag without a value is true. Raises what `read_request` does."""
    if not query_string:
        return []
    if len(query_string) > 8 * MAX_BYTES:
        hint = f"send at most {8 * MAX_BYTES} bytes"
        raise SelectionError("the query string is too long", f"{len(query_string)} bytes", "URL query", hint)
    if query_string.count(b"&") >= MAX_KEYS:
        hint = f"give at most {MAX_KEYS}, names of one field as one list"
        raise SelectionError("too many keys", f"{query_string.count(b'&') + 1} keys", "URL query", hint)
    text = utf8_text(query_string, "URL query")
    parts = [f"{part}=true" if _is_bare_flag(part) else part for part in text.split("&")]
    try:
        return parse_qsl("&".join(parts), keep_blank_values=True, encoding="utf-8", errors="strict")
    except ValueError:
        raise SelectionError("the query string is not UTF-8", text, "URL query", "percent-encode UTF-8") from None


def _is_bare_flag(part: str) -> bool:
    field = None if "=" in part else field_of(unquote_plus(part), "query")
    return field is not None and field.kind == "flag"


def encoded_header(text: str) -> str:
    """Encode a text as a header's value that `read_request` parses.

    Source: RFC 8187, 3.2.1, `ext-value`, for what isn't ASCII.
    """
    if text.isascii() and text.isprintable() and not text[:6].lower().startswith("utf-8'"):
        return text
    return f"UTF-8''{quote(text, safe='!#$&+.^_`|~-')}"


def _header_text(raw: bytes, source: str) -> str:
    text = utf8_text(raw, source)
    if not text[:6].lower().startswith("utf-8'"):
        return text
    if (encoded := _ENCODED.fullmatch(text)) is None:
        raise SelectionError("not percent-encoded", text, source, "encode as RFC 8187 does: UTF-8''don%E2%80%99t")
    return utf8_text(unquote_to_bytes(encoded[1]), source)


def utf8_text(raw: bytes, source: str) -> str:
    """Decode UTF-8; raises `SelectionError`."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise SelectionError("not UTF-8", raw.decode("utf-8", "backslashreplace"), source, "send UTF-8") from None


def read_pairs(pairs: Iterable[tuple[str, str]], channel: Channel, origin: str = "", *, place: str = "") -> Selection:
    """Parse the keys and values of a channel.

    Explanations and errors name `origin` as the source, or else `place`, by default the channel, and the key.
    """
    settings: list[Selection] = []
    n_bytes, n_of_text = 0, 0
    for key, value in pairs:
        field = field_of(key, channel)
        if field is None:
            _check_unknown(key, value, channel)
            continue
        source = origin or f"{place or _LABEL[channel] + ' '}{key.lower() if channel == 'header' else key}"
        if field.kind == "text":
            value, source, n_of_text = _within(value, source, n_of_text)
        else:
            n_bytes += len(value.encode("utf-8", "surrogatepass"))
        if n_bytes > MAX_BYTES:
            raise SelectionError("too long", value, source, f"give at most {MAX_BYTES} bytes in one channel")
        if (read := read_value(value, field, key, source)) is not None:
            settings.append(Selection((((field.name, channel), Setting(read, (source,), side_of(channel))),)))
    merged = merge(*settings)
    for (name, _), setting in merged.slots:
        if isinstance(setting.value, NameSet):
            _check_counts(setting.value, ", ".join(setting.origins))
        elif isinstance(setting.value, Active):
            check_active_count(len(setting.value.names), ", ".join(setting.origins))
        elif name == "profile" and isinstance(setting.value, tuple) and len(setting.value) > 1:
            named = ", ".join(setting.value)
            raise SelectionError("more than one profile", named, ", ".join(setting.origins), "name one")
    return merged


def _within(text: str, source: str, n_before: int) -> tuple[str, str, int]:
    """Cut a query to the bytes that are left; return it, its source, which says so, and how many bytes there are now.

    A query is a preference: a long one is cut, not refused (law L5).
    """
    raw = text.encode("utf-8", "surrogatepass")
    room = MAX_BYTES - n_before
    if len(raw) <= room:
        return text, source, n_before + len(raw)
    return raw[:room].decode("utf-8", "ignore"), f"{source}{CUT}", MAX_BYTES


def _check_unknown(key: str, value: str, channel: Channel) -> None:
    """Refuse an unknown key that resembles a field, or is a field of another channel."""
    label = _LABEL[channel]
    if (elsewhere := given_elsewhere(key, channel)) is not None:
        if value.strip():
            raise SelectionError(elsewhere[0], value, f"{label} {key}", elsewhere[1])
    elif (meant := near_miss(key, channel)) is not None:
        raise SelectionError(f"unknown {label} name", key, f"{label} {key}", f"did you mean {meant}?")


def _check_counts(names: NameSet, source: str) -> None:
    patterns: Sequence[str] = [*names.names, *names.toolsets]
    if len(patterns) > MAX_NAMES:
        raise SelectionError("too many names", f"{len(patterns)} names", source, f"give at most {MAX_NAMES}")
    n_globs = sum("*" in pattern for pattern in patterns)
    if n_globs > MAX_GLOBS:
        raise SelectionError("too many globs", f"{n_globs} globs", source, f"give at most {MAX_GLOBS} with a *")

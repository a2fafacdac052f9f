"""A caller's selection: parsed from a URL's path, or written as headers, a URL or a request's `_meta`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypedDict, Unpack
from urllib.parse import urlencode, urlsplit, urlunsplit

from agent_utilities.errors import SelectionError
from agent_utilities.selection.channels import FIELDS, META_KEY, field_of, spelled
from agent_utilities.selection.model import Selection
from agent_utilities.selection.parse import encoded_header, query_pairs, read_meta, read_pairs, read_request, text_of

SOURCE = "URL path"
BEGINNINGS = ("/x", "/readonly")
"""The first segments of a path that is a selection."""
_FORM = "give toolsets, such as /x/git,time or /x/git/readonly, or /readonly alone"


class PathError(SelectionError):
    """A path that is no selection: HTTP 404."""


PathSelection = tuple[tuple[str, str], ...]
"""A path's selection, as pairs of a URL query that asks for the same: `toolsets`, `read_only`."""
_READ_ONLY_PAIR = ("read_only", "true")


def parse_path(segments: Sequence[str]) -> PathSelection | None:
    """Parse the segments after an endpoint's path; None where they are no selection.

    Args:
        segments: percent-decoded, without slashes; an empty last one stands for a trailing slash.

    Raises:
        PathError: they begin as a selection and do not end as one: a bound must not be ignored.
    """
    match segments[:-1] if segments and not segments[-1] else segments:
        case []:
            return ()
        case ["readonly"]:
            return (_READ_ONLY_PAIR,)
        case ["x", toolsets] if toolsets.strip():
            return (("toolsets", toolsets),)
        case ["x", toolsets, "readonly"] if toolsets.strip():
            return ("toolsets", toolsets), _READ_ONLY_PAIR
        case ["x", *_]:
            raise PathError("the path is no selection", "/".join(["", *segments]), SOURCE, _FORM)
    return None


def read_path(path: PathSelection) -> Selection:
    """Return the selection of a path."""
    return read_pairs(path, "query", SOURCE)


class CallerSelection(TypedDict, total=False):
    """What a calling agent selects; a missing key selects nothing by it.

    An empty sequence means `none`: an agent that was granted no tool must see none.
    """

    tools: Sequence[str]
    toolsets: Sequence[str]
    disabled_tools: Sequence[str]
    disabled_toolsets: Sequence[str]
    tags: Sequence[str]
    disabled_tags: Sequence[str]
    read_only: bool
    no_destructive: bool
    query: str
    top_k: int
    tool_search: str
    pin: Sequence[str]
    active: Sequence[str] | str
    initial_k: int
    search_k: int
    search_turns: int
    max_active: int
    max_tools: int
    result_tokens: int | str
    profile: str
    capabilities: Sequence[str]


_HEADER_STEMS = {"tools": "enabled_tools", "tags": "enabled_tags", "pin": "pinned_tools"}
"""Keys that have a clearer name as headers."""


def selection_headers(**selection: Unpack[CallerSelection]) -> dict[str, str]:
    """Return a selection as headers, for `StreamableHttpTransport(url, headers=...)` or SSE.

    Text that is not ASCII is percent-encoded by RFC 8187.

    Raises:
        SelectionError: a value can't be sent, such as a name with a comma.
    """
    headers: dict[str, str] = {}
    for key, value in _texts(selection):
        headers[spelled(_HEADER_STEMS.get(key, key), "header")] = encoded_header(value)
    read_request(b"", tuple((key.encode(), value.encode()) for key, value in headers.items()))
    return headers


def selection_url(url: str, **selection: Unpack[CallerSelection]) -> str:
    """Return a server's `/mcp`, `/sse` or `/tools` URL with a selection in place of its own, if any.

    Raises:
        SelectionError: a value can't be sent.
    """
    parts = urlsplit(url)
    texts = dict(_texts(selection))
    replaced = {field.name for key in texts if (field := field_of(key, "query"))}
    others = [
        (key, value)
        for key, value in query_pairs(parts.query.encode())
        if (field := field_of(key, "query")) is None or field.name not in replaced
    ]
    query = urlencode([*others, *texts.items()])
    read_request(query.encode(), ())
    return urlunsplit(parts._replace(query=query))


def selection_meta(**selection: Unpack[CallerSelection]) -> dict[str, dict[str, Any]]:
    """Return a selection as the `_meta` of one MCP request, over any transport, stdio included.

    Raises:
        SelectionError: a value can't be sent.
    """
    meta = {META_KEY: dict(_texts(selection))}
    read_meta(meta)
    return meta


def _texts(selection: CallerSelection) -> Iterator[tuple[str, str]]:
    known = {stem: field for field in FIELDS for stem in field.stems if stem in CallerSelection.__annotations__}
    for key, value in selection.items():
        if key not in known:
            raise SelectionError("unknown selection key", key, "keyword argument", f"use one of {sorted(known)}")
        plain = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
        if plain or key != "active":  # an empty active set is not sent
            yield key, "none" if plain == [] else text_of(plain, known[key], key)

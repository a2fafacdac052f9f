"""A selection as callers send it: in a URL's path, or made into headers, a URL or a request's `_meta`."""

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
"""How a selection begins in a path."""
_FORM = "give toolsets, such as /x/git,time or /x/git/readonly, or /readonly alone"


class PathError(SelectionError):
    """A path that names nothing: there is no such place (404)."""


PathSelection = tuple[tuple[str, str], ...]
"""What a path asks for, as the items of a URL query that ask for the same: `toolsets`, `read_only`."""
_READ_ONLY_PAIR = ("read_only", "true")


def parse_path(segments: Sequence[str]) -> PathSelection | None:
    """Return what the segments after an endpoint's path ask for; None where they are no selection.

    Args:
        segments: percent-decoded, without the slashes; a last one that is empty is a slash at the end.

    Raises:
        PathError: they begin as a selection and do not end as one: a bound must not be passed over.
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
    """What a calling agent asks for; each key left out asks for nothing.

    An empty sequence means none at all, as an agent that was granted no tool must see none.
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
    profile: str
    capabilities: Sequence[str]


_HEADER_STEMS = {"tools": "enabled_tools", "tags": "enabled_tags", "pin": "pinned_tools"}
"""Where headers have a clearer name."""


def selection_headers(**selection: Unpack[CallerSelection]) -> dict[str, str]:
    """Return the headers that ask for a selection, for `StreamableHttpTransport(url, headers=...)` or SSE.

    Headers hold ASCII; other text is percent-encoded, as RFC 8187 has it, which servers read.

    Raises:
        SelectionError: a value can't be sent, such as a name with a comma.
    """
    headers: dict[str, str] = {}
    for key, value in _texts(selection):
        headers[spelled(_HEADER_STEMS.get(key, key), "header")] = encoded_header(value)
    read_request(b"", tuple((key.encode(), value.encode()) for key, value in headers.items()))
    return headers


def selection_url(url: str, **selection: Unpack[CallerSelection]) -> str:
    """Return a URL that asks for a selection; its own other query keys are kept, its selection keys replaced.

    Args:
        url: the server's `/mcp`, `/sse` or `/tools` URL.
        selection: what to ask for.

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
    """Return the `_meta` of one MCP request that asks for a selection, over any transport, stdio included.

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
        given = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
        if given or key != "active":  # of no active tools nothing is said
            yield key, "none" if given == [] else text_of(given, known[key], key)

"""For calling agents: a selection as headers, as a URL or as a request's `_meta`, from keyword arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypedDict, Unpack
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from agent_utilities.errors import SelectionError
from agent_utilities.selection.channels import FIELDS, META_KEY, field_of, spelled
from agent_utilities.selection.parse import encoded_header, read_meta, read_request


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
        for key, value in parse_qsl(parts.query, keep_blank_values=True)
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
    known = {stem for field in FIELDS for stem in field.stems} & set(CallerSelection.__annotations__)
    for key, value in selection.items():
        if key not in known:
            raise SelectionError("unknown selection key", key, "keyword argument", f"use one of {sorted(known)}")
        if isinstance(value, bool):
            yield key, "true" if value else "false"
        elif isinstance(value, int):
            yield key, str(value)
        elif isinstance(value, str):
            yield key, value
        elif isinstance(value, Sequence) and (value or key != "active"):
            yield key, _joined(key, value)


def _joined(key: str, names: Sequence[str]) -> str:
    for name in names:
        if "," in name or not name.strip():
            raise SelectionError("not a name that can be sent", name, key, "names are not blank and have no comma")
    return ",".join(names) or "none"

"""Send requests to a running server's routes, from any URL of it that a person has at hand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

from agent_utilities.errors import AgentUtilitiesError, InputError
from agent_utilities.selection.parse import query_pairs

_PATH = re.compile(r"(.*?)(?:/(mcp|sse|tools|context)((?:/x/[^/]+)?/readonly|/x/[^/]+)?)?/*")
_TIMEOUT_S = 10
Pairs = list[tuple[str, str]]


class ServerError(AgentUtilitiesError):
    """The server could not be reached, or did not answer as one of ours."""


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """A server's URL, parsed.

    Args:
        base: the server's own, without an endpoint.
        endpoint: `mcp`, `sse`, `tools` or `context`; empty without one.
        tail: the selection in the path, such as `/x/git/readonly`; empty without one.
        query: the names and values of the query.
    """

    base: str
    endpoint: str
    tail: str
    query: Pairs


def server_url(url: str) -> ServerUrl:
    """Return a URL, parsed."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InputError("not an HTTP URL", url, "argument URL", "give one such as http://127.0.0.1:8001/mcp")
    match = _PATH.fullmatch(parts.path)
    assert match is not None, "whatever follows an endpoint or none is a part of the base"
    path, endpoint, tail = match.groups(default="")
    base = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
    return ServerUrl(base, endpoint, tail, query_pairs(parts.query.encode("utf-8", "surrogatepass")))


def mcp_url(url: str) -> str:
    """Return the URL that a client connects to, for any URL of a server or of its routes."""
    server, parts = server_url(url), urlsplit(url)
    if server.endpoint in ("mcp", "sse") or (not server.endpoint and parts.path.strip("/")):
        return url
    return f"{server.base}/mcp{server.tail}" + (f"?{parts.query}" if parts.query else "")


def pairs(texts: list[str] | None, option: str, shape: str = "name=value") -> Pairs:
    """Return the names and values of a repeated option."""
    read = []
    for pair in texts or []:
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            raise InputError(f"not {shape}", pair, f"option {option}", f"write it as {shape}")
        read.append((key.strip(), value))
    return read


def ask(url: str, query: Pairs, headers: Pairs, key: str, what: str) -> dict[str, Any]:
    """Return the JSON of a route's answer, which must have a key."""
    import httpx2

    try:
        response = httpx2.get(f"{url}?{urlencode(query)}" if query else url, headers=headers, timeout=_TIMEOUT_S)
        is_json = response.headers.get("content-type", "").startswith("application/json")
        body = response.json() if response.status_code in (200, 400, 401, 403, 404, 503) and is_json else {}
    except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeEncodeError, ValueError) as error:
        raise ServerError(f"can't ask {url!r}: {error or type(error).__name__}; is the server running?") from None
    body = body if isinstance(body, dict) else {}
    if response.status_code != 200 and isinstance(body.get("error"), dict):
        raise InputError(**{key: str(body["error"].get(key)) for key in ("what", "value", "source", "hint")})
    if key not in body:
        hint = "send --header authorization=…" if response.status_code in (401, 403) else "is it one of ours?"
        why = f" ({said[:200]})" if isinstance(said := body.get("error_description"), str) else ""
        raise ServerError(f"{url!r} answered {response.status_code} without {what}{why}; {hint}")
    return body


async def list_tools(url: str) -> tuple[list[dict[str, Any]], str]:
    """Return a server's tools, as `tools/list` has them, and its name, from any URL of it."""
    from fastmcp import Client

    place = mcp_url(url)
    try:
        async with Client(place) as client:
            tools = [tool.model_dump(mode="json", by_alias=True) for tool in await client.list_tools()]
            return tools, client.server_info.name if client.server_info else ""
    except Exception as error:
        why = error or type(error).__name__
        raise ServerError(f"can't list the tools of {url!r}: {why}; is the server running?") from None

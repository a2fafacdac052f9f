"""Which hosts and origins an HTTP server answers: what a browser could be made to send from elsewhere is refused.

A page of a stranger reaches a server on this machine by its own name, which it lets point to 127.0.0.1 (DNS
rebinding): the Host header still bears that name. Where it calls the server by the right name, the Origin header bears
the stranger's. FastMCP's own guard is not used: it is off by default, its answers say neither what came nor what
to set, and on every address it takes loopback names, the address itself and an origin that a wildcard host vouches for.

HTTP is read by httptools, in less processor time than h11 takes, within the bounds that h11 has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import fastmcp
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from agent_utilities.errors import InputError
from agent_utilities.runtime.hosts import Host, bound_host, is_loopback, read_host, read_origin, read_patterns
from agent_utilities.selection.caller import BEGINNINGS
from agent_utilities.settings import Settings

_N_KEPT = 64


@dataclass(frozen=True, slots=True)
class Accepted:
    """The accepted hosts and origins: loopback names with any port, pages from one, and those that are named."""

    loopback: bool
    hosts: tuple[Host, ...]
    origins: tuple[Host, ...]

    def __str__(self) -> str:
        """Which hosts are accepted on an address that is no loopback one, and how to accept others."""
        hosts = ", ".join(str(pattern) for pattern in self.hosts)
        origins = ", ".join([*(str(pattern) for pattern in self.origins), "its own pages"])
        taken = f"requests for the hosts {hosts}, from browsers on {origins}" if hosts else "no request"
        return (
            f"this server takes {taken}; nothing else gets in. Name hosts with --allowed-hosts (MCP_ALLOWED_HOSTS), "
            "origins of web pages with --allowed-origins (MCP_ALLOWED_ORIGINS)."
        )

    def takes_host(self, host: Host) -> bool:
        """Whether a request for a host is accepted."""
        return (self.loopback and is_loopback(host.name)) or any(pattern.fits(host) for pattern in self.hosts)

    def names_origin(self, text: str) -> bool:
        """Whether an origin is named by the operator or the author."""
        return any(pattern.fits(read_origin(text), text) for pattern in self.origins)

    def takes_origin(self, text: str, host: Host) -> bool:
        """Whether a request that is accepted by its host is accepted from a page of an origin too."""
        if self.names_origin(text):
            return True
        if (origin := read_origin(text)) is None:
            return False
        if self.loopback and is_loopback(origin.name) and is_loopback(host.name):
            return True
        # The server's own pages; where a proxy ends TLS, only the origin tells which scheme they have. Of a host that
        # `*` alone accepts nothing is known, least of all that its pages are the server's.
        is_named = any(pattern.fits(host) for pattern in self.hosts if pattern.name != "*")
        return is_named and read_origin(f"{origin.scheme}://{host}") == origin


def accepted_on(
    address: str | None, settings: Settings, hosts: Sequence[str] = (), origins: Sequence[str] = ()
) -> Accepted:
    """Return the accepted hosts and origins on an address.

    Args:
        address: what is bound, or None where another server than ours binds it: taken for a loopback address, since
            nothing that is accepted there is of use to a stranger anywhere.
        settings: the operator's; where they name nothing, FastMCP's own settings hold.
        hosts, origins: what the author names besides.

    Raises:
        SettingsError: a name can't be read.
    """
    theirs = fastmcp.settings
    named = read_patterns("host", [settings.allowed_hosts], "MCP_ALLOWED_HOSTS") or read_patterns(
        "host", theirs.http_allowed_hosts or (), "env FASTMCP_HTTP_ALLOWED_HOSTS"
    )
    pages = read_patterns("origin", [settings.allowed_origins], "MCP_ALLOWED_ORIGINS") or read_patterns(
        "origin", theirs.http_allowed_origins or (), "env FASTMCP_HTTP_ALLOWED_ORIGINS"
    )
    named += read_patterns("host", hosts, "http_app(allowed_hosts=)")
    pages += read_patterns("origin", origins, "http_app(allowed_origins=)")
    if address is None or is_loopback(address):
        return Accepted(True, named, pages)
    own = bound_host(address)
    return Accepted(False, named if own is None else (*named, own), pages)


def is_guarded(protection: bool | Literal["auto"] | None) -> bool:
    """Whether an application is guarded: unless it, or FastMCP's setting, says no; that setting is unset by default."""
    settings = fastmcp.settings
    if protection is None and "http_host_origin_protection" in settings.model_fields_set:
        protection = settings.http_host_origin_protection
    return protection is not False


class HostGuard:
    """ASGI middleware: answers 421 to a host that is not accepted and 403 to an origin, with what to set.

    A request without an Origin is no page's, and fine. One that names several hosts or origins is refused.
    """

    def __init__(self, app: ASGIApp, accepted: Accepted) -> None:
        self._app, self._accepted = app, accepted
        self._refusal = lru_cache(_N_KEPT)(self._judged)  # a client's requests bear the same headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        headers = Headers(scope=scope)
        refusal = self._refusal(tuple(headers.getlist("host")), tuple(headers.getlist("origin")))
        if refusal is None:
            return await self._app(scope, receive, send)
        status, error = refusal
        if scope["type"] == "websocket":
            return await send({"type": "websocket.close", "code": 1008, "reason": error.what})
        await JSONResponse({"error": error.as_dict()}, status_code=status)(scope, receive, send)

    def _judged(self, hosts: Sequence[str], origins: Sequence[str]) -> tuple[int, InputError] | None:
        """Return the status and the reason to refuse a request with, or None where it is accepted."""
        host = read_host(hosts[0]) if len(hosts) == 1 else None
        if host is None or not self._accepted.takes_host(host):
            hint = _hint("host", host and Host(host.name))
            return 421, InputError("host not accepted", ", ".join(hosts), "header host", hint)
        if origins and (len(origins) > 1 or not self._accepted.takes_origin(origins[0], host)):
            origin = read_origin(origins[0]) if len(origins) == 1 else None
            hint = _hint("origin", origin)
            return 403, InputError("origin not accepted", ", ".join(origins), "header origin", hint)
        return None


class OpenToPages(CORSMiddleware):
    """ASGI middleware for CORS: lets pages of the named origins call MCP in browsers, and read its answers.

    Pages that get in without being named, loopback ones and the server's own, can't read it from another origin.

    Args:
        paths: those of MCP, without a slash at their end; nothing else is opened.
        endpoint: the path of the one route that it is around, wherever that is served; None for an application.
    """

    def __init__(self, app: ASGIApp, accepted: Accepted, paths: Sequence[str], endpoint: str | None = None) -> None:
        exposed = ("mcp-session-id", "mcp-protocol-version", "www-authenticate", "retry-after")
        methods = ("GET", "POST", "DELETE")
        super().__init__(app, (), methods, ("*",), expose_headers=exposed, allow_private_network=True)
        self._accepted, self._paths, self._endpoint = accepted, paths, endpoint
        self._scoped = tuple(path + beginning for path in paths for beginning in BEGINNINGS)

    def is_allowed_origin(self, origin: str) -> bool:
        """Whether pages of an origin may call."""
        return self._accepted.names_origin(origin)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = self._endpoint or scope.get("path", "").removeprefix(scope.get("root_path", ""))
        if scope["type"] != "http" or not (path.rstrip("/") in self._paths or path.startswith(self._scoped)):
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        is_open = self.is_allowed_origin(headers.get("origin", ""))
        if scope["method"] == "OPTIONS" and not (is_open and "access-control-request-method" in headers):
            return await Response(status_code=405, headers={"allow": "GET, POST, DELETE"})(scope, receive, send)
        await (super().__call__ if is_open or "origin" not in headers else self.app)(scope, receive, send)


def _hint(kind: str, value: object) -> str:
    named = f" {value}" if value is not None else ""
    return (
        f"if it is one of yours, start the server with --allowed-{kind}s{named} (MCP_ALLOWED_{kind.upper()}S), "
        f"or give http_app(allowed_{kind}s=[...])"
    )


# -- limits on reading a request, before the application sees it -------------------------------------------------------

LONGEST_HEAD = 64 << 10
"""Bytes of the longest head of a request that is read on for: names and values of its headers."""


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's protocol on httptools, which alone takes heads and trailers without an end, and two hosts in one."""

    _n_bytes = _n_hosts = _n_waiting = 0
    _is_in_head = False

    def data_received(self, data: bytes) -> None:
        """Read what came; the connection ends where neither a head nor a piece of a body does for too long."""
        self._n_waiting += len(data)
        super().data_received(data)
        if self._n_waiting > LONGEST_HEAD + len(data) and not self.transport.is_closing():
            if self._is_in_head:
                self.send_400_response("The head of the request is too long.")
            else:  # within a trailer, or what is said of a chunk: it may be answered already
                self.transport.close()

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._n_bytes, self._n_hosts, self._is_in_head = 0, 0, True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; a trailer, which httptools tells alike, is none."""
        if self._is_in_head:
            self._n_bytes += len(name) + len(value)
            self._n_hosts += name.lower() == b"host"
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """End a request's head.

        Raises:
            ValueError: it is too long, or names two hosts; it is answered with 400.
        """
        self._is_in_head, self._n_waiting = False, 0
        if self._n_bytes > LONGEST_HEAD or self._n_hosts > 1:
            raise ValueError("the head is too long, or names two hosts")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of a request's body."""
        self._n_waiting = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._n_waiting = 0
        super().on_message_complete()

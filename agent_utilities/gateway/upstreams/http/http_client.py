"""The HTTP client of an upstream: bodies are bounded, and a failed exchange is an error of its message alone."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import time
from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import partial
from secrets import token_hex
from typing import Any

import httpx2
import mcp_types
from fastmcp.server.auth.ssrf import is_ip_allowed
from mcp import MCPError
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from agent_utilities.compat.sdk_client import is_followed
from agent_utilities.gateway.upstreams.errors import Cause, with_own_errors
from agent_utilities.gateway.upstreams.limits import (
    TURN_BYTES,
    IncomingMessage,
    Limits,
    TooMuchError,
    Turns,
    Unfinished,
)

# The SDK logs the traceback of an error that it also raises, and that we log in a line: without this handler both
# would be printed.
logging.getLogger("mcp.client.auth").addHandler(logging.NullHandler())

_KEY = f"agent-utilities/upstream-{token_hex(8)}"
"""The key of a trouble in an error's data; drawn at random, so that no upstream can forge it."""
_REFUSED = {
    401: "it wants credentials, or other ones; see `headers` and `auth` of its config, or log in by"
    " `agent-utilities gateway login NAME`",
    403: "what it was given for credentials is not enough",
    407: "the proxy on the way wants credentials",
}
_BEFORE_IT = (502, 503, 504)  # answered in the place of a server that can't be reached
_FINAL = (*_REFUSED, 429, *_BEFORE_IT)
"""Statuses that hold for any message, whatever the body says about this one."""
_REASONS = ("error_description", "detail", "message", "error", "title", "errors")
"""Keys of the reason in bodies of errors, the best first."""
_N_REASON = 300
CONNECT_S = 30.0
"""Seconds to connect and to send; the call's own deadline bounds the wait for an answer."""
NOTIFICATION_S = 10.0
"""Seconds that an upstream has to take a notification: until then nothing else is sent."""
_KEPT_S = 3.0
"""Seconds that an unused connection is kept: most servers close theirs after five, and a request that is sent at that
moment is lost."""
_LOGIN_BYTES = 1 << 20
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
"""Errors before anything of a message is sent."""
_EVENT_END = re.compile(rb"(?>\r\n|\n|\r){2}")
_LONGEST_END = 4


@dataclass(frozen=True, slots=True)
class HttpTrouble:
    """The failure of an exchange: its cause in a word, a text for a person, and the HTTP status if there is one."""

    cause: Cause
    detail: str
    status: int | None = None

    @property
    def is_reached(self) -> bool:
        """Whether the server itself answered, if only to refuse this message."""
        return self.status is not None and self.status not in _BEFORE_IT

    @property
    def is_of_message(self) -> bool:
        """Whether it concerns this message alone, unlike a lack of credentials."""
        return self.cause == "died" or (self.status is not None and self.status not in _REFUSED)

    def as_error(self) -> mcp_types.ErrorData:
        """Return it as a JSON-RPC error for the caller who waits for the answer."""
        return mcp_types.ErrorData(code=mcp_types.INTERNAL_ERROR, message=self.detail, data={_KEY: asdict(self)})


_TROUBLE = TypeAdapter(HttpTrouble)


def http_trouble(error: MCPError) -> HttpTrouble | None:
    """Return the trouble in an error; None where the error is the upstream's own."""
    try:
        return _TROUBLE.validate_python(error.data[_KEY] if isinstance(error.data, dict) else None)
    except (KeyError, ValidationError):
        return None


def trouble_of_status(response: httpx2.Response, body: bytes) -> HttpTrouble:
    """Return the trouble of a response with an HTTP status above 399, with the reason in its body."""
    status, again = response.status_code, response.headers.get("retry-after", "")
    unsaid = "there is no such address" if status == 404 else "it is not able to answer"
    reason = _REFUSED.get(status) or _reason(body, _kind(response)) or unsaid
    if again:
        reason += f"; it may be asked again {f'in {again} s' if again.isdecimal() else f'after {again}'[:60]}"
    return HttpTrouble("unreachable" if status >= 500 else "refused", f"answered HTTP {status}: {reason}", status)


def _reason(body: bytes, kind: str) -> str:
    """Return the reason in a body, in a line; nothing of a page, which is for people."""
    if kind == "text/html":
        return ""
    try:
        reason: Any = from_json(body)
    except ValueError:
        reason = body.decode(errors="replace")
    while isinstance(reason, dict) and (within := next((reason[key] for key in _REASONS if reason.get(key)), None)):
        reason = within
    return " ".join((reason if isinstance(reason, str) else to_json(reason).decode()).split())[:_N_REASON]


_HALF = re.compile(rb"(?i)\\ud[89a-f]")
"""An escape that may be half a character, which `read_json` can read."""


class _BoundedBody(httpx2.AsyncByteStream):
    """A response's body, message by message: each event of an event stream, or all of any other."""

    def __init__(self, response: httpx2.Response, message: IncomingMessage) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._coded, self._message, self._turns = response.stream, message, Turns()
        self._body = httpx2.Response(response.status_code, headers=response.headers, stream=response.stream)
        self._is_events = _kind(response) == "text/event-stream"
        self._buffer = bytearray()
        self.ends_quietly = False
        """Whether a broken connection is a normal end, which the transport handles; and an event of an error, which it
        takes for the answer, the end where too much is sent."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._pieces():
                yield piece
        except httpx2.TransportError:
            if not self.ends_quietly:
                raise
        except TooMuchError as error:
            if not self.ends_quietly:
                raise
            yield b"event: message\ndata: " + _error(_too_much(error)).encode() + b"\n\n"

    async def _pieces(self) -> AsyncIterator[bytes]:
        is_first = True
        try:
            async for chunk in self._body.aiter_bytes():
                for at in range(0, len(chunk), TURN_BYTES):  # a decoder yields 1 MiB at once
                    self._buffer += chunk[at : at + TURN_BYTES]
                    if is_first and len(self._buffer) >= len(BOM_UTF8):
                        is_first, self._buffer = False, self._buffer.removeprefix(BOM_UTF8)
                    for event in self._events():
                        began_s = time.monotonic()  # not the loop's, which may stand still for a turn
                        yield event
                        await self._turns.after(len(event), time.monotonic() - began_s)
                    if not self._body.is_success and len(self._buffer) > self._message.limits.error_bytes:
                        yield bytes(self._buffer[: self._message.limits.error_bytes])
                        return
                    self._message.has(len(self._buffer))
                    await self._turns.after(TURN_BYTES)
            self._message.limits.check_values(self._buffer)
            yield bytes(self._buffer)
        finally:
            self._message.has(0)

    def _events(self) -> Iterator[bytes]:
        n_searched = max(0, len(self._buffer) - TURN_BYTES - _LONGEST_END)
        while self._is_events and (end := _EVENT_END.search(self._buffer, n_searched)):
            event = bytes(self._buffer[: end.end()])
            del self._buffer[: end.end()]
            n_searched = 0
            self._message.limits.check_values(event)
            yield _with_own_errors(event)

    async def aclose(self) -> None:
        self._message.has(0)
        await self._coded.aclose()


def _with_own_errors(event: bytes) -> bytes:
    """Return an event with the errors in its data marked as the upstream's own."""
    if b'"error"' not in event and not _HALF.search(event):
        return event
    lines = event.splitlines()
    data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
    rest = [line for line in lines if line and not line.startswith(b"data:")]
    return b"\n".join([*rest, b"data: " + with_own_errors(data).replace(b"\n", b"\ndata: "), b"", b""])


class OwnLoginError(RuntimeError):
    """A login could not be made."""


class Guard:
    """A hook for the requests of an HTTP client that blocks addresses which are not public, but for the server's own.

    The address of the connection counts, whatever name or spelling led there, before anything is sent. Behind a proxy
    of the operator's environment, which looks names up itself, only hosts that are addresses are checked.

    Args:
        url: the server's, as configured.
        hosts: others that the operator lets a login lead to, or patterns of them such as `*`.
    """

    def __init__(self, url: str, hosts: Iterable[str] = ()) -> None:
        self._url, self._hosts = httpx2.URL(url), [host.lower() for host in hosts]
        self._own: Collection[str] = ()
        """The address that the server itself was reached at."""

    async def __call__(self, request: httpx2.Request) -> None:
        """Have a request fail where it would connect to a blocked address."""
        host, is_own, is_direct = request.url.host, request.url.join("/") == self._url.join("/"), True
        if any(fnmatchcase(host, each) for each in self._hosts) or (is_own and self._own):
            return

        async def judge(event: str, info: Mapping[str, Any]) -> None:
            nonlocal is_direct
            if event == "connection.connect_tcp.started" and not is_own:
                is_direct = info["host"] == host
                await self._check(host, await _addresses(host, 0 if is_direct else socket.AI_NUMERICHOST))
            elif event == "connection.connect_tcp.complete" and is_direct:
                stream = info["return_value"]
                address = stream.get_extra_info("server_addr")[0]
                if is_own:
                    self._own = (address,)
                    return
                try:
                    await self._check(host, [address])
                except OwnLoginError:
                    await stream.aclose()
                    raise

        request.extensions["trace"] = judge

    async def _check(self, host: str, addresses: Collection[str]) -> None:
        if not addresses or any(map(is_ip_allowed, addresses)):
            return
        own = self._own or await _addresses(self._url.host)
        if not set(own) & set(addresses):
            raise OwnLoginError(
                f"its login leads to {host} ({', '.join(addresses)}), which is no public address and not its own;"
                " if that is meant, name the host in `oauth.hosts` of its config"
            )


async def _addresses(host: str, flags: int = 0) -> list[str]:
    """Return the addresses of a host; none where the lookup fails, as connecting will too."""
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=flags)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(address[0]) for *_, address in infos))


class UpstreamHttpClient(httpx2.AsyncClient):
    """Sends the messages of one connection.

    The SDK's transport ends the whole connection, with every call on it, where one POST fails. So this client answers
    a failed POST with a JSON-RPC error that says what failed.
    """

    def __init__(
        self,
        *,
        headers: Mapping[str, str],
        guard: Guard,
        auth: httpx2.Auth | None = None,
        limits: Limits,
        unfinished: Unfinished,
        is_answered_there: bool = True,
    ) -> None:
        self._is_answered_there = is_answered_there
        super().__init__(
            headers=dict(headers),
            auth=auth,
            timeout=httpx2.Timeout(CONNECT_S, read=None),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=_KEPT_S),
            event_hooks={"request": [guard], "response": [partial(_bound, limits, unfinished)]},
        )

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if request.method != "POST":
            return await super().send(request, **options)
        await request.aread()  # one that follows a redirect has its message as a stream
        if not _is_request(request):
            request.extensions["timeout"] = httpx2.Timeout(NOTIFICATION_S).as_dict()
        try:
            response = await super().send(request, **options)
            return await self._judged(request, response)
        except _UNSENT as error:
            return _answer(request, HttpTrouble("unreachable", _text(error)))
        except httpx2.TransportError as error:
            return _answer(request, HttpTrouble("died", f"ended the connection ({_text(error)})"))
        except TooMuchError as error:
            return _answer(request, _too_much(error))
        except Exception as error:  # a login that fails raises whatever it likes
            return _answer(request, HttpTrouble("refused", _text(error)))

    async def _judged(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """Return a response as the transport can take it, or an error response."""
        kind, status = _kind(response), response.status_code
        if status >= 400:
            body = await response.aread()
            is_lost = status == 404 and "mcp-session-id" in request.headers
            if kind == "application/json" and b'"jsonrpc"' in body and not is_lost and status not in _FINAL:
                return _marked(response)
            return _answer(request, trouble_of_status(response, body), status)
        if (follow := response.next_request) is not None and not is_followed(response):
            where = follow.url.copy_with(username=None, password=None, query=None, fragment=None)
            text = f"redirects to {where}, which is not followed; use that address in its config if it is meant"
            return _answer(request, HttpTrouble("unreachable", text))
        if not response.is_success or status == 202 or not self._is_answered_there:
            return response
        if kind == "text/event-stream":
            assert isinstance(response.stream, _BoundedBody)
            response.stream.ends_quietly = True
        elif kind == "application/json":
            body = (await response.aread()).strip()
            if not (body.startswith((b"{", b"[")) and body.endswith((b"}", b"]"))):
                return _answer(request, HttpTrouble("not MCP", "answered with half a message, or none"))
            return _marked(response)
        elif _is_request(request):
            await response.aread()
            return _answer(request, HttpTrouble("not MCP", f"answered with {kind or 'nothing'} (HTTP {status})"))
        return response


async def _bound(limits: Limits, unfinished: Unfinished, response: httpx2.Response) -> None:
    if len(response.headers.get_list("content-encoding", split_commas=True)) > 1:
        raise TooMuchError("a body that is compressed more than once, of which a little may become anything")
    response.stream = _BoundedBody(response, IncomingMessage(limits, unfinished))
    for name in ("content-encoding", "content-length"):
        response.headers.pop(name, None)


def bounded_client(url: str, hosts: Iterable[str] = ()) -> httpx2.AsyncClient:
    """Return a client for requests beside MCP, such as logins, bounded too; `Guard` explains the arguments."""
    bound = partial(_bound, Limits(message_bytes=_LOGIN_BYTES), Unfinished())
    return httpx2.AsyncClient(timeout=CONNECT_S, event_hooks={"request": [Guard(url, hosts)], "response": [bound]})


def _kind(response: httpx2.Response) -> str:
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()


def _is_request(request: httpx2.Request) -> bool:
    """Whether a message looks like a request, which gets an answer."""
    return b'"method"' in request.content and b'"id"' in request.content


def _marked(response: httpx2.Response) -> httpx2.Response:
    """Return a response, already read, with the errors in it marked as the upstream's own."""
    if b'"error"' not in response.content and not _HALF.search(response.content):
        return response
    body = with_own_errors(response.content, from_json(response.request.content).get("id"))
    return httpx2.Response(response.status_code, headers=response.headers, content=body, request=response.request)


def _answer(request: httpx2.Request, trouble: HttpTrouble, status: int = 502) -> httpx2.Response:
    kind = {"content-type": "application/json"}
    return httpx2.Response(status, headers=kind, content=_error(trouble).encode(), request=request)


def _error(trouble: HttpTrouble) -> str:
    return mcp_types.JSONRPCError(jsonrpc="2.0", id=None, error=trouble.as_error()).model_dump_json(by_alias=True)


def _too_much(error: TooMuchError) -> HttpTrouble:
    return HttpTrouble("sent too much", f"it sent {error}")


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

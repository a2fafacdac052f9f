"""The HTTP client of an upstream: an exchange that fails is an error of its message, not the end of the connection."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
import mcp_types

from agent_utilities.upstream.http.bounded_body import bounding
from agent_utilities.upstream.http.http_errors import HttpTrouble, trouble_of_status
from agent_utilities.upstream.limits import Limits, TooMuchError, Unfinished

CONNECT_S = 30.0
"""Seconds to connect and to send; how long an answer may take is for the call's own deadline to say."""
NOTIFICATION_S = 10.0
"""Seconds that an upstream has to take what is not a request: until then nothing else is sent."""
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)
_LARGEST_NOTIFICATION = 1_000_000


class UpstreamHttpClient(httpx2.AsyncClient):
    """Sends the messages of one connection.

    The SDK's transport ends the whole connection, and every call on it, where one POST fails. So a POST that fails is
    answered here, with a JSON-RPC error that says what failed.

    Args:
        headers: of every request.
        auth: the login.
        limits: what the upstream may send.
        unfinished: counts what has begun to come on all of its connections.
        is_answered_there: whether the answer to a message comes as the response to it.
    """

    def __init__(
        self,
        *,
        headers: Mapping[str, str],
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
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
            event_hooks={"response": [bounding(limits, unfinished)]},
        )

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request of the transport."""
        if request.method != "POST":
            return await super().send(request, **options)
        await request.aread()  # one that follows a redirect has its message as a stream
        if not _is_request(request):
            request.extensions["timeout"] = httpx2.Timeout(NOTIFICATION_S).as_dict()
        try:
            response = await super().send(request, **options)
            return await self._judged(request, response)
        except _NOT_SENT as error:
            return _answer(request, HttpTrouble("unreachable", _text(error), is_sent=False, is_final=True))
        except httpx2.TransportError as error:
            return _answer(request, HttpTrouble("unreachable", _text(error), is_final=True))
        except TooMuchError as error:
            return _answer(request, _too_much(error))
        except Exception as error:  # a login that fails raises whatever it likes
            return _answer(request, HttpTrouble("refused", _text(error), is_sent=False, is_final=True))

    async def _judged(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """Return a response that the transport can take, or the error that it comes to."""
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        status = response.status_code
        if status >= 400:
            body = await response.aread()
            trouble = trouble_of_status(status, "mcp-session-id" in request.headers, body)
            if kind == "application/json" and b'"jsonrpc"' in body and not (trouble.is_lost or trouble.is_final):
                return response
            return _answer(request, trouble, status)
        if (follow := response.next_request) is not None and not _is_followed(request, follow):
            where = f"{follow.url.scheme}://{follow.url.host}"
            text = f"redirects to {where}, which is not followed; use that address in its config if it is meant"
            return _answer(request, HttpTrouble("unreachable", text))
        if not response.is_success or status == 202 or not self._is_answered_there:
            return response
        if kind == "text/event-stream":
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _UntilItBreaks(response.stream)
        elif kind == "application/json":
            body = (await response.aread()).strip()
            if not (body.startswith((b"{", b"[")) and body.endswith((b"}", b"]"))):
                return _answer(request, HttpTrouble("not MCP", "answered with half a message, or none", is_final=True))
        elif _is_request(request):
            await response.aread()
            return _answer(request, HttpTrouble("not MCP", f"answered with {kind or 'nothing'} (HTTP {status})"))
        return response


class _UntilItBreaks(httpx2.AsyncByteStream):
    """A response's events, to where its connection breaks: the transport tells whoever waits then.

    Where it sends too much the last event is an error that says so, which the transport takes for the answer.
    """

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._inner:
                yield chunk
        except httpx2.TransportError:
            return
        except TooMuchError as error:
            yield b"event: message\ndata: " + _error(_too_much(error)).encode() + b"\n\n"

    async def aclose(self) -> None:
        await self._inner.aclose()


def _is_followed(request: httpx2.Request, follow: httpx2.Request) -> bool:
    """Whether the transport follows a redirect: to where its headers are meant for, with the message."""
    one, other = request.url, follow.url
    is_upgrade = (one.scheme, one.port, other.scheme, other.port) == ("http", None, "https", None)
    is_same = (one.scheme, one.port) == (other.scheme, other.port) or is_upgrade
    return follow.method == request.method and one.host == other.host and is_same


def _is_request(request: httpx2.Request) -> bool:
    """Whether a message is one that an answer comes to."""
    if len(request.content) > _LARGEST_NOTIFICATION:
        return True
    try:
        message = json.loads(request.content)
    except ValueError:
        return True
    return isinstance(message, dict) and "method" in message and "id" in message


def _answer(request: httpx2.Request, trouble: HttpTrouble, status: int = 502) -> httpx2.Response:
    kind = {"content-type": "application/json"}
    return httpx2.Response(status, headers=kind, content=_error(trouble).encode(), request=request)


def _error(trouble: HttpTrouble) -> str:
    return mcp_types.JSONRPCError(jsonrpc="2.0", id=None, error=trouble.as_error()).model_dump_json(by_alias=True)


def _too_much(error: TooMuchError) -> HttpTrouble:
    return HttpTrouble("sent too much", f"it sent {error}", is_final=True)


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

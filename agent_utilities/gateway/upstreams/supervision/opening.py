"""Opens sessions with one upstream, in the era that it speaks, within a timeout; and explains failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from mcp import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION
from pydantic import ValidationError

from agent_utilities.gateway.upstreams.config import Transport, UpstreamConfig
from agent_utilities.gateway.upstreams.connections.session import EndedError, UpstreamSession
from agent_utilities.gateway.upstreams.errors import Cause, UpstreamError
from agent_utilities.gateway.upstreams.http.http_client import http_trouble
from agent_utilities.gateway.upstreams.limits import Unfinished
from agent_utilities.gateway.upstreams.secrets import secrets_of, without

if TYPE_CHECKING:
    import httpx2

    from agent_utilities.gateway.upstreams.connections.calls import Callers
    from agent_utilities.gateway.upstreams.http.transports import HttpUpstream, SseUpstream
    from agent_utilities.gateway.upstreams.processes.process import ProcessGuard
    from agent_utilities.gateway.upstreams.processes.stderr_log import StderrLog
    from agent_utilities.gateway.upstreams.processes.stdio import StdioUpstream
    from agent_utilities.gateway.upstreams.supervision.backoff import Policy

N_LINES, MAX_CHARS = 5, 2_000
"""Lines of stderr that an error quotes, and characters of the rest of it."""


def root_error(error: BaseException) -> BaseException:
    """Return the first error within exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


@dataclass(frozen=True)
class Shared:
    """The parts that all upstreams of a gateway share.

    Args:
        before_import: called on the event loop before a thread imports the modules of a start.
        auth_of: returns the authentication at an upstream over HTTP; that of `login.py` by default.
        may_list: whether an upstream may be started to be listed, before anybody calls it.
        importing: held during these imports, which take a second: threads that import the same packages at once can
            deadlock.
    """

    environ: Mapping[str, str]
    guard: ProcessGuard
    policy: Policy
    places: asyncio.Semaphore
    before_import: Callable[[], None] = lambda: None
    auth_of: Callable[[UpstreamConfig, str], httpx2.Auth | None] | None = None
    may_list: Callable[[UpstreamConfig], bool] = lambda _: True
    importing: asyncio.Lock = field(default_factory=asyncio.Lock)


_NOT_STREAMABLE = (400, 404, 405, 406, 415, 501)
"""Statuses of POSTs to servers without streamable HTTP."""


class Opener:
    """Connects to one upstream, and explains failures."""

    def __init__(self, config: UpstreamConfig, stderr: StderrLog, shared: Shared) -> None:
        self.config, self.stderr, self.shared, self.policy = config, stderr, shared, shared.policy
        self._is_shy = False
        """Whether it exits after a request that it does not know."""
        self._transport: Transport | None = None
        self._unfinished = Unfinished()

    @asynccontextmanager
    async def opened(self, known_version: str | None, callers: Callers) -> AsyncIterator[UpstreamSession]:
        """Open a session for as long as the block runs; afterwards, or on failure, its processes are gone.

        Args:
            known_version: the protocol version of the last session, if any.
            callers: those that it is for; with `must_ask` a handshake is preferred.

        Raises:
            UpstreamError: it could not be made.
            Exception: it failed while it was up, or did not end in time.
        """
        tried = partial(self._tried, callers, asyncio.get_running_loop().time() + self.config.start_timeout_s)
        transport = self._transport or self.config.transport
        version = LATEST_HANDSHAKE_VERSION if callers.must_ask or self._is_shy else known_version
        async with asyncio.timeout(None) as limit, AsyncExitStack() as stack:
            try:
                session = await tried(stack, transport, version)
            except UpstreamError as error:
                if _exits_where_probed(transport, version, error):
                    self._is_shy = True
                    session = await tried(stack, transport, LATEST_HANDSHAKE_VERSION)
                elif transport == "http" and _is_not_streamable(error):
                    try:
                        session = await tried(stack, "sse", None)
                    except UpstreamError as other:
                        raise error from other.__cause__
                    self._transport = "sse"
                else:
                    raise
            try:
                yield session
            finally:
                limit.reschedule(asyncio.get_running_loop().time() + self.policy.close_s)

    async def _tried(
        self,
        callers: Callers,
        until_s: float,
        stack: AsyncExitStack,
        transport_name: Transport,
        version: str | None,
    ) -> UpstreamSession:
        """Return a session with an agreed era; the stack ends it and its processes."""
        async with self.shared.importing:
            self.shared.before_import()
            transport = await asyncio.to_thread(self.transport, transport_name)
        try:
            async with asyncio.timeout_at(until_s) as limit, AsyncExitStack() as begun:
                streams = await begun.enter_async_context(transport.streams())
                session = await begun.enter_async_context(UpstreamSession(transport, *streams, callers.owner))
                await session.negotiate(version, self.policy.probe_s, callers.offered)
                stack.push_async_exit(begun.pop_all())
                return session
        except Exception as error:
            cause = TimeoutError() if limit.expired() else root_error(error)
            raise self.of_start(cause, transport.exit_text, getattr(transport, "first_garbage", "")) from cause

    def transport(self, name: Transport) -> StdioUpstream | HttpUpstream | SseUpstream:
        """Return a transport for one session; it imports modules, so use a thread."""
        shared = self.shared
        if name == "stdio":
            from agent_utilities.gateway.upstreams.processes.stdio import StdioUpstream

            return StdioUpstream(
                self.config, environ=shared.environ, stderr=self.stderr, guard=shared.guard, unfinished=self._unfinished
            )
        from agent_utilities.gateway.upstreams.http.login import auth_of
        from agent_utilities.gateway.upstreams.http.transports import HttpUpstream, SseUpstream
        from agent_utilities.settings import read_settings

        kind = SseUpstream if name == "sse" else HttpUpstream
        auth = (shared.auth_of or auth_of)(self.config, read_settings(shared.environ).gateway_folder)
        return kind(self.config, auth, self._unfinished)

    # -- errors ------------------------------------------------------------------------------------------------------

    def error(self, cause: Cause, detail: str) -> UpstreamError:
        """Return an error with the last lines on stderr."""
        text = without(secrets_of(self.config), detail)[:MAX_CHARS]
        if self.config.transport == "stdio" and cause not in ("off", "stopping", "not found"):
            lines = [line.strip()[:400] for line in self.stderr.last_lines(N_LINES) if line.strip()]
            text += f"; stderr ends with: {' | '.join(lines)}" if lines else "; it wrote nothing to stderr"
        return UpstreamError(self.config.name, cause, text)

    def of_start(self, error: BaseException, exit_text: str, garbage: str = "") -> UpstreamError:
        error = root_error(error)
        if isinstance(error, UpstreamError):
            return error
        if isinstance(error, TimeoutError):
            said = f"; what it writes to stdout is no MCP, such as {garbage!r}" if garbage else ""
            return self.error("did not start", f"it has not answered within {self.config.start_timeout_s:g} s{said}")
        is_http = isinstance(error, MCPError) and http_trouble(error) is not None
        if not is_http and (exit_text or isinstance(error, EndedError)):
            return self.error("did not start", f"it {exit_text or 'ended the connection'} before it had answered")
        if isinstance(error, MCPError | ValidationError | RuntimeError | ValueError):
            return self._of_answer(error, "the handshake")
        return self.error("unreachable", f"{type(error).__name__}: {_line(error)}")

    def of_listing(self, error: BaseException) -> UpstreamError:
        error = root_error(error)
        if isinstance(error, TimeoutError):
            return self.error("did not answer", f"listing what it has took over {self.config.list_timeout_s:g} s")
        return self._of_answer(error, "a list")

    def _of_answer(self, error: BaseException, request: str) -> UpstreamError:
        if not isinstance(error, MCPError):
            return self.error("not MCP", f"it answers {request} with what is none: {_line(error)}")
        if (trouble := http_trouble(error)) is not None:
            return self.error("unreachable" if trouble.is_of_message else trouble.cause, trouble.detail)
        return self.error("not MCP", f"it answers {request} with an error: {error.message}")

    def died(self, exit_text: str, *, in_call: bool) -> UpstreamError:
        """Return the error for a connection that has ended by itself."""
        doubt = " in the middle of the call, which it may have carried out, or not" if in_call else ""
        return self.error("died", f"it {exit_text or 'ended the connection'}{doubt}")


def _exits_where_probed(transport: Transport, version: str | None, error: UpstreamError) -> bool:
    """Whether a server exited after the probe of the newer era, so that only a handshake may be sent."""
    was_probed = transport == "stdio" and version not in HANDSHAKE_PROTOCOL_VERSIONS
    cause = error.__cause__
    return was_probed and error.cause == "did not start" and not isinstance(cause, TimeoutError | None)


def _is_not_streamable(error: UpstreamError) -> bool:
    """Whether a server lacks streamable HTTP; configs seldom distinguish it from the older SSE."""
    trouble = http_trouble(error.__cause__) if isinstance(error.__cause__, MCPError) else None
    return trouble is not None and trouble.status in _NOT_STREAMABLE

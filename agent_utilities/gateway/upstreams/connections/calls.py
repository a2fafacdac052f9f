"""The calls under way on one connection: routes an upstream's questions, log messages and progress to the callers."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Protocol, get_args

import mcp_types
from pydantic_core import to_json

from agent_utilities.gateway.upstreams.limits import MIB

logger = logging.getLogger(__name__)

_present: ContextVar[Call | None] = ContextVar("agent_utilities_upstream_call", default=None)
LEVELS: Sequence[str] = get_args(mcp_types.LoggingLevel)
"""Levels of log messages, the most verbose first."""
USUAL_LEVEL = "info"
"""The level from which most servers send log messages by default."""
N_UNTOLD, UNTOLD_BYTES = 8_192, 4 * MIB
"""The most messages of a call, and their bytes, that wait for its caller to read; of more, the oldest are dropped."""
ASKED_S = 600.0
"""Seconds that a caller may take to answer a question, so that a silent client blocks nothing for ever."""
_NEVER = {
    *("accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "host"),
    *("keep-alive", "last-event-id", "te", "trailer", "transfer-encoding", "upgrade"),
}
"""Headers that belong to one connection or message."""


class GivenUpError(Exception):
    """A call has reached its time limit, without a sign of progress or in all."""


class CallOverError(Exception):
    """A question can't be asked any more: the call whose result would have carried it has ended."""


class Relay(Protocol):
    """The caller's side of one call, which alone gets the upstream's questions and messages.

    Over stdio and SSE an upstream doesn't say which call a question belongs to. It goes to the caller where all calls
    under way on the connection are of one session; where they are of several it is refused, so that no caller gets what
    belongs to another.
    """

    @property
    def session(self) -> Hashable:
        """The identity of the caller's session: calls of one session share whatever an upstream asks."""

    @property
    def capabilities(self) -> mcp_types.ClientCapabilities | None:
        """The kinds of question that the caller's client answers, which upstreams learn with its calls."""

    @property
    def asked_at_once(self) -> mcp_types.ClientCapabilities | None:
        """Those that it answers during a call; None for a caller who is asked by results alone."""

    async def ask(self, question: mcp_types.InputRequest) -> Any:
        """Return the caller's answer, or the error for the upstream; raise `CallOverError` where the call has ended."""

    @property
    def log_level(self) -> str | None:
        """The least level of log messages that the caller wants; None where they have set none."""

    async def log(self, params: Mapping[str, Any]) -> None:
        """Forward a log message as it came."""

    async def progress(self, params: Mapping[str, Any]) -> None:
        """Forward progress as it came, under the caller's own token."""


@dataclass(frozen=True, slots=True)
class Callers:
    """The callers that a connection is for."""

    key: Hashable
    offered: mcp_types.ClientCapabilities  # of their clients, for the handshake
    must_ask: bool = False  # during calls, which only the handshake's era can
    owner: Relay | None = None  # the only caller; None where it is shared


def forwarded(names: Sequence[str], headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return the caller's headers that are forwarded to an upstream: those named, but none of the protocol's."""
    if not names or not headers:
        return {}
    return {
        folded: value
        for name, value in headers.items()
        if (folded := name.casefold()) in names and folded not in _NEVER and not folded.startswith("mcp-")
    }


@dataclass(eq=False, slots=True)
class Call:
    """One call of an upstream, from its start to its answer."""

    relay: Relay | None
    """The caller's side; None where there is no caller to ask or notify."""
    headers: Mapping[str, str]
    timeout_s: float
    limit_s: float
    is_sent: bool = False
    token: int = field(default=0, init=False)
    """Its progress token, unique on its connection."""
    _since_s: float = field(default_factory=lambda: asyncio.get_running_loop().time(), init=False)
    _deadline: asyncio.Timeout | None = field(default=None, init=False)
    n_dropped: int = field(default=0, init=False)
    """The number of messages that were dropped, since the caller read too slowly."""
    n_questions: int = field(default=0, init=False)
    """The number of questions that its caller has not answered yet."""
    _untold: deque[tuple[Callable[[], Awaitable[None]], int]] = field(default_factory=deque, init=False)
    _n_bytes: int = field(default=0, init=False)
    _telling: asyncio.Future[None] | None = field(default=None, init=False)

    def move_on(self) -> None:
        """Restart its timeout: the upstream has shown progress."""
        if not self.n_questions:
            self._may_take(self.timeout_s)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Extend the timeout to `ASKED_S` while the caller is asked, since a person may take long."""
        self.n_questions += 1
        self._may_take(max(self.timeout_s, ASKED_S))
        try:
            yield
        finally:
            self.n_questions -= 1
            self.move_on()

    def _may_take(self, more_s: float) -> None:
        """Set its deadline so many seconds from now, within the limit of the whole call."""
        if self._deadline is not None and not self._deadline.expired():
            until_s = asyncio.get_running_loop().time() + more_s
            self._deadline.reschedule(min(until_s, self._since_s + self.limit_s))

    def tell(self, tell: Callable[[Mapping[str, Any]], Awaitable[None]], params: Mapping[str, Any]) -> None:
        """Send the caller a message of the call, in order behind earlier ones; it counts as progress.

        An upstream may send more than its caller reads: then the oldest messages are dropped, so that neither other
        calls nor our memory suffer.
        """
        self.move_on()
        n_bytes = len(to_json(params, fallback=str))
        self._untold.append((partial(tell, params), n_bytes))
        self._n_bytes += n_bytes
        while len(self._untold) > N_UNTOLD or self._n_bytes > max(UNTOLD_BYTES, n_bytes):
            self._next()
            self.n_dropped += 1
        if self._telling is None or self._telling.done():
            self._telling = asyncio.ensure_future(self._tell())

    def _next(self) -> Callable[[], Awaitable[None]]:
        send, n_bytes = self._untold.popleft()
        self._n_bytes -= n_bytes
        return send

    async def _tell(self) -> None:
        while self._untold:
            try:
                await self._next()()
            except Exception as error:
                logger.debug("a caller could not be told something of a call: %r", error)

    async def all_told(self) -> None:
        """Wait until the caller has all messages: none can be sent after the call's result."""
        if self._telling is not None:
            await self._telling

    @asynccontextmanager
    async def under_way(self, calls: CallsUnderWay) -> AsyncIterator[None]:
        """Make it the present call, registered with its connection, and end it by `GivenUpError` at its time limit.

        By the end its caller has all messages.
        """
        token = _present.set(self)
        calls.begin(self)
        until_s = self._since_s + self.limit_s
        deadline = self._deadline = asyncio.timeout_at(min(until_s, asyncio.get_running_loop().time() + self.timeout_s))
        try:
            async with deadline:
                yield
        except TimeoutError:
            if not deadline.expired():
                raise
            if deadline.when() != until_s:
                why = f"the call showed no progress for {self.timeout_s:g} s and is given up"
                raise GivenUpError(why) from None
            why = f"the call took over {self.limit_s:g} s in all and is given up"
            raise GivenUpError(f"{why}; `maxCallSeconds` of its config raises that") from None
        except asyncio.CancelledError:
            if self._telling is not None:
                self._telling.cancel()
            raise
        finally:
            self._deadline = None
            calls.end(self)
            _present.reset(token)
            await self.all_told()


present_call = _present.get
"""Returns the call that runs in this context, None outside of a call."""


class CallsUnderWay:
    """The calls under way on one connection, whose questions and messages go to their own callers alone.

    Those that belong to no call go to the `owner`, who has the connection alone.
    """

    def __init__(self, owner: Relay | None) -> None:
        self._outside = Call(owner, {}, ASKED_S, ASKED_S) if owner is not None else None
        self._all: dict[str, Call] = {}
        self._tokens = count(1)

    def begin(self, call: Call) -> None:
        """Register a call under a token of its own, which the upstream's progress refers to."""
        call.token = next(self._tokens)
        self._all[str(call.token)] = call
        if self._outside is not None:
            self._outside.relay = call.relay

    def end(self, call: Call) -> None:
        del self._all[str(call.token)]

    def _addressee(self) -> Call | None:
        """Return the call that a question or message of the upstream belongs to.

        Over streamable HTTP it comes on the response to that very call. Over stdio and SSE nothing marks it: it belongs
        to the session whose calls alone are under way; None where that could be several sessions, or none.
        """
        present = present_call()
        if present is not None and self._all.get(str(present.token)) is present:
            return present
        sessions = {call.relay and call.relay.session for call in self._all.values()}
        if len(sessions) > 1:
            return None
        return min(self._all.values(), key=lambda call: call.n_questions, default=self._outside)

    def hear(self, method: str, params: Mapping[str, Any]) -> None:
        """Forward a log message or progress to its call's caller; it is dropped where the call is unknown."""
        is_progress = method == "notifications/progress"
        call = self._all.get(str(params.get("progressToken"))) if is_progress else self._addressee()
        if call is not None and call.relay is not None:
            call.tell(call.relay.progress if is_progress else call.relay.log, params)
        elif call is not None:
            call.move_on()

    async def ask(self, question: mcp_types.InputRequest) -> Any:
        """Ask the caller that a question belongs to; return their answer, or an error that says why there is none."""
        while (call := self._addressee()) is not None and (relay := call.relay) is not None:
            with call.asking(), suppress(CallOverError):
                await call.all_told()
                return await relay.ask(question)
        why = "no call is under way, or calls of several sessions are, so it is not known whom to ask"
        return mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=f"{question.method} refused: {why}")

    def log_level(self) -> str | None:
        """Return the most verbose level that a caller of a call under way wants; None where nobody has set one.

        Callers without a level count with the usual one.
        """
        wanted = [call.relay.log_level for call in self._all.values() if call.relay is not None]
        return min((level or USUAL_LEVEL for level in wanted), key=LEVELS.index) if any(wanted) else None

"""The calls that are under way on one connection, and the callers whom the upstream asks and tells while it works."""

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
"""Of log messages, the most verbose first."""
USUAL_LEVEL = "info"
"""What most servers send log messages from where nobody has asked for another level."""
N_UNTOLD, UNTOLD_BYTES = 8_192, 4 * MIB
"""How much that an upstream tells of a call waits for its caller to read; of more, the oldest is dropped."""
ASKED_S = 600.0
"""Seconds that a caller may take to answer; a client that never does holds no call, nor others' questions, for ever."""
_NEVER = {
    *("accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "host"),
    *("keep-alive", "last-event-id", "te", "trailer", "transfer-encoding", "upgrade"),
}
"""Headers of one connection or message, which another has its own of."""


class GivenUpError(Exception):
    """A call has taken as long as it may: without a sign of progress, or in all."""


class CallOverError(Exception):
    """A question was to be asked in the result of a call that has ended by now."""


class Relay(Protocol):
    """The caller's side of one call: questions and messages of the upstream come here, and nowhere else.

    Over stdio and SSE an upstream doesn't say which call a question belongs to. It is given to the caller where all
    calls that are under way on the connection are of one session; where they are of several it is refused, so that no
    caller is asked, or told, what belongs to another.
    """

    @property
    def session(self) -> Hashable:
        """What tells the caller's session from others: calls of one session share whatever an upstream asks."""

    @property
    def capabilities(self) -> mcp_types.ClientCapabilities | None:
        """What the caller's client offers to be asked, which an upstream is told with their calls; None for nothing."""

    @property
    def asked_at_once(self) -> mcp_types.ClientCapabilities | None:
        """What of it can be asked in the middle of a call; None for nothing, as of who is asked by results alone."""

    async def ask(self, question: mcp_types.InputRequest) -> Any:
        """Return the caller's answer, or the error that the upstream is told; `CallOverError` where there is none."""

    @property
    def log_level(self) -> str | None:
        """The least level of log messages that the caller wants; None where they have not said."""

    async def log(self, params: Mapping[str, Any]) -> None:
        """Hand on a log message as it came."""

    async def progress(self, params: Mapping[str, Any]) -> None:
        """Hand on progress of the call as it came, but for whose it is."""


@dataclass(frozen=True, slots=True)
class Callers:
    """Whom a connection is for."""

    key: Hashable
    offered: mcp_types.ClientCapabilities  # what their clients can be asked, of which a handshake tells
    must_ask: bool = False  # in the middle of calls, which is so in the handshake's era alone
    owner: Relay | None = None  # whose it is alone; None where it is shared


def forwarded(names: Sequence[str], headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return those of a caller's headers that cross to an upstream: those named, but none of the protocol's."""
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
    """The caller's side; None where nobody can be asked or told."""
    headers: Mapping[str, str]
    timeout_s: float
    limit_s: float
    is_sent: bool = False
    token: int = field(default=0, init=False)
    """What tells it from the others of its connection."""
    _since_s: float = field(default_factory=lambda: asyncio.get_running_loop().time(), init=False)
    _deadline: asyncio.Timeout | None = field(default=None, init=False)
    n_dropped: int = field(default=0, init=False)
    """How much its caller was not told, since they read too slowly."""
    n_questions: int = field(default=0, init=False)
    """How many its caller has not answered yet."""
    _untold: deque[tuple[Callable[[], Awaitable[None]], int]] = field(default_factory=deque, init=False)
    _n_bytes: int = field(default=0, init=False)
    _telling: asyncio.Future[None] | None = field(default=None, init=False)

    def move_on(self) -> None:
        """Count its time from now: the upstream has shown that it works on it."""
        if not self.n_questions:
            self._may_take(self.timeout_s)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Let the call take `ASKED_S` while the caller is asked, since a person may take long."""
        self.n_questions += 1
        self._may_take(max(self.timeout_s, ASKED_S))
        try:
            yield
        finally:
            self.n_questions -= 1
            self.move_on()

    def _may_take(self, more_s: float) -> None:
        """Give it so much time from now on, within what it may take in all."""
        if self._deadline is not None and not self._deadline.expired():
            until_s = asyncio.get_running_loop().time() + more_s
            self._deadline.reschedule(min(until_s, self._since_s + self.limit_s))

    def tell(self, tell: Callable[[Mapping[str, Any]], Awaitable[None]], params: Mapping[str, Any]) -> None:
        """Have the caller told something of the call, in its order, which shows that the upstream works on it.

        An upstream may tell more than its caller reads: neither its other calls nor our memory may suffer from that, so
        of too much the oldest is not told.
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
        told, n_bytes = self._untold.popleft()
        self._n_bytes -= n_bytes
        return told

    async def _tell(self) -> None:
        while self._untold:
            try:
                await self._next()()
            except Exception as error:
                logger.debug("a caller could not be told something of a call: %r", error)

    async def all_told(self) -> None:
        """Return once the caller has been told all that has come: nothing can be told of a call after its result."""
        if self._telling is not None:
            await self._telling

    @asynccontextmanager
    async def under_way(self, calls: CallsUnderWay) -> AsyncIterator[None]:
        """Make it the present call, one of its connection's, and end it by `GivenUpError` once it takes too long.

        That is without a sign of progress, or in all. Its caller has been told everything of it by the end.
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
"""Returns the call that runs in this context, None outside of any."""


class CallsUnderWay:
    """The calls that one connection works on: what is asked and told goes to their callers, and to nobody else.

    What belongs to no call goes to the `owner` whose connection it is alone.
    """

    def __init__(self, owner: Relay | None) -> None:
        self._outside = Call(owner, {}, ASKED_S, ASKED_S) if owner is not None else None
        self._all: dict[str, Call] = {}
        self._tokens = count(1)

    def begin(self, call: Call) -> None:
        """Take up a call, under a token of its own by which the upstream tells of its progress."""
        call.token = next(self._tokens)
        self._all[str(call.token)] = call
        if self._outside is not None:
            self._outside.relay = call.relay

    def end(self, call: Call) -> None:
        """Have nothing more asked or told of a call."""
        del self._all[str(call.token)]

    def _asked(self) -> Call | None:
        """Return the call that a question or message of the upstream belongs to.

        Over streamable HTTP it comes on the response to that very call. Over stdio and SSE it bears no mark: it is the
        caller's whose calls alone are under way; None where it could be of several sessions' calls, or of none.
        """
        present = present_call()
        if present is not None and self._all.get(str(present.token)) is present:
            return present
        sessions = {call.relay and call.relay.session for call in self._all.values()}
        if len(sessions) > 1:
            return None
        return min(self._all.values(), key=lambda call: call.n_questions, default=self._outside)

    def hear(self, method: str, params: Mapping[str, Any]) -> None:
        """Hand a log message or progress on; it is dropped where no call is known that it belongs to."""
        is_progress = method == "notifications/progress"
        call = self._all.get(str(params.get("progressToken"))) if is_progress else self._asked()
        if call is not None and call.relay is not None:
            call.tell(call.relay.progress if is_progress else call.relay.log, params)
        elif call is not None:
            call.move_on()

    async def ask(self, question: mcp_types.InputRequest) -> Any:
        """Ask the caller whom a question belongs to; return their answer, or an error that says why there is none."""
        while (call := self._asked()) is not None and (relay := call.relay) is not None:
            with call.asking(), suppress(CallOverError):
                await call.all_told()
                return await relay.ask(question)
        why = "no call is under way, or calls of several sessions are, so it is not known whom to ask"
        return mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=f"{question.method} refused: {why}")

    def log_level(self) -> str | None:
        """Return the most verbose level that a caller of a call under way wants; None where nobody has said any.

        Who has not said it has what the upstream does by itself, as far as nobody else's wish cuts that short.
        """
        wanted = [call.relay.log_level for call in self._all.values() if call.relay is not None]
        return min((level or USUAL_LEVEL for level in wanted), key=LEVELS.index) if any(wanted) else None

"""The calls that are under way on one connection, and the callers whom the upstream asks and tells while it works."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import mcp_types

_present: ContextVar[Call | None] = ContextVar("agent_utilities_upstream_call", default=None)
N_UNTOLD = 256
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
        """Return the caller's answer, or the error that the upstream is told."""

    async def log(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        """Hand on a log message."""

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Hand on progress of the call."""


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
    _since_s: float = field(default_factory=lambda: asyncio.get_running_loop().time(), init=False)
    _deadline: asyncio.Timeout | None = field(default=None, init=False)
    _n_questions: int = field(default=0, init=False)
    _untold: deque[Callable[[], Awaitable[None]]] = field(default_factory=lambda: deque(maxlen=N_UNTOLD), init=False)
    _is_telling: bool = field(default=False, init=False)

    def move_on(self) -> None:
        """Count its time from now: the upstream has shown that it works on it."""
        if not self._n_questions:
            self._may_take(self.timeout_s)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Let the call take `ASKED_S` while the caller is asked, since a person may take long."""
        self._n_questions += 1
        self._may_take(max(self.timeout_s, ASKED_S))
        try:
            yield
        finally:
            self._n_questions -= 1
            self.move_on()

    def _may_take(self, more_s: float) -> None:
        """Give it so much time from now on, within what it may take in all."""
        if self._deadline is not None and not self._deadline.expired():
            until_s = asyncio.get_running_loop().time() + more_s
            self._deadline.reschedule(min(until_s, self._since_s + self.limit_s))

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Hand progress on to the caller, as a sign that the upstream works on it."""
        if self.relay is not None:
            await self.hand_on(partial(self.relay.progress, progress, total, message))
        else:
            self.move_on()

    async def hand_on(self, what: Callable[[], Awaitable[None]]) -> None:
        """Tell the caller something of the call, in its order, which shows that the upstream works on it.

        An upstream may tell more than its caller reads: neither its other calls nor our memory may suffer from that, so
        of too much some is not told.
        """
        self.move_on()
        self._untold.append(what)
        if self._is_telling:
            return
        self._is_telling = True
        try:
            while self._untold:
                await self._untold.popleft()()
        finally:
            self._is_telling = False

    @asynccontextmanager
    async def under_way(self, calls: CallsUnderWay) -> AsyncIterator[None]:
        """Make it the present call, one of its connection's, and end it by `GivenUpError` once it takes too long.

        That is without a sign of progress, or in all.
        """
        token = _present.set(self)
        calls.all.add(self)
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
        finally:
            self._deadline = None
            calls.all.discard(self)
            _present.reset(token)


present_call = _present.get
"""Returns the call that runs in this context, None outside of any."""


class CallsUnderWay:
    """The calls that one connection works on: what is asked and told goes to their callers, and to nobody else."""

    def __init__(self) -> None:
        self.all: set[Call] = set()

    def asked(self) -> tuple[Call, Relay] | None:
        """Return the call, and its caller, that a question or message of the upstream belongs to.

        Over streamable HTTP it comes on the response to that very call. Over stdio and SSE it bears no mark: it is the
        caller's whose calls alone are under way; None where it could be of several sessions' calls, or of none.
        """
        present = present_call()
        if present is not None and present in self.all:
            return (present, present.relay) if present.relay is not None else None
        found: tuple[Call, Relay] | None = None
        for call in self.all:
            if call.relay is None or (found is not None and call.relay.session != found[1].session):
                return None
            found = (call, call.relay)
        return found

    async def log(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        """Hand a log message on; it is dropped where no call is known that it belongs to."""
        if (asked := self.asked()) is not None:
            call, relay = asked
            await call.hand_on(lambda: relay.log(params))

    async def ask(self, question: mcp_types.InputRequest) -> Any:
        """Ask the caller whom a question belongs to; return their answer, or an error that says why there is none."""
        if (asked := self.asked()) is None:
            why = "no call is under way, or calls of several sessions are, so it is not known whom to ask"
            return mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=f"{question.method} refused: {why}")
        call, relay = asked
        with call.asking():
            return await relay.ask(question)

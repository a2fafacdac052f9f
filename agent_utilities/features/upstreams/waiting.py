"""Calls kept from one request of their caller to the next, where a caller can be asked in a result alone.

A caller of 2026-07-28 is asked by the result of a request, and answers with another request. An upstream of before
asks in the middle of a call, and waits. Between the two the call is kept, under a name that only its caller is given.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar, cast

import mcp_types
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from agent_utilities.features.upstreams.relay import Asker, Question, ServerRelay, offers, refusal

_T = TypeVar("_T")
_R = TypeVar("_R", bound=BaseModel)

_SAMPLES = (mcp_types.CreateMessageResult, mcp_types.CreateMessageResultWithTools)


@dataclass(eq=False)
class _Asked:
    """A question that its upstream waits for an answer to."""

    question: Question
    answers: tuple[type, ...]
    answer: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class AskingCall(Asker, Generic[_T]):
    """One call of an upstream that may ask in the middle of it. It is the relay of the call.

    Args:
        first: the request that began it.
        target: what is called, so that nothing else is resumed by its name.
    """

    def __init__(self, first: ServerRelay, target: Hashable) -> None:
        self.session = first.session
        self.caller = first.caller
        self.target = target
        self.capabilities = first.capabilities
        self.asked_at_once = None
        self._present: ServerRelay | None = None
        self._open: dict[str, _Asked] = {}
        self._n_asked = 0
        self._news = asyncio.Event()
        self._outcome: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[None] | None = None
        """What runs it."""
        self._end: asyncio.TimerHandle | None = None

    def end_after(self, seconds: float, give_up: Callable[[], None]) -> None:
        """Have something called unless the call goes on by then."""
        self._end = asyncio.get_running_loop().call_later(seconds, give_up)

    def go_on(self) -> None:
        """Wait for its caller's answer no more."""
        if self._end is not None:
            self._end.cancel()

    def cancel(self) -> None:
        """End it, at its upstream too."""
        if self.task is not None:
            self.task.cancel()

    # -- the upstream's side ---------------------------------------------------------------------------------------

    async def run(self, work: Callable[[], Awaitable[_T]]) -> None:
        """Do the work, and keep its outcome for the caller."""
        try:
            self._outcome.set_result(await work())
        except Exception as error:
            self._outcome.set_exception(error)
            self._outcome.exception()  # It may never be asked for again, where its caller is gone.
        finally:
            self._outcome.cancel()
            self._news.set()

    async def log(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        """Hand on a log message; it is dropped while no request of the caller's is there to bear it."""
        if self._present is not None:
            await self._present.log(params)

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Hand on progress of the call, likewise."""
        if self._present is not None:
            await self._present.progress(progress, total, message)

    async def _ask(self, question: Question, answer: type[_R]) -> _R | mcp_types.ErrorData:
        if not offers(self.capabilities, question):
            return refusal(question)
        self._n_asked += 1
        key = str(self._n_asked)
        asked = self._open[key] = _Asked(question, _SAMPLES if answer in _SAMPLES else (answer,))
        self._news.set()
        try:
            return cast(_R | mcp_types.ErrorData, await asked.answer)
        finally:
            self._open.pop(key, None)

    # -- the caller's side -----------------------------------------------------------------------------------------

    async def outcome(self, present: ServerRelay) -> _T | dict[str, Question]:
        """Return the call's outcome, or what its caller must be asked first.

        Args:
            present: the caller's request that waits for it.

        Raises:
            Exception: whatever the call raised.
            MCPError: it was given up.
        """
        self._present = present
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                if self._outcome.cancelled():
                    raise MCPError(mcp_types.INTERNAL_ERROR, "the gateway is stopping")
                if self._outcome.done():
                    return self._outcome.result()
                questions = {key: asked.question for key, asked in self._open.items() if not asked.answer.done()}
                if questions:
                    return questions
        finally:
            self._present = None

    def answer(self, responses: mcp_types.InputResponses) -> None:
        """Give the upstream its caller's answers; a question that got none is asked again.

        Raises:
            MCPError: an answer is none to its question.
        """
        for key, asked in self._open.items():
            if (response := responses.get(key)) is None or asked.answer.done():
                continue
            if not isinstance(response, asked.answers):
                message = f"the answer {key!r} is none to {asked.question.method}"
                raise MCPError(mcp_types.INVALID_PARAMS, message)
            asked.answer.set_result(response)
        if any(not asked.answer.done() for asked in self._open.values()):
            self._news.set()

    def refuse(self, message: str) -> None:
        """Refuse all that the upstream asks."""
        for asked in self._open.values():
            if not asked.answer.done():
                asked.answer.set_result(mcp_types.ErrorData(code=mcp_types.INTERNAL_ERROR, message=message))


WAIT_S = 600.0
"""How long a caller may take to answer, in seconds: as long as the SDK lets a request's state live."""
N_WAITING = 256
"""How many calls may wait for answers at once."""
N_OF_CALLER = 32
"""How many of them may be one caller's."""


class WaitingCalls:
    """The calls that are under way for callers who are asked in results.

    A call whose caller doesn't answer in time is cancelled, at its upstream too.

    Args:
        wait_s: how long a caller may take.
        n_waiting: how many calls may wait at once.
        n_of_caller: how many of them may be one caller's.
    """

    def __init__(self, wait_s: float = WAIT_S, n_waiting: int = N_WAITING, n_of_caller: int = N_OF_CALLER) -> None:
        self.wait_s, self.n_waiting, self.n_of_caller = wait_s, n_waiting, n_of_caller
        self._group: asyncio.TaskGroup | None = None
        self.tasks: set[asyncio.Task[None]] = set()
        """What runs them."""
        self._waiting: dict[str, AskingCall[Any]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_running(self) -> bool:
        """Whether calls can be kept: while the server runs."""
        return self._group is not None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep calls until the block is left; those that are under way then are cancelled."""
        async with asyncio.TaskGroup() as self._group:
            try:
                yield
            finally:
                self._group = None
                for call in self._waiting.values():
                    call.go_on()
                self._waiting.clear()
                for task in self.tasks:
                    task.cancel()

    async def begin(
        self, relay: ServerRelay, target: Hashable, work: Callable[[AskingCall[_T]], Awaitable[_T]]
    ) -> _T | mcp_types.InputRequiredResult:
        """Begin a call; return its outcome, or what its caller is asked.

        Args:
            relay: the request that begins it.
            target: what is called.
            work: calls the upstream, and is given the relay.
        """
        assert self._group is not None
        call: AskingCall[_T] = AskingCall(relay, target)
        call.task = self._group.create_task(call.run(lambda: work(call)))
        self.tasks.add(call.task)
        call.task.add_done_callback(self.tasks.discard)
        return await self._go_on(call, relay)

    async def resume(
        self, relay: ServerRelay, target: Hashable, state: str, responses: mcp_types.InputResponses
    ) -> Any:
        """Go on with a call that waits; return its outcome, or what its caller is asked next.

        Args:
            relay: the request that brings the answers.
            target: what is called.
            state: the name that its caller was given.
            responses: the caller's answers.

        Raises:
            MCPError: no call of this caller's waits under that name, or an answer is none.
        """
        call = self._waiting.get(state)
        if call is None or (call.caller, call.target) != (relay.caller, target):
            data = {"reason": "invalid_request_state"}
            raise MCPError(mcp_types.INVALID_PARAMS, "Invalid or expired requestState", data)
        del self._waiting[state]
        call.go_on()
        try:
            call.answer(responses)
        except MCPError:
            call.cancel()
            raise
        return await self._go_on(call, relay)

    async def _go_on(self, call: AskingCall[_T], relay: ServerRelay) -> _T | mcp_types.InputRequiredResult:
        try:
            while True:
                outcome = await call.outcome(relay)
                if not isinstance(outcome, dict):
                    return outcome
                if self._has_room(relay.caller):
                    state = secrets.token_urlsafe(24)
                    self._waiting[state] = call
                    call.end_after(self.wait_s, partial(self._give_up, state))
                    return mcp_types.InputRequiredResult(input_requests=outcome, request_state=state)
                call.refuse("too many calls wait for their callers' answers; try again later")
        except asyncio.CancelledError:
            call.cancel()
            raise

    def _has_room(self, caller: str) -> bool:
        n_of_caller = sum(call.caller == caller for call in self._waiting.values())
        return len(self._waiting) < self.n_waiting and n_of_caller < self.n_of_caller

    def _give_up(self, state: str) -> None:
        if (call := self._waiting.pop(state, None)) is not None:
            call.cancel()

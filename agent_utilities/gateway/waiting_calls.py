"""Calls that are kept from one request of their caller to the next, where callers are asked by results alone.

A caller of 2026-07-28 is asked by the result of a request, and answers with another request. An upstream of the older
era asks during a call, and waits. Between the two requests the call is kept, under a name that only its caller has.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import mcp_types
from mcp.shared.exceptions import MCPError

from agent_utilities.gateway.relay import Question, ServerRelay, offers, refusal, wants
from agent_utilities.gateway.tasks import TaskIds
from agent_utilities.gateway.upstreams.connections.calls import CallOverError

WAIT_S = 600.0
"""How long a caller may take to answer, in seconds: as long as the SDK lets a request's state live."""
N_WAITING = 256
"""How many calls may wait for answers at once."""
N_OF_CALLER = 32
"""How many of them may be one caller's."""
_SAMPLES = (mcp_types.CreateMessageResult, mcp_types.CreateMessageResultWithTools)


class Questions(dict[str, Question]):
    """Questions that the caller must answer before there is a result, by key."""


class AskingCall:
    """One call of an upstream that may ask during it. It is the relay of the call.

    Args:
        first: the request that began it.
        target: what is called; no request for another target resumes it.
    """

    def __init__(self, first: ServerRelay, target: Hashable, work: Callable[[AskingCall], Awaitable[Any]]) -> None:
        self.session, self.caller, self.target = first.session, first.caller, target
        self.capabilities, self.asked_at_once = first.capabilities, None
        self.log_level = first.log_level
        self._present: ServerRelay | None = None
        self._is_present = asyncio.Event()
        self._open: dict[str, tuple[Question, asyncio.Future[Any]]] = {}
        self._shown: Collection[str] = ()  # keys of the questions that its caller got last
        self._n_asked = 0
        self._news = asyncio.Event()
        self.task = asyncio.ensure_future(work(self))
        self.task.add_done_callback(self._over)

    def _over(self, task: asyncio.Future[Any]) -> None:
        if not task.cancelled():
            task.exception()  # retrieved: its caller may be gone
        self._leave_open(self._shown)
        self._news.set()

    def _leave_open(self, kept: Collection[str] = ()) -> None:
        """Release open questions, to be asked in another call, but for those that the caller is about to answer."""
        for key, (_, answer) in self._open.items():
            if key not in kept and not answer.done():
                answer.set_exception(CallOverError)

    def give_up(self) -> None:
        """Cancel the call: its caller has not come back."""
        self.task.cancel()
        self._leave_open()

    async def _bearer(self) -> ServerRelay:
        """Return the request of the caller that carries messages; wait for it where the caller is away."""
        while self._present is None:
            await self._is_present.wait()
        return self._present

    async def log(self, params: Mapping[str, Any]) -> None:
        await (await self._bearer()).log(params)

    async def progress(self, params: Mapping[str, Any]) -> None:
        await (await self._bearer()).progress(params)

    async def ask(self, question: Question) -> Any:
        if not offers(self.capabilities, question):
            return refusal(question)
        if self.task.done():
            return refusal(question, "can be asked in the result of a request that is under way alone")
        self._n_asked += 1
        key, answer = str(self._n_asked), asyncio.get_running_loop().create_future()
        self._open[key] = question, answer
        self._news.set()
        try:
            return await answer
        finally:
            self._open.pop(key, None)

    # -- the caller's side -----------------------------------------------------------------------------------------

    async def outcome(self, present: ServerRelay) -> Any:
        """Return or raise the outcome of the call, or return the questions that its caller must answer first."""
        self._present = present
        self._is_present.set()
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                if self.task.cancelled():
                    raise MCPError(mcp_types.INTERNAL_ERROR, "the gateway is stopping")
                if self.task.done():
                    return self.task.result()
                if questions := {key: question for key, (question, answer) in self._open.items() if not answer.done()}:
                    self._shown = questions
                    return Questions(questions)
        finally:
            self._present = None
            self._is_present.clear()

    def answer(self, responses: mcp_types.InputResponses) -> None:
        """Pass on the caller's answers, `MCPError` for one of the wrong type; an unanswered question is asked again."""
        for key, (question, answer) in self._open.items():
            if answer.done():
                continue
            if (response := responses.get(key)) is None:
                self._news.set()
                continue
            _, expected = wants(question)
            if not isinstance(response, _SAMPLES if expected in _SAMPLES else expected):
                raise MCPError(mcp_types.INVALID_PARAMS, f"the answer {key!r} is none to {question.method}")
            answer.set_result(response)

    def refuse(self, message: str) -> None:
        """Answer all open questions with an error."""
        for _, answer in self._open.values():
            if not answer.done():
                answer.set_result(mcp_types.ErrorData(code=mcp_types.INTERNAL_ERROR, message=message))


class WaitingCalls:
    """The calls that are under way for callers who are asked by results.

    A call whose caller doesn't answer in time is cancelled, at its upstream too.
    """

    def __init__(self) -> None:
        self.wait_s, self.n_waiting, self.n_of_caller = WAIT_S, N_WAITING, N_OF_CALLER
        self.is_running = False
        """Whether calls can be kept: while the server runs."""
        self.tasks: set[asyncio.Future[Any]] = set()
        self.task_ids = TaskIds()
        """The ids of background tasks at upstreams."""
        self._waiting: dict[str, tuple[AskingCall, asyncio.TimerHandle]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep calls until the block ends; those that are under way then are cancelled."""
        self.is_running = True
        try:
            yield
        finally:
            self.is_running = False
            for _, timer in self._waiting.values():
                timer.cancel()
            self._waiting.clear()
            tasks = list(self.tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def begin(self, relay: ServerRelay, target: Hashable, work: Callable[[AskingCall], Awaitable[Any]]) -> Any:
        """Begin a call of a target; return its outcome, or its questions to the caller."""
        call = AskingCall(relay, target, work)
        self.tasks.add(call.task)
        call.task.add_done_callback(self.tasks.discard)
        return await self._go_on(call, relay)

    async def resume(
        self, relay: ServerRelay, target: Hashable, state: str, responses: mcp_types.InputResponses
    ) -> Any:
        """Go on with the call that a request's state names; return its outcome, or its next questions.

        Raises:
            MCPError: no call of this caller's waits under that name, or an answer is of the wrong type.
        """
        call, timer = self._waiting.get(state, (None, None))
        if call is None or timer is None or (call.caller, call.target) != (relay.caller, target):
            data = {"reason": "invalid_request_state"}
            raise MCPError(mcp_types.INVALID_PARAMS, "Invalid or expired requestState", data)
        del self._waiting[state]
        timer.cancel()
        try:
            call.answer(responses)
        except MCPError:
            call.give_up()
            raise
        return await self._go_on(call, relay)

    async def _go_on(self, call: AskingCall, relay: ServerRelay) -> Any:
        try:
            while True:
                outcome = await call.outcome(relay)
                if not isinstance(outcome, Questions):
                    return outcome
                if self._has_room(relay.caller):
                    state = secrets.token_urlsafe(24)
                    timer = asyncio.get_running_loop().call_later(self.wait_s, self._give_up, state)
                    self._waiting[state] = call, timer
                    return mcp_types.InputRequiredResult(input_requests=outcome, request_state=state)
                call.refuse("too many calls wait for their callers' answers; try again later")
        except asyncio.CancelledError:
            call.give_up()
            raise

    def _has_room(self, caller: str) -> bool:
        n_of_caller = sum(call.caller == caller for call, _ in self._waiting.values())
        return len(self._waiting) < self.n_waiting and n_of_caller < self.n_of_caller

    def _give_up(self, state: str) -> None:
        self._waiting.pop(state)[0].give_up()

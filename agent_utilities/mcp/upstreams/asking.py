"""Calls that wait for their callers' answers, where a caller can be asked in a result alone.

A caller of 2026-07-28 is asked by the result of his request, and answers with another request. An upstream of before
asks in the middle of a call, and waits. Between the two the call is kept, under a name that only its caller is given.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

import mcp_types
from mcp.shared.exceptions import MCPError

from agent_utilities.mcp.upstreams.capabilities import Question, offers, refusal
from agent_utilities.mcp.upstreams.relay import ServerRelay

_T = TypeVar("_T")
_R = TypeVar("_R", bound=mcp_types.InputResponse)

_SAMPLES = (mcp_types.CreateMessageResult, mcp_types.CreateMessageResultWithTools)


@dataclass(eq=False)
class _Asked:
    """A question that its upstream waits for an answer to."""

    question: Question
    answers: tuple[type, ...]
    answer: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class AskingCall(Generic[_T]):
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

    async def sample(
        self, params: mcp_types.CreateMessageRequestParams
    ) -> mcp_types.CreateMessageResult | mcp_types.CreateMessageResultWithTools | mcp_types.ErrorData:
        """Have the caller's model answer."""
        answer: Any = await self._ask(mcp_types.CreateMessageRequest(params=params), *_SAMPLES)
        return cast(mcp_types.CreateMessageResult, answer)

    async def elicit(self, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        """Ask the caller's user."""
        return await self._ask(mcp_types.ElicitRequest(params=params), mcp_types.ElicitResult)

    async def roots(self) -> mcp_types.ListRootsResult | mcp_types.ErrorData:
        """Ask for the caller's roots."""
        return await self._ask(mcp_types.ListRootsRequest(), mcp_types.ListRootsResult)

    async def log(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        """Hand on a log message; it is dropped while no request of the caller's is there to bear it."""
        if self._present is not None:
            await self._present.log(params)

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Hand on progress of the call, likewise."""
        if self._present is not None:
            await self._present.progress(progress, total, message)

    async def _ask(self, question: Question, *answers: type[_R]) -> _R | mcp_types.ErrorData:
        if not offers(self.capabilities, question):
            return refusal(question)
        self._n_asked += 1
        key = str(self._n_asked)
        asked = self._open[key] = _Asked(question, answers)
        self._news.set()
        try:
            answer: _R | mcp_types.ErrorData = await asked.answer
            return answer
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

"""The calls that are kept from one request of their caller to the next, bounded in number and time."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import mcp_types
from mcp.shared.exceptions import MCPError

from agent_utilities.mcp.upstreams.asking import AskingCall
from agent_utilities.mcp.upstreams.relay import ServerRelay

_T = TypeVar("_T")

WAIT_S = 600.0
"""How long a caller may take to answer, in seconds: as long as the SDK lets a request's state live."""
N_WAITING = 256
"""How many calls may wait for answers at once."""
N_OF_CALLER = 32
"""How many of them may be one caller's."""


@dataclass(eq=False)
class _Running:
    """A call with the task that it runs in; while it waits, with what ends it."""

    call: AskingCall[Any]
    task: asyncio.Task[None]
    end: asyncio.TimerHandle | None = None


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
        self._waiting: dict[str, _Running] = {}

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
                for running in self._waiting.values():
                    assert running.end is not None
                    running.end.cancel()
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
        task = self._group.create_task(call.run(lambda: work(call)))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        outcome: _T | mcp_types.InputRequiredResult = await self._go_on(_Running(call, task), relay)
        return outcome

    async def resume(
        self, relay: ServerRelay, target: Hashable, state: str, responses: mcp_types.InputResponses
    ) -> Any:
        """Go on with a call that waits; return its outcome, or what its caller is asked next.

        Args:
            relay: the request that brings the answers.
            target: what is called.
            state: the name that its caller was given.
            responses: his answers.

        Raises:
            MCPError: no call of this caller's waits under that name, or an answer is none.
        """
        running = self._waiting.get(state)
        if running is None or (running.call.caller, running.call.target) != (relay.caller, target):
            data = {"reason": "invalid_request_state"}
            raise MCPError(mcp_types.INVALID_PARAMS, "Invalid or expired requestState", data)
        del self._waiting[state]
        assert running.end is not None
        running.end.cancel()
        try:
            running.call.answer(responses)
        except MCPError:
            running.task.cancel()
            raise
        return await self._go_on(running, relay)

    async def _go_on(self, running: _Running, relay: ServerRelay) -> Any:
        try:
            while True:
                outcome = await running.call.outcome(relay)
                if not isinstance(outcome, dict):
                    return outcome
                if self._has_room(relay.caller):
                    return mcp_types.InputRequiredResult(input_requests=outcome, request_state=self._keep(running))
                running.call.refuse("too many calls wait for their callers' answers; try again later")
        except asyncio.CancelledError:
            running.task.cancel()
            raise

    def _has_room(self, caller: str) -> bool:
        n_of_caller = sum(running.call.caller == caller for running in self._waiting.values())
        return len(self._waiting) < self.n_waiting and n_of_caller < self.n_of_caller

    def _keep(self, running: _Running) -> str:
        state = secrets.token_urlsafe(24)
        running.end = asyncio.get_running_loop().call_later(self.wait_s, self._give_up, state)
        self._waiting[state] = running
        return state

    def _give_up(self, state: str) -> None:
        if (running := self._waiting.pop(state, None)) is not None:
            running.task.cancel()

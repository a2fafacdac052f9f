"""A real graph that is watched, and held at a point where a test wants it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from inspect import isawaitable
from typing import Any

from agent_utilities.query.graph.base import ToolGraph, ToolRecord
from agent_utilities.query.resolution.graph_keeper import GraphKeeper
from agent_utilities.query.resolution.resolver import Pipeline


class Held:
    """Counts what passes to a real graph; every read or write waits while it is held.

    Args:
        graph: the graph behind it.
        reads, writes: what is held from the start.
    """

    def __init__(self, graph: ToolGraph, *, reads: bool = False, writes: bool = False) -> None:
        self.graph, self.backend = graph, graph.backend
        self.n_reads = self.n_writes = 0
        self.written: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.reached = asyncio.Event()
        self._gates: list[asyncio.Event] = []
        self.hold(reads=reads, writes=writes)

    def hold(self, *, reads: bool = False, writes: bool = False) -> None:
        """Hold reads, writes, both or none from now on; what is held already stays so."""
        self.reached.clear()
        self._reads, self._writes = asyncio.Event(), asyncio.Event()
        self._gates += [self._reads, self._writes]
        for gate, is_held in ((self._reads, reads), (self._writes, writes)):
            if not is_held:
                gate.set()

    def release(self) -> None:
        """Let everything through."""
        for gate in self._gates:
            gate.set()

    async def open(self) -> None:
        await self.graph.open()

    async def close(self) -> None:
        await self.graph.close()

    async def read(self, statement: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        self.n_reads += 1
        self.asked.append((statement, parameters))
        await self._pass(self._reads)
        return await self.graph.read(statement, parameters)

    async def write(self, statements: Iterable[tuple[str, dict[str, Any]]]) -> None:
        self.n_writes += 1
        self.written += statements
        await self._pass(self._writes)
        await self.graph.write(statements)

    async def _pass(self, gate: asyncio.Event) -> None:
        if not gate.is_set():
            self.reached.set()
            await gate.wait()


async def until(holds: Callable[[], Any], what: str, seconds: float = 60) -> None:
    """Poll until something holds, be it at once or once awaited."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                outcome = holds()
                if await outcome if isawaitable(outcome) else outcome:
                    return
                await asyncio.sleep(0.002)
    except TimeoutError:
        raise AssertionError(f"not within {seconds} s: {what}") from None


def patient(
    graph: ToolGraph, introspect: Callable[[], Awaitable[Sequence[ToolRecord]]], server: str = "s", **options: Any
) -> Pipeline:
    """Return a pipeline whose deadline a busy machine keeps: a Neo4j plans its first queries for a second.

    `options` are those of the graph's keeper, beside `ranker` and `deadline_s`.
    """
    ranker, deadline_s = options.pop("ranker", None), options.pop("deadline_s", 10)
    return Pipeline(GraphKeeper(graph, server, introspect, **options), ranker, None, deadline_s)


@asynccontextmanager
async def running(pipeline: Pipeline, *, wait: bool = True) -> AsyncIterator[asyncio.Task[None]]:
    """Run a pipeline for a block, by default from when its graph is filled."""
    task = asyncio.create_task(pipeline.keeper.run())
    try:
        if wait:
            keeper = pipeline.keeper
            await until(lambda: task.done() or (keeper.n_refreshes and keeper.cause is None), "filled")
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


class Live:
    """The live tools of a server, as it is introspected; a test changes them, or holds the answer.

    Args:
        tools: what is there.
    """

    def __init__(self, tools: Sequence[ToolRecord]) -> None:
        self.tools = tools
        self.n_calls = 0
        self.reached, self._gate = asyncio.Event(), asyncio.Event()
        self._gate.set()

    def hold(self) -> None:
        """Let introspection wait from now on."""
        self.reached.clear()
        self._gate.clear()

    def release(self) -> None:
        """Let it go on."""
        self._gate.set()

    async def __call__(self) -> Sequence[ToolRecord]:
        self.n_calls += 1
        tools = list(self.tools)
        self.reached.set()
        await self._gate.wait()
        return tools


class Unopened:
    """A graph that never opens."""

    backend = "none"

    async def open(self) -> None:
        await asyncio.Event().wait()

    async def close(self) -> None:
        pass

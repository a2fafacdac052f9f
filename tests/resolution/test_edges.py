"""What calls teach of tools that go together: from the log's source into the graph, and back with an answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_utilities.graph.edges import ToolEdge
from agent_utilities.graph.embedded import EmbeddedGraph
from agent_utilities.resolution.answer import Question, Ranked, combined_answer
from agent_utilities.resolution.scope import CallerScope
from agent_utilities.resolution.trail import Trail
from agent_utilities.selection.resolution import RankedTool, Resolution
from tests.graph.records import record
from tests.graph.wrapped import Live, patient, running, until

pytestmark = pytest.mark.anyio

TOOLS = [record(name, "of git") for name in ("log", "diff", "push", "pull", "blame")]
FOLLOWED = [ToolEdge("followed_by", "log", "diff", 3), ToolEdge("followed_by", "log", "push", 1)]


class Source:
    """The edges that a log has; a test changes them, holds the answer, or has it fail."""

    def __init__(self, edges: Sequence[ToolEdge]) -> None:
        self.edges = edges
        self.n_asked = 0
        self.failure: Exception | None = None

    async def __call__(self) -> Sequence[ToolEdge]:
        self.n_asked += 1
        if self.failure is not None:
            raise self.failure
        return self.edges


class Claims:
    """A ranker that claims one tool."""

    version = "1"

    async def rank(self, question: Question, deadline: object) -> Ranked | None:
        return lambda literal: combined_answer(question, literal, [RankedTool("pull", 1.0)], 1)


def names(answer: Resolution) -> list[str]:
    return [name for name, _ in answer.neighbours]


def scope_of(*permitted: str) -> CallerScope:
    return CallerScope(",".join(permitted), lambda: frozenset(permitted))


class TestAnswers:
    async def test_tell_the_neighbours_of_the_last_call(self, tmp_path: Path) -> None:
        orchestrator = patient(EmbeddedGraph(tmp_path / "g.lbdb"), Live(TOOLS), edges=Source(FOLLOWED))
        async with running(orchestrator):
            await until(lambda: orchestrator.is_idle, "filled with edges")
            answer = await orchestrator.resolve("git", "s", trail=Trail(near=("log",)))
            assert (answer.status, names(answer)) == ("fresh", ["diff", "push"])
            assert len(answer.names) == 5

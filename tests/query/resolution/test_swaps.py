"""An index is swapped in for the catalog it was made of, and for no newer one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.query.graph.matching import normalise
from agent_utilities.query.ranking.base import Index
from agent_utilities.query.resolution.answer import Question
from agent_utilities.query.resolution.catalog_ranker import CatalogRanker
from agent_utilities.runtime.waiting import Deadline
from tests.query.graph.wrapped import until
from tests.query.ranking.catalogs import TOOLS

pytestmark = pytest.mark.anyio


class Slow:
    """A better ranker that makes each of its indexes when it is let to."""

    def __init__(self) -> None:
        self.n_begun = 0
        self.gates = [threading.Event(), threading.Event()]

    def index(self, documents: Sequence[ToolDocument], by_words: Index) -> Index:
        gate = self.gates[self.n_begun]
        self.n_begun += 1
        gate.wait(60)
        return by_words


async def test_one_made_of_an_older_catalog_takes_the_place_of_no_newer_one():
    better = Slow()
    ranker = CatalogRanker(better)
    running = asyncio.create_task(ranker.run())
    try:
        ranker.offer("old", TOOLS[:3])
        await until(lambda: better.n_begun == 1, "the older index is being made")
        ranker.offer("new", TOOLS)
        await until(lambda: ranker.version == "2", "the newer catalog is indexed by words")
        better.gates[0].set()
        await until(lambda: better.n_begun == 2, "the older index is there, and was weighed")
        assert ranker.version == "2"
        query = "read a file"
        ranking = await ranker.rank(Question(query, normalise(query)), Deadline.after(60))
        assert ranking is not None
        assert ranking(()).names[0] == "read_file"
    finally:
        for gate in better.gates:
            gate.set()
        running.cancel()
        await asyncio.wait([running])

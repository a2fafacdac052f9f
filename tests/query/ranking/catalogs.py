"""A small catalog, and a provider that needs no model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from hashlib import blake2b

import numpy as np

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.errors import RankerError
from agent_utilities.query.ranking.base import Ranking
from agent_utilities.query.ranking.hybrid import HybridRanker
from agent_utilities.query.ranking.lexical import LexicalRanker

TOOLS = (
    ToolDocument("git_status", description="Show what changed in the working tree.", server="git"),
    ToolDocument("git_log", description="List commits, newest first.", tags=("history",), server="git"),
    ToolDocument("clone_repo", description="Copy a remote repository to disk.", server="git"),
    ToolDocument("read_file", description="Return the text of a file.", parameters=(("path", ""),), server="files"),
    ToolDocument("deleteFolder", description="Remove a directory and all in it.", server="files"),
    ToolDocument("tail_logs", description="Print the last lines of a service's log.", server="logs"),
    ToolDocument("top_clients", description="Count requests per client address.", server="logs"),
    ToolDocument("查询天气", description="查询一个城市的天气预报", server="weather"),
)
PLACES = {tool.name: place for place, tool in enumerate(TOOLS)}

CONCEPTS = {
    "hammering": "requests",
    "calls": "requests",
    "api": "requests",
    "who": "client",
    "folder": "directory",
    "erase": "remove",
    "modified": "changed",
}


class Concepts:
    """A provider whose vectors hash words, with a few words meaning the same; counts what it is asked."""

    name = "concepts"
    claim_distance: float = 0.35

    def __init__(self, n_dimensions: int = 96) -> None:
        self.n_dimensions = n_dimensions
        self.asked: list[str] = []
        self.fails = False

    def embed(self, texts: Sequence[str], role: str) -> np.ndarray:
        self.asked.extend(texts)
        if self.fails:
            raise RankerError("the model is gone")
        return np.array([text_vector(text, self.n_dimensions) for text in texts], dtype=np.float32)


@cache
def text_vector(text: str, n_dimensions: int) -> np.ndarray:
    words = re.findall(r"\w+", text.casefold()) or ["-"]
    vector: np.ndarray = np.sum([word_vector(word, n_dimensions) for word in words], axis=0)
    return vector


@cache
def word_vector(word: str, n_dimensions: int) -> np.ndarray:
    seed = blake2b(CONCEPTS.get(word, word).encode(), digest_size=4).digest()
    return np.random.default_rng(int.from_bytes(seed, "little")).normal(size=n_dimensions)


def rank_samples() -> list[tuple[object, ...]]:
    """Return what both rankers make of a few requests, as JSON can hold it."""
    requests = ("who has been hammering our API", "remove the folder and list commits", "城市天气")
    indexes = (LexicalRanker().index(TOOLS), HybridRanker(Concepts).index(TOOLS))
    rankings: list[Ranking] = [index.rank(request) for index in indexes for request in requests]
    return [(ranking.indexes, ranking.scores, ranking.matched) for ranking in rankings]

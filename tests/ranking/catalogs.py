"""A small catalog, a provider that needs no model, and Hypothesis strategies for both."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from hypothesis import strategies as st

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.ranking.base import RankerError

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
    cut: float | None = 0.15

    def __init__(self, n_dimensions: int = 96) -> None:
        self.n_dimensions = n_dimensions
        self.asked: list[str] = []
        self.fails = False

    def embed(self, texts: Sequence[str], kind: str) -> np.ndarray:
        self.asked.extend(texts)
        if self.fails:
            raise RankerError("the model is gone")
        made = np.zeros((len(texts), self.n_dimensions), dtype=np.float32)
        for row, text in zip(made, texts, strict=True):
            for word in re.findall(r"\w+", text.casefold()) or ["-"]:
                seed = blake2b(CONCEPTS.get(word, word).encode(), digest_size=4).digest()
                row += np.random.default_rng(int.from_bytes(seed, "little")).normal(size=self.n_dimensions)
        return made


words = st.sampled_from(["git", "log", "file", "read", "delete", "weather", "repo", "Queue", "天气", "the", "x1"])
texts = st.lists(words, max_size=8).map(" ".join)
documents = st.builds(
    ToolDocument,
    name=st.lists(words, min_size=1, max_size=3).map("_".join),
    description=texts,
    tags=st.lists(words, max_size=2).map(tuple),
    server=st.sampled_from(["", "a", "b"]),
)
catalogs = st.lists(documents, max_size=12)

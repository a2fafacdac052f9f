"""Fakes for authors' tests: a bound caller, graphs, embeddings and time; no socket, model, server or pytest needed."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Unpack

import httpx2
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

from agent_utilities.query.graph.base import Cause, GraphError, Statement, ToolGraph
from agent_utilities.selection.caller import CallerSelection, selection_url
from agent_utilities.server.agent_server import AgentServer

if TYPE_CHECKING:
    from agent_utilities.query.ranking.arrays import Vectors
    from agent_utilities.query.ranking.embedding import TextRole

__all__ = ["Clock", "FailingGraph", "HashedEmbeddings", "client", "memory_graph"]

_WORD = re.compile(r"\w+")


@asynccontextmanager
async def client(
    server: AgentServer,
    *,
    headers: Mapping[str, str] | None = None,
    mode: str = "auto",
    **selection: Unpack[CallerSelection],
) -> AsyncIterator[Client[StreamableHttpTransport]]:
    """Connect a caller to a server's own HTTP application, in this process and without a socket.

    Everything a request meets on a real server is there: the selection is read from the URL, bounds hold, routes and
    lifespan run. One client at a time starts and stops the server; two at once need a server each.

    Args:
        headers: further headers, such as `x-mcp-*` or `authorization`.
        mode: the protocol era, as `fastmcp.Client` takes it: `auto`, `legacy` or a version.
        selection: what the caller asks for, as in `selection_url`.

    Raises:
        SelectionError: a value of the selection can't be sent.
    """
    app = server.http_app(host_origin_protection=False)

    in_process = httpx2.ASGITransport(app=app)

    def connect(*_: Any, **options: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(**{"transport": in_process, "timeout": None, **options})

    url = selection_url("http://127.0.0.1/mcp", **selection)
    transport = StreamableHttpTransport(url, headers=dict(headers or {}), httpx_client_factory=connect)
    failure: Exception | None = None
    async with app.router.lifespan_context(app), Client(transport, mode=mode) as connected:
        try:
            yield connected
        except Exception as error:  # the lifespan's task group would bury a test's own failure in an ExceptionGroup
            failure = error
    if failure is not None:
        raise failure


def memory_graph() -> ToolGraph:
    """Return an embedded graph in memory: nothing is written to the user's cache folder."""
    from agent_utilities.query.graph.embedded import EmbeddedGraph

    return EmbeddedGraph(None)


class FailingGraph:
    """A graph of which every operation fails with one cause.

    Args:
        cause: what `GraphError` says; None lets everything through to `graph`, and may be set at any time.
        graph: the graph behind it; one in memory by default.
    """

    def __init__(self, cause: Cause | None = "unreachable", graph: ToolGraph | None = None) -> None:
        self.cause = cause
        self.backend = "failing"
        self._graph = graph or memory_graph()

    async def open(self) -> None:
        """Open the graph behind, unless it fails."""
        self._check()
        await self._graph.open()

    async def close(self) -> None:
        """Close the graph behind; this never fails."""
        await self._graph.close()

    async def read(self, statement: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        """Read from the graph behind, unless it fails."""
        self._check()
        return await self._graph.read(statement, parameters)

    async def write(self, statements: Sequence[Statement]) -> None:
        """Write to the graph behind, unless it fails."""
        self._check()
        await self._graph.write(statements)

    def _check(self) -> None:
        if self.cause is not None:
            raise GraphError(self.cause, "as the test asked")


class HashedEmbeddings:
    """An embeddings provider without a model: a text's vector is the sum of its words' hashed vectors.

    The same in every process. Texts are near to one another as far as they share words, or words that mean the same.

    Args:
        synonyms: words by the words that they are taken for.
        n_dimensions: the length of a vector.
    """

    name = "hashed"
    claim_distance: float = 0.0

    def __init__(self, synonyms: Mapping[str, str] | None = None, n_dimensions: int = 96) -> None:
        self._synonyms = dict(synonyms or {})
        self._n_dimensions = n_dimensions

    def embed(self, texts: Sequence[str], kind: TextRole) -> Vectors:
        """Return one vector a text, in order: (n_texts, n_dimensions)."""
        import numpy as np

        vectors = np.zeros((len(texts), self._n_dimensions), dtype=np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for word in _WORD.findall(text.casefold()) or ["-"]:
                digest = blake2b(self._synonyms.get(word, word).encode(), digest_size=4).digest()
                random = np.random.default_rng(int.from_bytes(digest, "little"))
                vector += random.normal(size=self._n_dimensions).astype(np.float32)
        return vectors


class Clock:
    """A clock that a test sets; calling it gives the time, as `time.time` and `time.monotonic` do."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds

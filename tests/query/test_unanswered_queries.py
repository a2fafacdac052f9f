"""A list whose query could not be answered yet is not kept by its client: the next one may be answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agent_utilities import selection_headers
from agent_utilities.query.graph.base import GraphError, Statement
from tests.server.servers import log_server, over_http

pytestmark = pytest.mark.anyio


class UnreachableGraph:
    """A graph that can't be had."""

    backend = "unreachable"

    async def open(self) -> None:
        raise GraphError("unreachable", "nobody there")

    async def close(self) -> None:
        return None

    async def read(self, statement: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        raise GraphError("unreachable", "nobody there")

    async def write(self, statements: Sequence[Statement]) -> None:
        raise GraphError("unreachable", "nobody there")


async def listed(**caller: Any) -> Any:
    environ = {"MCP_GRAPH": "auto", "MCP_RANKER": "off"}
    app, client = over_http(log_server(environ=environ, graph=UnreachableGraph()), headers=selection_headers(**caller))
    async with app.router.lifespan_context(app), client:
        return await client.session.list_tools()


async def test_an_unanswered_query_is_kept_for_no_time() -> None:
    result = await listed(query="tail")
    told = result.meta["agent-utilities/selection"]
    assert (told["status"], len(result.tools), result.ttl_ms) == ("unavailable", 4, 0)


async def test_a_list_without_a_query_is_kept_as_ever() -> None:
    assert (await listed(tools=["tail_log"])).ttl_ms == 60_000

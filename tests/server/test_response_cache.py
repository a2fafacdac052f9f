"""FastMCP's response cache, where the author added it: it serves those who select nothing, and nobody else."""

from __future__ import annotations

from typing import Any

import pytest
from fastmcp.server.middleware.caching import ResponseCachingMiddleware

from agent_utilities import AgentServer, selection_headers
from tests.every import every
from tests.server.servers import log_server, over_http

pytestmark = pytest.mark.anyio


class Renamed(ResponseCachingMiddleware):
    """FastMCP's cache under another name."""


def caching(cache: type[ResponseCachingMiddleware] = ResponseCachingMiddleware) -> AgentServer:
    return log_server(middleware=[cache()])


async def listed(server: AgentServer, **caller: Any) -> tuple[list[str], str]:
    """Return the names that a caller is listed, and the revision that he is told."""
    app, client = over_http(server, headers=selection_headers(**caller))
    async with app.router.lifespan_context(app), client:
        result = await client.session.list_tools()
        return [tool.name for tool in result.tools], result.meta["agent-utilities/selection"]["revision"]


async def test_a_cached_list_bears_the_revision_of_the_one_before_it() -> None:
    server = caching()
    assert await listed(server) == await listed(server)


async def test_who_selects_is_listed_his_own_after_others() -> None:
    server = caching()
    assert len((await listed(server))[0]) == 4
    assert (await listed(server, tools=["tail_log"]))[0] == ["tail_log"]
    assert (await listed(server, tools=["search_logs"]))[0] == ["search_logs"]


@every("cache", [ResponseCachingMiddleware, Renamed])
async def test_who_selects_nothing_is_listed_everything_after_one_who_does(
    cache: type[ResponseCachingMiddleware],
) -> None:
    server = caching(cache)
    assert (await listed(server, tools=["tail_log"]))[0] == ["tail_log"]
    assert len((await listed(server))[0]) == 4

"""Updates of a resource that no list holds are told to those whom nothing bounds, and to no other."""

from __future__ import annotations

import pytest
from fastmcp import Client
from mcp.client.subscriptions import ResourceUpdated, listen

from tests.mcp.servers import log_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]
UNLISTED, LISTED = "log://from-the-template", "log://status"


async def first_told(**environ: str) -> str:
    """Return the first URI of two that were updated, the unlisted one before the listed."""
    server = log_server(environ=environ)
    async with Client(server) as client:
        await client.list_resources()
        async with listen(client.session, resource_subscriptions=[UNLISTED, LISTED]) as stream:
            for uri in (UNLISTED, LISTED):
                await server.changes.bus.publish(ResourceUpdated(uri=uri))
            return str((await anext(aiter(stream))).uri)


async def test_an_unbounded_server_tells_of_it() -> None:
    assert await first_told() == UNLISTED


async def test_a_bounded_server_does_not() -> None:
    assert await first_told(MCP_DISABLED_TAGS="write") == LISTED

"""Updates of a resource that no list holds are told to those who may read it by its template."""

from __future__ import annotations

import pytest
from fastmcp import Client
from mcp.client.subscriptions import ResourceUpdated, listen

from tests.server.servers import log_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]
UNLISTED, LISTED = "log://from-the-template", "log://status"


async def first_told(**environ: str) -> str:
    """Return the first URI of two that were updated, the unlisted one before the listed."""
    server = log_server(environ=environ)
    async with Client(server) as client:
        await client.list_resources()
        async with listen(client.session, resource_subscriptions=[UNLISTED, LISTED]) as stream:
            for uri in (UNLISTED, LISTED):
                await server.changes.publish(ResourceUpdated(uri=uri))
            return str((await anext(aiter(stream))).uri)


async def test_who_may_read_by_the_template_is_told() -> None:
    assert await first_told(MCP_DISABLED_TAGS="write") == UNLISTED


async def test_who_is_denied_the_template_is_not() -> None:
    assert await first_told(MCP_DISABLED_TOOLS="log://{name}") == LISTED

"""Updates of upstreams' resources: subscribed to once at the upstream, told to whoever may read them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import mcp_types
import pytest
from fastmcp import Client
from mcp.client.subscriptions import listen
from mcp.shared.exceptions import MCPError

from tests.every import every
from tests.gateway.gateways import Served, served
from tests.gateway.test_uris import linking

pytestmark = [pytest.mark.anyio, pytest.mark.outside, pytest.mark.timeout(120)]
NOTE, DENIED, OTHERS = "memo://note", "memo://denied", "memo://silent"
EMPTY = mcp_types.EmptyResult
UPSTREAMS = ["old", "new"]
both_upstreams = every("era", UPSTREAMS)
both_eras = every("mode", ["legacy", "auto"])


@pytest.fixture(scope="module")
def gateway() -> Iterator[Served]:
    what = {"resources": [NOTE, DENIED], "capabilities": {"subscribe": True}}
    configs = [linking(era, era, **what) for era in UPSTREAMS]
    with served(*configs, linking("silent", resources=[OTHERS]), environ={"MCP_DISABLED_TOOLS": DENIED}) as made:
        yield made


class Hearing:
    """A client that hears of updates of resources."""

    def __init__(self, gateway: Served, mode: str) -> None:
        self.client: Client[Any] = Client(gateway.url + "/mcp", mode=mode, message_handler=self._took)
        self.mode, self._told = mode, asyncio.Queue[str]()

    async def _took(self, message: object) -> None:
        if isinstance(message, mcp_types.ResourceUpdatedNotification):
            await self._told.put(str(message.params.uri))

    async def begin(self, stack: AsyncExitStack, *uris: str) -> list[str]:
        """Want to hear of these, until the stack ends; return those that the gateway takes."""
        await stack.enter_async_context(self.client)
        if self.mode == "legacy":
            taken = []
            for uri in uris:
                try:
                    params = mcp_types.SubscribeRequestParams(uri=uri)
                    await self.client.session.send_request(mcp_types.SubscribeRequest(params=params), EMPTY)
                    taken.append(uri)
                except MCPError:
                    pass
            return taken
        stream = await stack.enter_async_context(listen(self.client.session, resource_subscriptions=uris))
        return stream.honored.resource_subscriptions or []

    async def first(self) -> str:
        return await asyncio.wait_for(self._told.get(), 30)


def here(era: str) -> str:
    return NOTE if era == "old" else "memo://new/note"


async def touch(client: Client[Any], era: str, uri: str = NOTE) -> list[str]:
    """Have a resource be updated; return what is subscribed to at its server."""
    (content,) = (await client.call_tool_mcp(f"{era}_touch", {"uri": uri})).content
    assert isinstance(content, mcp_types.TextContent)
    return [] if content.text.startswith("upstream") else list(json.loads(content.text))


@both_eras
@both_upstreams
async def test_who_subscribed_is_told_by_the_uri_here(gateway: Served, mode: str, era: str) -> None:
    hearing = Hearing(gateway, mode)
    async with AsyncExitStack() as stack:
        assert await hearing.begin(stack, here(era)) == [here(era)]
        assert await touch(hearing.client, era) == [NOTE]
        assert await hearing.first() == here(era)


@both_upstreams
async def test_an_upstream_is_subscribed_to_once_and_left_with_the_last(gateway: Served, era: str) -> None:
    async with Client(gateway.url + "/mcp") as asking, AsyncExitStack() as stack:
        last = await stack.enter_async_context(AsyncExitStack())
        for mode in ("legacy", "auto"):
            async with AsyncExitStack() as gone:
                await Hearing(gateway, mode).begin(last, here(era))
                await Hearing(gateway, mode).begin(gone, here(era))
        assert await touch(asking, era) == [NOTE]
        await last.aclose()
        while await touch(asking, era):
            pass  # until the end of its last stream has arrived


@both_eras
async def test_a_denied_resource_is_taken_no_more_than_one_that_never_was_or_that_nobody_tells_of(
    gateway: Served, mode: str
) -> None:
    async with AsyncExitStack() as stack:
        assert await Hearing(gateway, mode).begin(stack, DENIED, "memo://none", OTHERS, NOTE) == [NOTE]


@both_eras
async def test_it_is_announced_where_an_upstream_of_the_callers_has_it(gateway: Served, mode: str) -> None:
    for path, is_told in [("/mcp", True), ("/mcp?tags=silent", False)]:
        async with Client(gateway.url + path, mode=mode) as client:
            capabilities = client.session.server_capabilities
            assert capabilities is not None
            assert capabilities.resources is not None
            assert bool(capabilities.resources.subscribe) is is_told


async def test_a_session_hears_no_more_of_what_it_unsubscribed_from(gateway: Served) -> None:
    hearing = Hearing(gateway, "legacy")
    async with AsyncExitStack() as stack:
        await hearing.begin(stack, NOTE, "memo://new/note")
        params = mcp_types.UnsubscribeRequestParams(uri=NOTE)
        await hearing.client.session.send_request(mcp_types.UnsubscribeRequest(params=params), EMPTY)
        await touch(hearing.client, "old")
        await touch(hearing.client, "new")
        assert await hearing.first() == "memo://new/note"


@both_eras
@both_upstreams
async def test_an_upstream_that_died_is_subscribed_to_again(gateway: Served, mode: str, era: str) -> None:
    hearing = Hearing(gateway, mode)
    async with AsyncExitStack() as stack:
        await hearing.begin(stack, here(era))
        await hearing.client.call_tool_mcp(f"{era}_die", {})
        while NOTE not in await touch(hearing.client, era):
            pass
        assert await hearing.first() == here(era)

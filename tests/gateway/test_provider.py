"""A gateway lists what its upstreams' snapshots have, as they list it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastmcp import Client

from tests.every import every
from tests.gateway.gateways import Served, served
from tests.gateway.upstreams.supervised import script

pytestmark = [pytest.mark.anyio, pytest.mark.outside]

both_eras = every("mode", ["legacy", "auto"])


@pytest.fixture(scope="module")
def plain() -> Iterator[Served]:
    with served(script("plain", "faulty_server.py"), script("old", "asking_server.py")) as gateway:
        yield gateway


def client_of(gateway: Served, mode: str = "auto", query: str = "") -> Client[Any]:
    return Client(f"{gateway.url}/mcp{query}", mode=mode)


@both_eras
async def test_tools_are_listed_and_called_by_their_namespaced_names(plain: Served, mode: str) -> None:
    async with client_of(plain, mode, "?toolsets=plain") as client:
        assert [tool.name for tool in await client.list_tools()][:2] == ["plain_echo", "plain_add"]
        result = await client.call_tool("plain_add", {"a": 1, "b": 2})
        assert result.structured_content == {"sum": 3}


@both_eras
class TestInstructions:
    async def test_are_those_of_all_upstreams(self, plain: Served, mode: str) -> None:
        async with client_of(plain, mode) as client:
            told = client.instructions
        assert told == (
            "## plain (names begin with `plain_`)\nCall echo.\n\n## old (names begin with `old_`)\nAsk away."
        )

    async def test_tell_nothing_of_an_upstream_that_the_caller_may_not_use(self, plain: Served, mode: str) -> None:
        async with client_of(plain, mode, "?toolsets=old") as client:
            assert client.instructions == "## old (names begin with `old_`)\nAsk away."

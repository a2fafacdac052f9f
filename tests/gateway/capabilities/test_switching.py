"""A session switches capabilities on and off: its tools come and go, and so do the processes behind them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.exceptions import ToolError

from agent_utilities import AgentServer
from tests.gateway.capabilities.capable import gateway, listed, offer, running, session, switched
from tests.parts import capabilities_of, upstreams_of

pytestmark = [pytest.mark.outside, pytest.mark.anyio]


@pytest.fixture
def served(tmp_path: Path) -> AgentServer:
    return gateway(tmp_path, offer(most=2, fixed=["clock"]))


@pytest.fixture
async def client(served: AgentServer) -> AsyncIterator[Client[Any]]:
    async with session(served) as client:
        yield client


async def test_enabling_lists_the_tools_and_starts_the_server(client: Client[Any]) -> None:
    told = await switched(client, "enable", "files")
    names, summary = await listed(client)
    assert {"files-server_read_file", "files-server_write_file"} <= set(names)
    assert summary["capabilities"]["active"] == told["active"] == ["files"]
    assert "files-server" in running()
    called = await client.call_tool("files-server_read_file", {})
    assert called.content[0].text == "read_file"


async def test_disabling_takes_them_away_and_stops_the_server(served: AgentServer, client: Client[Any]) -> None:
    await switched(client, "enable", "files")
    upstream = upstreams_of(served).upstreams["files-server"]
    told = await switched(client, "disable", "files")
    assert told["active"] == []
    names, _ = await listed(client)
    assert not any(name.startswith("files-server") for name in names)
    with pytest.raises(ToolError, match="Unknown tool"):
        await client.call_tool("files-server_read_file", {})
    assert upstreams_of(served).upstreams.get("files-server") is None
    await upstream.stop()
    assert "files-server" not in running()


async def test_enabling_and_disabling_twice_change_nothing_more(client: Client[Any]) -> None:
    first, second = await switched(client, "enable", "web"), await switched(client, "enable", "web")
    assert first["active"] == second["active"] == ["web"]
    await switched(client, "disable", "web")
    assert (await switched(client, "disable", "web"))["active"] == []


async def test_a_successful_call_keeps_a_capability_and_a_failed_one_does_not(client: Client[Any]) -> None:
    await switched(client, "enable", "files")
    await switched(client, "enable", "web")
    await client.call_tool("files-server_read_file", {})
    with pytest.raises(ToolError):
        await client.call_tool("web-server_fetch", {"fail": True})
    assert (await switched(client, "enable", "mail"))["evicted"] == ["web"]


async def test_what_the_operator_fixed_is_on_for_everybody_and_stays(client: Client[Any]) -> None:
    names, summary = await listed(client)
    assert summary["capabilities"]["fixed"] == ["clock"]
    with pytest.raises(ToolError, match="always on"):
        await switched(client, "disable", "clock")
    assert "web-server_fetch" not in names


async def test_an_argument_that_there_is_not_switches_nothing(client: Client[Any]) -> None:
    with pytest.raises(ToolError, match="no such argument: 'args'; it takes action, name and intent"):
        await client.call_tool("capability", {"action": "enable", "name": "web", "args": {"for": "a minute"}})
    assert (await listed(client))[1]["capabilities"]["active"] == []


async def test_what_there_is_not_is_told_with_the_nearest_that_there_is(client: Client[Any]) -> None:
    with pytest.raises(ToolError, match="did you mean files"):
        await switched(client, "enable", "file")


async def test_another_session_has_none_of_it(served: AgentServer, client: Client[Any]) -> None:
    await switched(client, "enable", "files")
    async with session(served) as other:
        names, summary = await listed(other)
        assert summary["capabilities"]["active"] == []
        assert not any(name.startswith("files-server") for name in names)
        with pytest.raises(ToolError, match="Unknown tool"):
            await other.call_tool("files-server_read_file", {})


async def test_what_only_an_ended_session_had_on_is_stopped(served: AgentServer, client: Client[Any]) -> None:
    async with session(served) as other:
        await switched(other, "enable", "mail")
        upstream = upstreams_of(served).upstreams["mail-server"]
    await capabilities_of(served).switching.settle()
    assert upstreams_of(served).upstreams.get("mail-server") is None
    await upstream.stop()
    assert "mail-server" not in running()

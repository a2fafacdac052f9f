"""A bundle that is edited while it is on: its tools and servers follow, and a half-finished edit takes nothing away."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from agent_utilities import AgentServer
from agent_utilities.gateway.upstreams.supervision.upstream import Upstream
from tests.every import every
from tests.gateway.capabilities.capable import listed, processes, session, switched
from tests.gateway.capabilities.taps import tap_gateway, tiny, write, write_bundle
from tests.gateway.capabilities.turns import at_rest
from tests.gateway.upstreams.processes import until
from tests.parts import capabilities_of, upstreams_of

pytestmark = [pytest.mark.outside, pytest.mark.anyio]

Clocked = tuple[AgentServer, Client[Any], dict[str, Upstream]]


@pytest.fixture
def tap(tmp_path: Path) -> Path:
    write_bundle(tmp_path / "tap", "clock", tiny("clock-server", "now"))
    return tmp_path / "tap"


async def take_edit(served: AgentServer, seen: dict[str, Upstream]) -> None:
    """Have a gateway take what its tap says now, and wait until what it gave up has ended."""
    capabilities = capabilities_of(served).switching
    await at_rest(served, seen)
    capabilities.offer_anew(capabilities.offer.read_folders())
    await at_rest(served, seen)


@pytest.fixture
async def clocked(tap: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Clocked]:
    """A gateway whose one capability is on; it takes an edit when a test has it taken, and not in the middle of one."""
    served = tap_gateway(tap, tap.parent / "state")
    monkeypatch.setattr(capabilities_of(served).switching, "_follow", asyncio.Event().wait)
    async with session(served) as client:
        await switched(client, "enable", "clock")
        seen: dict[str, Upstream] = {}
        await at_rest(served, seen)
        yield served, client, seen


async def test_it_lists_other_tools_of_the_same_process(tap: Path, clocked: Clocked) -> None:
    served, client, seen = clocked
    upstream = upstreams_of(served).upstreams["clock-server"]
    write_bundle(tap, "clock", tiny("clock-server", "now"), allowed_tools=["clock-server:later"])
    await take_edit(served, seen)
    names, summary = await listed(client)
    assert sorted(names) == ["capability", "office_hello"]
    assert summary["capabilities"]["active"] == ["clock"]
    assert upstreams_of(served).upstreams["clock-server"] is upstream


async def test_it_runs_its_server_anew_with_other_arguments(tap: Path, clocked: Clocked) -> None:
    served, client, seen = clocked
    write_bundle(tap, "clock", tiny("clock-server", "now", "later"))
    await take_edit(served, seen)
    assert (await client.call_tool("clock-server_later", {})).content[0].text == "later"
    assert processes().count("clock-server") == 1


async def test_one_that_is_removed_goes_off_and_stops(tap: Path, clocked: Clocked) -> None:
    served, client, seen = clocked
    shutil.rmtree(tap / "clock")
    write_bundle(tap, "other", tiny("other-server", "do"))
    await take_edit(served, seen)
    names, summary = await listed(client)
    assert sorted(names) == ["capability", "office_hello"]
    assert summary["capabilities"]["active"] == []
    assert "clock-server" not in processes()


@every("text", ["", "[[mcp.ser", "[roles.mcp]\nallowed_tools = 3\n"])
async def test_it_keeps_what_it_was_until_the_edit_is_finished(tap: Path, text: str, clocked: Clocked) -> None:
    served, client, seen = clocked
    upstream = upstreams_of(served).upstreams["clock-server"]
    write(tap / "clock" / "tiny.toml", text)
    await take_edit(served, seen)
    assert upstreams_of(served).upstreams["clock-server"] is upstream
    assert (await client.call_tool("clock-server_now", {})).content[0].text == "now"


async def test_an_edit_is_followed_by_the_gateway_itself(tap: Path) -> None:
    served = tap_gateway(tap, tap.parent / "state")
    capabilities = capabilities_of(served).switching
    async with session(served):
        write_bundle(tap, "other", tiny("other-server", "do"))
        await until(lambda: "other" in capabilities.offer.capabilities.by_name)

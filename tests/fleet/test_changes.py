"""What a gateway's replica learns of an upstream is told to clients of the others, whose own upstreams tell nothing."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.messages import MessageHandler

from agent_utilities import AgentServer, create_gateway
from tests.every import every
from tests.fleet.processes.replicas import Shared, until
from tests.gateway.upstreams import changing_server

pytestmark = [pytest.mark.anyio, pytest.mark.outside, pytest.mark.timeout(60)]
CHANNEL = "agent-utilities:gateway:changes"


class Heard(MessageHandler):
    """Remembers that lists of tools changed, for a test to wait on."""

    def __init__(self) -> None:
        self.tools = asyncio.Event()

    async def on_tool_list_changed(self, message: object) -> None:
        self.tools.set()


def gateway(shared: Shared, folder: Path, name: str, **environ: str) -> AgentServer:
    """Return a replica, each with a process and a folder of its own; all list what one file says."""
    (text := folder / "text").touch()
    args = [changing_server.__file__, str(text), f"record={folder / name}.jsonl"]
    root = str(Path(__file__).parents[2])
    one = {"command": sys.executable, "args": args, "env": {"PYTHONPATH": root}}
    kept = {"MCP_GRAPH": "off", "MCP_TOOL_SEARCH": "off", "MCP_GATEWAY_FOLDER": str(folder / name)}
    return create_gateway({"mcpServers": {"one": one}}, environ={**kept, **shared.environ, **environ})


async def shown(client: Client[Any]) -> str | None:
    return next((tool.description for tool in await client.list_tools() if tool.name == "one_show"), None)


def n_listed(folder: Path, name: str) -> int:
    lines = (folder / f"{name}.jsonl").read_text().splitlines()
    return sum(json.loads(line).get("method") == "tools/list" for line in lines)


@every("hears", [True, False])
async def test_is_told_to_clients_of_the_other(hears: bool, shared: Shared, tmp_path: Path) -> None:
    may = ["+@all", "-subscribe"]
    shared.admin.acl_setuser("deaf", True, passwords=["+x"], keys=["*"], channels=["*"], commands=may)
    url = shared.url() if hears else shared.url("deaf:x")
    here, there = gateway(shared, tmp_path, "a"), gateway(shared, tmp_path, "b", MCP_STATE_URL=url)
    async with (
        Client(here, mode="legacy") as teller,
        Client(there, mode="legacy", message_handler=(heard := Heard())) as hearer,
    ):
        assert (await shown(teller), await shown(hearer)) == ("", "")
        heard.tools.clear()
        (tmp_path / "text").write_text("another")
        began_s = time.monotonic()
        await teller.call_tool("one_change", {"name": "any"})
        async with asyncio.timeout(20):
            while await shown(hearer) != "another":
                await heard.tools.wait()
                heard.tools.clear()
        assert time.monotonic() - began_s < (10 if hears else 20)


async def test_that_a_stranger_tells_gives_no_text_and_has_one_listed_now_and_then(
    shared: Shared, tmp_path: Path
) -> None:
    async with Client(gateway(shared, tmp_path, "a")) as client:
        before = [tool.model_dump() for tool in await client.list_tools()]
        await client.call_tool("one_echo", {"text": "it runs"})
        n_before = n_listed(tmp_path, "a")
        await until(lambda: shared.admin.pubsub_numsub(CHANNEL)[0][1] == 1)
        for number in range(1000):
            shared.admin.publish(CHANNEL, f"{number:032}one")
            shared.admin.publish(CHANNEL, f"{number:032}none{number}")
        for junk in (b"", b"\xff" * 99, b"one"):
            shared.admin.publish(CHANNEL, junk)
        await until(lambda: n_listed(tmp_path, "a") > n_before)
        await client.call_tool("one_sleep", {"seconds": 1})
        assert n_listed(tmp_path, "a") <= n_before + 2  # the call may have had it listed, too
        assert [tool.model_dump() for tool in await client.list_tools()] == before

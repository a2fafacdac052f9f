"""A gateway's very first start, as a process."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from tests.gateway.upstreams.gateway_process import GATEWAY, environ, gateway
from tests.gateway.upstreams.supervised import FAULTY

pytestmark = [pytest.mark.outside, pytest.mark.timeout(120)]

SERVER = {"command": sys.executable, "args": ["-I", "-S", str(FAULTY)]}


def test_a_request_in_the_middle_of_it_costs_no_server_its_first_try(tmp_path: Path) -> None:
    # The caller that is opened with the gateway has it import what requests need, while threads import what servers do.
    with gateway({"mcpServers": {"one": SERVER, "two": SERVER}}, tmp_path) as server:
        server.until_listed(["one", "two"])
        told = server.access.http.get("/metrics").body.decode()
    assert re.findall(r"^mcp_upstream_(starts|failures)_total (\S+)$", told, re.MULTILINE) == [
        ("starts", "2.0"),
        ("failures", "0.0"),
    ]


@pytest.mark.anyio
async def test_over_stdio_its_first_list_is_whole_and_other_requests_go_on(tmp_path: Path) -> None:
    slow = {**SERVER, "args": [*SERVER["args"], f"wait-for={tmp_path / 'released'}"]}
    file, said = tmp_path / "mcp.json", tmp_path / "stderr"
    file.write_text(json.dumps({"mcpServers": {"slow": slow, "quick": SERVER}}), encoding="utf-8")
    variables = environ(tmp_path, MCP_FIRST_LIST_S="600")
    transport = StdioTransport(GATEWAY[0], [*GATEWAY[1:], str(file)], env=variables, log_file=said, keep_alive=False)
    async with Client(transport, mode="legacy") as client:
        listing = asyncio.ensure_future(client.list_tools())
        await client.get_prompt("quick_greet", {"name": "x"})
        await client.ping()
        assert not listing.done()
        (tmp_path / "released").touch()
        assert {tool.name.partition("_")[0] for tool in await listing} == {"slow", "quick"}
    told = said.read_text()
    assert "first lists wait for what was never seen" in told
    assert re.findall(r"first lists: (\w+) has come, (\d+) tools", told) == [("quick", "20"), ("slow", "20")]

"""Records of real processes: a server that is killed while it is called, and a gateway whose files are edited."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from agent_utilities import create_gateway
from agent_utilities.seam.events import PolicyChanged
from tests.access.record.records import of_file
from tests.access.record.test_record import lines, said
from tests.every import every

pytestmark = [pytest.mark.anyio, pytest.mark.outside]

HERE = Path(__file__).parent
UPSTREAMS = HERE.parents[1] / "gateway" / "upstreams"
N_CALLS = 600
N_AT_ONCE = 16


@every("mode", ["required", "best effort"])
async def test_a_server_that_is_killed_under_load_leaves_a_whole_chain(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "audit.jsonl"
    environ = {**os.environ, "MCP_GRAPH": "off", "MCP_RANKER": "off", "MCP_CONFIG_FILE": "none"}
    environ |= {"MCP_AUDIT_FILE": str(path), "MCP_AUDIT_MODE": mode, "MCP_AUDIT_ARGUMENTS": "count"}
    answered: list[int] = []
    numbers, enough = iter(range(100_000)), asyncio.Event()

    async def call(client: Client[StdioTransport]) -> None:
        for number in numbers:
            await client.call_tool("count", {"number": number})
            answered.append(number)
            if len(answered) > N_CALLS:
                enough.set()

    transport = StdioTransport(
        sys.executable, [str(HERE / "recorded_server.py"), "--log-level", "warning"], env=environ, keep_alive=False
    )
    async with Client(transport) as client:
        process_id = (await client.call_tool("process_id")).data
        started_s = time.perf_counter()
        calling = [asyncio.create_task(call(client)) for _ in range(N_AT_ONCE)]
        await enough.wait()
        os.kill(process_id, signal.SIGKILL)
        took_s, n_answered = time.perf_counter() - started_s, len(answered)
        await asyncio.wait(calling, timeout=30)
        for each in calling:
            each.cancel()
    print(f"{mode}: killed at {n_answered / took_s:.0f} calls/s, {len(of_file(path).torn)} lines in pieces")
    report = of_file(path)
    assert report.tampering == []
    (chain,) = report.chains.values()
    assert not chain.has_ended
    recorded = {line["arguments"]["number"] for line in whole(path) if line.get("arguments")}
    if mode == "required":
        assert set(answered) <= recorded
    else:  # what waited to be written is lost: some hundredths of a second
        assert len(set(answered) - recorded) < n_answered / 2
    assert chain.head is not None
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-3]))
    assert len(of_file(path, chain.head).tampering) == 1


def whole(path: Path) -> list[dict[str, dict[str, int]]]:
    return [json.loads(text) for text in path.read_bytes().splitlines() if text.endswith(b'"}')]


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 - the files are watched by another task
        await asyncio.sleep(0.02)


async def test_a_gateways_calls_say_which_upstream_has_the_tool_and_its_edits_are_told(tmp_path: Path) -> None:
    path, config = tmp_path / "audit.jsonl", tmp_path / "mcp.json"

    def write(*names: str) -> None:
        entry = {"command": sys.executable, "args": [str(UPSTREAMS / "plain_server.py")]}
        new = config.with_suffix(".new")
        new.write_text(json.dumps({"mcpServers": dict.fromkeys(names, entry)}))
        new.rename(config)

    write("plain")
    environ = {"MCP_GRAPH": "off", "MCP_GATEWAY_FOLDER": str(tmp_path), "MCP_AUDIT_FILE": str(path)}
    gateway = create_gateway(config, environ=environ)
    changes: list[PolicyChanged] = []
    gateway.features.observe(lambda event: changes.append(event), PolicyChanged)  # type: ignore[arg-type]
    async with Client(gateway) as client:
        await client.list_tools()
        await client.call_tool("plain_echo", {"text": "hello"})
        write("plain", "other")
        await until(lambda: bool(changes))
    call, result = lines(path, "call", "result")
    assert [said(line, "tool", "upstream", "verdict") for line in (call, result)] == [
        ["plain_echo", "plain", "permitted"]
    ] * 2
    assert [said(line, "what", "reason") for line in lines(path, "changed")] == [["config", "2 servers"]]

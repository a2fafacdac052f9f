"""Three servers behind one endpoint, and what callers see while one of them is killed."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
from fastmcp import Client

from agent_utilities.server.command_line.terminal import NamesTable, Steps
from demo.running import GATEWAY, START_S, caller, demo_environment, installed, serving, text_of

_SERVERS = {"git": "git-agent-mcp", "files": "filesystem-agent-mcp", "logs": "logs-agent-mcp"}
_KILLED = "logs"
_CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "git": ("git_git_status", {}),
    "logs": ("logs_count_by_level", {"path": "app.log"}),
}
_CONFIG = Path(__file__).with_name("agents.json")
"""Three agents, whose folder and programs are variables."""


async def killed_server(folder: Path) -> AsyncIterator[NamesTable]:
    """Serve three agents behind one endpoint, kill one, and tell what callers see."""
    (folder / "app.log").write_text("2026-07-28T12:00:01Z ERROR upstream timed out after 3000 ms\n", encoding="utf-8")
    await anyio.run_process(["git", "init", "-q", str(folder)])
    steps = Steps(5)
    title = "1. Three servers behind one endpoint, and one of them is killed"
    table = NamesTable(title, "what happens", "tools", "listed in", *_CALLS)
    steps.begin("starting the gateway for the first time: its servers have never been seen")
    async with _gateway(folder) as (client, pid):
        steps.begin("listing at once, which waits for all three, and a call to two of them")
        await _row(table, "the first start ever", client)
        steps.begin(f"killing the process of {_KILLED!r}, and listing at once")
        victims = [each for each in _upstreams(pid) if _SERVERS[_KILLED] in " ".join(each.cmdline())]
        for victim in victims:
            victim.kill()
        await _row(table, f"{_KILLED!r} is killed: {len(victims)} process", client)
        steps.begin("calling it until it answers again")
        took_s = await _recovery_s(client)
        await _row(table, f"{took_s:.1f} s later: it was started again", client)
    steps.begin("starting the gateway again: its servers are known")
    async with _gateway(folder) as (client, pid):
        await _row(table, f"started again, {len(_upstreams(pid))} of 3 servers running", client)
    yield table


@asynccontextmanager
async def _gateway(folder: Path) -> AsyncIterator[tuple[Client[Any], int]]:
    """Serve the gateway; yield a client of it and its process, as soon as it answers."""
    programs = {f"DEMO_{name.upper()}": installed(program) for name, program in _SERVERS.items()}
    environ = demo_environment(MCP_GATEWAY_FOLDER=str(folder / "gateway"), MCP_GRAPH="off", MCP_RANKER="off")
    environ |= {"DEMO_FOLDER": str(folder), **programs}
    environ["MCP_FIRST_LIST_S"] = str(START_S)  # nobody gives up here, however busy the machine is
    async with (
        serving("the gateway", [*GATEWAY, str(_CONFIG)], environ, "/health") as (base, pid),
        caller(base) as client,
    ):
        yield client, pid


async def _row(table: NamesTable, what: str, client: Client[Any]) -> None:
    """Add what a caller sees now: how many tools, how fast, and what two calls give."""
    began = time.perf_counter()
    tools = await client.list_tools()
    took_ms = 1000 * (time.perf_counter() - began)
    answers = []
    for tool, arguments in _CALLS.values():
        result = await client.call_tool(tool, arguments, raise_on_error=False)
        text = " ".join(text_of(result).split())
        short = text if len(text) <= 70 else f"{text[:69]}…"
        answers.append(f"[red]{short}[/]" if result.is_error else f"[green]answers[/] {short}")
    table.add_row(what, str(len(tools)), f"{took_ms:.0f} ms", *answers)


async def _recovery_s(client: Client[Any]) -> float:
    began = time.perf_counter()
    with anyio.fail_after(START_S):
        while True:
            if not (await client.call_tool(*_CALLS[_KILLED], raise_on_error=False)).is_error:
                return time.perf_counter() - began
            await anyio.sleep(0.1)


def _upstreams(pid: int) -> list[psutil.Process]:
    programs = set(_SERVERS.values())
    children = psutil.Process(pid).children(recursive=True)
    return [each for each in children if any(Path(word).name in programs for word in each.cmdline())]

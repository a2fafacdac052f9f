"""`agent-utilities demo gateway`: three servers behind one endpoint, one of which is killed while it serves."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import psutil
from fastmcp import Client
from rich.console import Console

from agent_utilities.cli.demo_process import DemoError, demo_environment, print_ending
from agent_utilities.cli.progress import Steps
from agent_utilities.mcp.command_line.tables import NamesTable

_SERVERS = {"git": "git-agent-mcp", "files": "filesystem-agent-mcp", "logs": "logs-agent-mcp"}
_KILLED = "logs"
_START_S = 60
_CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "git": ("git_git_status", {}),
    "logs": ("logs_count_by_level", {"path": "app.log"}),
}


async def run_demo_gateway() -> None:
    """Serve three agents behind one endpoint, kill one, print what callers see, and stop everything.

    Raises:
        DemoError: an agent is not installed, or the gateway does not start.
    """
    console = Console()
    with tempfile.TemporaryDirectory(prefix="agent-utilities-demo-") as top, Steps(5) as steps:
        folder = Path(top)
        config = _config(folder)
        title = "5. Three servers behind one endpoint, and one of them is killed"
        table = NamesTable(title, "what happens", "tools", "listed in", *_CALLS)
        steps.begin("starting the gateway for the first time: its servers have never been seen")
        async with _serving(config, folder) as (client, pid):
            steps.begin("listing at once, which waits for all three, and a call to two of them")
            await _row(table, "the first start ever", client)
            steps.begin(f"killing the process of {_KILLED!r}, and listing at once")
            n_killed = _kill(pid)
            await _row(table, f"{_KILLED!r} is killed: {n_killed} process", client)
            steps.begin("calling it until it answers again")
            took_s = await _recovery_s(client)
            await _row(table, f"{took_s:.1f} s later: it was started again", client)
        steps.begin("starting the gateway again: its servers are known")
        async with _serving(config, folder) as (client, pid):
            n_running = len(_upstreams(pid))
            await _row(table, f"started again, {n_running} of 3 servers running", client)
        with steps.cleared():
            console.print(table, "")
    print_ending(console)


def _config(folder: Path) -> Path:
    """Write an mcp.json of three agents, and what they work on."""
    (folder / "app.log").write_text("2026-07-28T12:00:01Z ERROR upstream timed out after 3000 ms\n", encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    env = {"LOGS_AGENT_ROOTS": str(folder), "FILESYSTEM_AGENT_ROOTS": str(folder), "GIT_AGENT_ROOTS": str(folder)}
    servers = {name: {"command": _command(name), "cwd": str(folder), "env": env} for name in _SERVERS}
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return path


def _command(name: str) -> str:
    program = _SERVERS[name]
    beside = Path(sys.executable).parent / program
    found = str(beside) if beside.exists() else shutil.which(program)
    if found is None:
        raise DemoError(f"{program} is not installed here; install its package, or run the README's command")
    return found


async def _row(table: NamesTable, what: str, client: Client[Any]) -> None:
    """Add what a caller sees now: how many tools, how fast, and what two calls give."""
    began = time.perf_counter()
    tools = await client.list_tools()
    took_ms = 1000 * (time.perf_counter() - began)
    answers = [await _answer(client, *call) for call in _CALLS.values()]
    table.add_row(what, str(len(tools)), f"{took_ms:.0f} ms", *answers)


async def _answer(client: Client[Any], tool: str, arguments: dict[str, Any]) -> str:
    result = await client.call_tool(tool, arguments, raise_on_error=False)
    text = " ".join(str(getattr(result.content[0], "text", "")).split()) if result.content else ""
    short = text if len(text) <= 70 else f"{text[:69]}…"
    return f"[red]{short}[/]" if result.is_error else f"[green]answers[/] {short}"


async def _recovery_s(client: Client[Any]) -> float:
    """Return the seconds until the killed server answers again."""
    began = time.perf_counter()
    with anyio.fail_after(_START_S):
        while True:
            if not (await client.call_tool(*_CALLS[_KILLED], raise_on_error=False)).is_error:
                return time.perf_counter() - began
            await anyio.sleep(0.1)


def _upstreams(pid: int) -> list[psutil.Process]:
    """Return the running servers among a gateway's processes."""
    programs = set(_SERVERS.values())
    children = psutil.Process(pid).children(recursive=True)
    return [each for each in children if any(Path(word).name in programs for word in each.cmdline())]


def _kill(pid: int) -> int:
    victims = [each for each in _upstreams(pid) if _SERVERS[_KILLED] in " ".join(each.cmdline())]
    for victim in victims:
        victim.kill()
    return len(victims)


@asynccontextmanager
async def _serving(config: Path, folder: Path) -> AsyncIterator[tuple[Client[Any], int]]:
    """Serve the gateway; yield a client of it and its process, as soon as it answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    main = "from agent_utilities.cli.app import main; main()"
    command = [sys.executable, "-c", main, "gateway", str(config), "-t", "http", "-p", str(port)]
    environ = demo_environment(MCP_GATEWAY_FOLDER=str(folder / "gateway"), MCP_GRAPH="off", MCP_RANKER="off")
    environ["MCP_FIRST_LIST_S"] = str(_START_S)  # nobody gives up here, however busy the machine is
    with (folder / "stderr.log").open("wb") as said:
        command += ["--log-level", "error"]
        process = subprocess.Popen(command, env=environ, stdout=said, stderr=said)  # noqa: ASYNC220 - it returns at once
    try:
        base = f"http://127.0.0.1:{port}"
        await _answers(base, process, folder)
        async with Client(f"{base}/mcp") as client:
            yield client, process.pid
    finally:
        process.terminate()
        await anyio.to_thread.run_sync(process.wait)


async def _answers(base: str, process: subprocess.Popen[bytes], folder: Path) -> None:
    async with httpx2.AsyncClient() as web:
        with anyio.move_on_after(_START_S):
            while process.poll() is None:
                try:
                    await web.get(f"{base}/health")
                    return
                except httpx2.TransportError:
                    await anyio.sleep(0.02)
    raise DemoError(f"the gateway did not start: {(folder / 'stderr.log').read_text(errors='replace').strip()}")

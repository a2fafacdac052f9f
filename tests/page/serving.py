"""Servers and gateways with a page, each a real process, and clients of theirs."""

from __future__ import annotations

import json
import os
import random
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import anyio
import mcp_types
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

from tests.gateway.upstreams.processes import FAULTY_SERVER
from tests.wire.processes import HERE as WIRE
from tests.wire.processes import HttpProcess

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
SERVERS = ("files", "git", "logs", "notes", "office")
REQUESTS = "requests.log"
"""The file in a server's folder that uvicorn's log of requests goes to."""
_LINK = re.compile(r"page: (http://\S+)")
_CHANGING = ("-m", "tests.gateway.upstreams.changing_server")
_LOG = """2026-07-28T12:00:00Z INFO request served in 12 ms
2026-07-28T12:00:01Z ERROR upstream timed out after 3000 ms
"""
T = TypeVar("T")


class Served:
    """A process that serves a page.

    Args:
        folder: what it works in, and keeps things in.
        process: which serves.
    """

    def __init__(self, folder: Path, process: HttpProcess) -> None:
        self.folder, self.process = folder, process

    @property
    def link(self) -> str:
        """The address with the key, as it printed it."""
        return self.process.wait_for(_LINK)[1]

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return self.process.url

    @property
    def host(self) -> str:
        """Its host and port."""
        return urlsplit(self.url).netloc

    def listed(self, headers: Mapping[str, str] | None = None, query: str = "") -> list[str]:
        """Return the names of the tools that a real client lists."""

        async def ask() -> list[str]:
            transport = StreamableHttpTransport(f"{self.url}/mcp{query}", headers=dict(headers or {}))
            async with Client(transport) as client:
                return [tool.name for tool in await client.list_tools()]

        return in_a_loop_of_its_own(ask)

    def call(self, name: str, headers: Mapping[str, str] | None = None, **arguments: Any) -> str:
        """Return what a tool answers a real client, which may be an error."""

        async def ask() -> str:
            transport = StreamableHttpTransport(f"{self.url}/mcp", headers=dict(headers or {}))
            async with Client(transport) as client:
                result = await client.call_tool(name, arguments, raise_on_error=False)
                return "".join(block.text for block in result.content if isinstance(block, mcp_types.TextContent))

        return in_a_loop_of_its_own(ask)


class Gateway(Served):
    """A gateway of five servers; what the tool `show` of `notes` says of itself is the text of a file."""

    def lock(self) -> None:
        """Lock what its servers say now, as `agent-utilities gateway lock` does."""
        command = [*map(str, (BIN / "agent-utilities", "gateway", "lock", self.folder / "mcp.json"))]
        subprocess.run(command, env=environ(self.folder), cwd=self.folder, check=True, capture_output=True, timeout=100)

    def rewrite_note(self, text: str) -> None:
        """Have `show` say something else of itself, once its server is started or listed anew."""
        (self.folder / "note").write_text(text, encoding="utf-8")


def in_a_loop_of_its_own(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return what a coroutine returns, run in another thread: a browser's loop runs in that of the test."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(anyio.run, work).result()


def environ(folder: Path, **own: str) -> dict[str, str]:
    """Return the environment of a process that keeps what it keeps in a folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MCP_")}
    roots = {f"{agent}_AGENT_ROOTS": str(folder) for agent in ("GIT", "FILESYSTEM", "LOGS")}
    homes = {f"XDG_{kind}_HOME": str(folder / "kept" / kind.lower()) for kind in ("CACHE", "STATE", "CONFIG")}
    ours = {"PYTHONPATH": str(ROOT), "MCP_RANKER": "lexical", "MCP_CONFIG_FILE": "none", "MCP_FIRST_LIST_S": "100"}
    ours["MCP_RESULT_TOKENS"] = "off"  # no tool is listed beside those of the servers
    return {**kept, **roots, **homes, **ours, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", **own}


def free_port() -> int:
    """Return a port that nobody listens on, of those that systems give to nobody who does not ask for them."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("none of a hundred ports is free")


@contextmanager
def served(folder: Path, command: Sequence[str | Path], own: Mapping[str, str], port: int = 0) -> Iterator[HttpProcess]:
    """Run a command that serves HTTP for a block, with the log of accesses that people have.

    Args:
        folder: what it works in.
        command: without its transport.
        own: variables of its environment.
        port: one that is free where 0.
    """
    options = ("-t", "http", "-p", str(port or free_port()), "--log-level", "info")
    with (folder / REQUESTS).open("w") as requests:
        process = HttpProcess([*map(str, command), *options], environ(folder, **own), folder, requests)
    try:
        process.wait()
        yield process
    finally:
        process.stop()


@contextmanager
def gateway(folder: Path, behind: Sequence[str] = SERVERS, **own: str) -> Iterator[Gateway]:
    """Run a gateway of real servers for a block; a list waits for all of them.

    Args:
        folder: a new one.
        behind: which of the servers.
        own: variables of its environment.
    """
    (folder / "app.log").write_text(_LOG, encoding="utf-8")
    (folder / "note").write_text("Show the note.", encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    entries = {
        "git": {"command": "git-agent-mcp"},
        "files": {"command": "filesystem-agent-mcp"},
        "logs": {"command": "logs-agent-mcp"},
        "office": {"command": sys.executable, "args": ["-P", str(ROOT / "demo/office.py")]},
        "many": {"command": sys.executable, "args": [str(FAULTY_SERVER), "tools=1000"]},
        "notes": {"command": sys.executable, "args": [*_CHANGING, str(folder / "note")], "cwd": str(ROOT)},
    }
    config = {"mcpServers": {name: entries[name] for name in behind}}
    (folder / "mcp.json").write_text(json.dumps(config), encoding="utf-8")
    with served(folder, [BIN / "agent-utilities", "gateway", folder / "mcp.json"], own) as process:
        yield Gateway(folder, process)


@contextmanager
def server(folder: Path, script: Path = WIRE / "large_server.py", **own: str) -> Iterator[Served]:
    """Run a plain server for a block."""
    with served(folder, [sys.executable, script], own) as process:
        yield Served(folder, process)

"""What all demos run on: servers as processes of their own, what these are given, and what is shown of tools."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from rich.console import Console

from agent_utilities.catalog.context import n_tokens
from agent_utilities.errors import AgentUtilitiesError
from agent_utilities.runtime.process_io import expanded
from agent_utilities.selection.caller import selection_headers

START_S = 60
GATEWAY = [sys.executable, "-c", "from agent_utilities.cli.app import main; main()", "gateway"]
"""The command line of a gateway."""
_NAMED = 3


class DemoError(AgentUtilitiesError):
    """The demo could not be run here."""


def demo_environment(**own: str) -> dict[str, str]:
    """Return the environment of a server that a demo runs: none of the user's settings, nor their usage log.

    A query is waited for longer than in service, so that a demo shows the same on a machine that is busy.

    Calls are logged where the user names a file for them in `MCP_USAGE_FILE`, as `MCP_USAGE` says, and nowhere else:
    a demo's calls in the log of their own servers would teach those.
    """
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MCP_")}
    file, usage = logged_in()
    logged = {"MCP_USAGE": usage, "MCP_USAGE_FILE": file} if file else {"MCP_USAGE": "off"}
    return {**environ, "MCP_CONFIG_FILE": "none", "MCP_GRAPH_DEADLINE_MS": "10000", **logged, **own}


def logged_in() -> tuple[str, str]:
    """Return the file that the user names for calls, empty for none, and what is logged in it."""
    file = os.environ.get("MCP_USAGE_FILE", "").strip()
    usage = os.environ.get("MCP_USAGE", "").strip().lower()
    return file and str(expanded(file).absolute()), usage if usage not in ("", "auto") else "counts"


def print_ending(console: Console) -> None:
    """Print how to read what a demo has logged, and that nothing of it is left."""
    file, usage = logged_in()
    if file and usage != "off":
        text = f"What was called: agent-utilities usage --file {shlex.quote(file)}"
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    console.print("Everything that was started has been stopped.")


def installed(program: str) -> str:
    """Return the path of an agent's program, which is beside this interpreter."""
    beside = Path(sys.executable).parent
    if (found := shutil.which(program, path=str(beside))) is None:
        raise DemoError(f"{program} is not in {beside}; run python3 tasks.py demo, which installs it")
    return found


@asynccontextmanager
async def serving(
    name: str, command: Sequence[str], environ: Mapping[str, str], route: str = "/ready"
) -> AsyncIterator[tuple[str, int]]:
    """Run a server on a free port of this machine until the block ends; yield its base URL and its process's id.

    It serves once `route` answers 200.
    """
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    base, arguments = f"http://127.0.0.1:{port}", ["-t", "http", "-p", str(port), "--log-level", "error"]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen([*command, *arguments], env=environ, stdout=subprocess.DEVNULL, stderr=said)  # noqa: ASYNC220 - it returns at once
        try:
            if not await _serves(f"{base}{route}", process):
                said.seek(0)
                text = said.read().decode(errors="replace").strip()
                raise DemoError(f"{name} did not start within {START_S} s: {text}")
            yield base, process.pid
        finally:
            process.terminate()
            await anyio.to_thread.run_sync(process.wait)


async def _serves(url: str, process: subprocess.Popen[bytes]) -> bool:
    async with httpx2.AsyncClient() as web:
        with anyio.move_on_after(START_S):
            while process.poll() is None:
                try:
                    if (await web.get(url)).status_code == 200:
                        return True
                except httpx2.TransportError:
                    pass
                await anyio.sleep(0.02)
    return False


async def indexed(web: httpx2.AsyncClient) -> None:
    """Wait until a server's graph and index are ready, as long as a start may take; a query has them made at once."""
    with anyio.move_on_after(START_S):
        await web.get("/tools", params={"q": "logs"})
        while True:
            state = (await web.get("/ready")).json()
            if state["graph"]["status"] == state["ranker"]["status"] == "ready":
                return
            await anyio.sleep(0.05)


def caller(base: str, mode: Any = "auto", notices: Any = None, **asked: Any) -> Client[StreamableHttpTransport]:
    """Return a client of a server that asks for a selection by headers."""
    transport = StreamableHttpTransport(f"{base}/mcp", headers=selection_headers(**asked))
    return Client(transport, mode=mode, message_handler=notices)


async def listed(client: Client[Any]) -> list[Any]:
    """Return the tools that a client is listed, which is connected for that."""
    async with client:
        return await client.list_tools()


def n_and_cost(tools: Sequence[Any]) -> tuple[str, str]:
    """Return two cells: how many tools these are, and about how many tokens they take."""
    return str(len(tools)), str(_cost(tools))


def text_of(result: Any) -> str:
    """Return the first text of a call's result."""
    return str(getattr(result.content[0], "text", "")) if result.content else ""


def some_names(tools: Sequence[Any]) -> str:
    """Return the names of the first tools, and how many more there are."""
    names = [tool.name for tool in tools]
    return ", ".join(names[:_NAMED]) + (f", … {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def saved(tools: Sequence[Any], all_tools: Sequence[Any]) -> str:
    """Return the share of tokens that these take less than all."""
    return f"{1 - _cost(tools) / _cost(all_tools):.0%}"


def _cost(tools: Sequence[Any]) -> int:
    return sum(n_tokens(tool.model_dump(mode="json", by_alias=True, exclude_none=True)) for tool in tools)

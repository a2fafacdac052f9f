"""A server that a demo runs over HTTP, and the error that says why it could not."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

import anyio
import httpx2
from rich.console import Console

from agent_utilities.errors import AgentUtilitiesError

START_S = 30


class DemoError(AgentUtilitiesError):
    """The demo could not be run here."""


def demo_environment(**own: str) -> dict[str, str]:
    """Return the environment of a server that a demo runs: none of the user's settings, nor his usage log.

    A query is waited for longer than in service, so that a demo shows the same on a machine that is busy.

    Calls are logged where he names a file for them in `MCP_USAGE_FILE`, as `MCP_USAGE` says, and nowhere else: a
    demo's calls in the log of his own servers would teach those.

    Args:
        own: what the demo sets besides.
    """
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MCP_")}
    file, usage = _usage()
    logged = {"MCP_USAGE": usage, "MCP_USAGE_FILE": file} if file else {"MCP_USAGE": "off"}
    return {**environ, "MCP_CONFIG_FILE": "none", "MCP_GRAPH_DEADLINE_MS": "10000", **logged, **own}


def print_ending(console: Console) -> None:
    """Print a demo's last lines: how to read what it logged, where it did, and that nothing runs any more."""
    file, usage = _usage()
    if file and usage != "off":
        text = f"What was called: agent-utilities usage --file {shlex.quote(file)}"
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    console.print("Everything that was started has been stopped.")


def _usage() -> tuple[str, str]:
    """Return the file that the user names for calls, empty for none, and what is logged in it."""
    file = os.environ.get("MCP_USAGE_FILE", "").strip()
    usage = os.environ.get("MCP_USAGE", "").strip().lower()
    return file and str(Path(file).expanduser().absolute()), usage if usage not in ("", "auto") else "counts"


@asynccontextmanager
async def serving(name: str, command: Sequence[str], environ: Mapping[str, str]) -> AsyncIterator[str]:
    """Run a server on a free port of this machine until the block ends; yield its base URL once it serves.

    Args:
        name: what an error calls it.
        command: its command line, without transport and port.
        environ: its whole environment.

    Raises:
        DemoError: it ended, or did not serve in time.
    """
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    arguments = [*command, "-t", "http", "-p", str(port), "--log-level", "error"]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(arguments, env=environ, stdout=subprocess.DEVNULL, stderr=errors)  # noqa: ASYNC220 - it returns at once
        try:
            base = f"http://127.0.0.1:{port}"
            await _ready(name, base, process, errors)
            yield base
        finally:
            process.terminate()
            await anyio.to_thread.run_sync(process.wait)


async def indexed(web: httpx2.AsyncClient) -> None:
    """Wait until a server's graph and index are ready, as long as a start may take; a query has them made at once.

    Args:
        web: a client whose base URL is the server's.
    """
    with anyio.move_on_after(START_S):
        await web.get("/tools", params={"q": "logs"})
        while True:
            state = (await web.get("/ready")).json()
            if state["graph"]["status"] == state["ranker"]["status"] == "ready":
                return
            await anyio.sleep(0.05)


async def _ready(name: str, base: str, process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
    async with httpx2.AsyncClient() as web:
        with anyio.move_on_after(START_S):
            while process.poll() is None:
                try:
                    if (await web.get(f"{base}/ready")).status_code == 200:
                        return
                except httpx2.TransportError:
                    await anyio.sleep(0.05)
    errors.seek(0)
    raise DemoError(f"{name} did not start within {START_S} s: {errors.read().decode(errors='replace').strip()}")

"""A server whose tools wait: in the loop, in a thread, whoever cancels them, and until the server is stopping."""

from __future__ import annotations

import asyncio
import sys
import threading

from agent_utilities import create_mcp_server

mcp = create_mcp_server("stopping")


def _say_called() -> None:
    print("CALLED", file=sys.stderr, flush=True)


@mcp.tool
async def wait() -> str:
    """Wait for ever."""
    _say_called()
    await asyncio.Event().wait()
    return "never"


@mcp.tool
def block() -> str:
    """Wait for ever in a thread."""
    _say_called()
    threading.Event().wait()
    return "never"


@mcp.tool
async def ignore() -> str:
    """Wait for ever, whoever cancels it."""
    _say_called()
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass


@mcp.tool
async def finish() -> str:
    """Finish as soon as the server is stopping."""
    _say_called()
    await mcp.stopping.begun.wait()
    return "finished"


if __name__ == "__main__":
    mcp.cli()

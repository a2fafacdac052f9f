"""`agent-utilities demo`: real servers, started to show what callers see of them."""

from __future__ import annotations

import os
import shlex
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from agent_utilities.mcp.command_line.terminal import NamesTable, in_event_loop
from agent_utilities.runtime.process_io import expanded

app = typer.Typer(add_completion=False)

_DEMOS = {
    "server": ("demo_server", "one_server"),
    "gateway": ("demo_gateways", "killed_server"),
    "tool-search": ("demo_server", "sixty_tools"),
    "capabilities": ("demo_gateways", "three_capabilities"),
}
"""The module and function of each, which runs in a folder of its own, and yields what it comes to, for a console."""


@app.command()
@in_event_loop
async def show_demo(
    what: Annotated[Literal["server", "gateway", "tool-search", "capabilities"], typer.Argument()] = "server",
) -> None:
    """Start real servers and show what callers see: of one, a gateway, a search, or capabilities.

    Args:
        what: One server, three behind a gateway, sixty deferred tools, or three capabilities.
    """
    module, function = _DEMOS[what]
    show = getattr(import_module(f"agent_utilities.cli.{module}"), function)
    console = Console()
    with tempfile.TemporaryDirectory(prefix="agent-utilities-demo-") as folder:
        async for shown in show(Path(folder)):
            console.print(shown, *([""] if isinstance(shown, NamesTable) else []), markup=False)
    print_ending(console)


def print_ending(console: Console) -> None:
    """Print how to read what a demo has logged, and that nothing of it is left."""
    file, usage = logged_in()
    if file and usage != "off":
        text = f"What was called: agent-utilities usage --file {shlex.quote(file)}"
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    console.print("Everything that was started has been stopped.")


def logged_in() -> tuple[str, str]:
    """Return the file that the user names for calls, empty for none, and what is logged in it."""
    file = os.environ.get("MCP_USAGE_FILE", "").strip()
    usage = os.environ.get("MCP_USAGE", "").strip().lower()
    return file and str(expanded(file).absolute()), usage if usage not in ("", "auto") else "counts"

"""`python3 tasks.py demo`: real servers, started to show what callers see of them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from agent_utilities.server.command_line.options import documented
from agent_utilities.server.command_line.terminal import NamesTable, in_event_loop
from agent_utilities.server.server_cli import run_and_exit
from demo.killed_server import killed_server
from demo.one_server import one_server
from demo.running import print_ending
from demo.sixty_tools import sixty_tools
from demo.three_capabilities import three_capabilities

app = typer.Typer(add_completion=False)

DEMOS = {
    "server": one_server,
    "gateway": killed_server,
    "tool-search": sixty_tools,
    "capabilities": three_capabilities,
}
"""Each runs in a folder of its own, and yields what it comes to, for a console."""


@app.command()
@in_event_loop
async def show_demo(
    what: Annotated[Literal["server", "gateway", "tool-search", "capabilities"], typer.Argument()] = "server",
) -> None:
    """Start real servers and show what callers see: of one, a gateway, a search, or capabilities.

    Args:
        what: One server, three behind a gateway, sixty deferred tools, or three capabilities.
    """
    console = Console()
    with tempfile.TemporaryDirectory(prefix="agent-utilities-demo-") as folder:
        async for shown in DEMOS[what](Path(folder)):
            console.print(shown, *([""] if isinstance(shown, NamesTable) else []), markup=False)
    print_ending(console)


def main() -> None:
    """Run the demo that the command line names and exit: 0 when done, 1 where a server failed, 2 for bad input."""
    run_and_exit(
        lambda: documented(typer.main.get_command(app))(prog_name="python3 tasks.py demo", standalone_mode=False)
    )


if __name__ == "__main__":
    main()

"""`agent-utilities page`: opens a running server's page in the browser."""

from __future__ import annotations

import webbrowser
from urllib.parse import urlsplit

import typer

from agent_utilities.cli.asking import server_url
from agent_utilities.mcp.command_line.terminal import terminal

app = typer.Typer(add_completion=False)


@app.command()
def page(url: str) -> None:
    """Open the page of a running server in your browser.

    Args:
        url: A running server, such as http://127.0.0.1:8001; with ?key=… as its start printed it.
    """
    address = f"{server_url(url).base}/"
    if query := urlsplit(url).query:
        address += f"?{query}"
    if not webbrowser.open(address):
        terminal().print(f"no browser could be opened; the page is at {address}", markup=False, soft_wrap=True)

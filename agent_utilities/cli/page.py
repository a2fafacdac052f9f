"""`agent-utilities page`: open a running server's page in the browser."""

from __future__ import annotations

import sys
import webbrowser
from urllib.parse import parse_qsl, urlsplit

import typer

from agent_utilities.cli.asking import ServerError, server_url
from agent_utilities.runtime.hosts import is_loopback
from agent_utilities.server.command_line.terminal import terminal

app = typer.Typer(add_completion=False)


@app.command()
def page(url: str) -> None:
    """Open the page of a running server in your browser.

    Args:
        url: A running server, such as http://127.0.0.1:8001, or - to have it read from stdin, with ?key=… where this
            machine does not know it: what is in a command's arguments is seen by everybody who is on it.
    """
    from agent_utilities.page.feature import keep_link, link_file  # the host takes a second to import

    url = sys.stdin.readline().strip() if url == "-" else url
    address, parts = f"{server_url(url).base}/", urlsplit(url)
    opened = address = f"{address}?{parts.query}" if parts.query else address
    kept = link_file(str(parts.port))
    if any(name == "key" for name, _ in parse_qsl(parts.query)):
        try:
            opened = keep_link("opened", address).as_uri()
        except OSError as error:
            raise ServerError(f"the link can't be kept in a file ({error.strerror}): open it yourself") from None
    elif is_loopback(parts.hostname or "") and kept.exists():
        opened = kept.as_uri()
    if not webbrowser.open(opened):
        terminal().print(f"no browser could be opened; the page is at {address}", markup=False, soft_wrap=True)

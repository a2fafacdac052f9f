"""`agent-utilities graph`: its commands. What they do is imported when one runs, for `--help` needs none of it."""

from __future__ import annotations

from typing import Annotated

import typer

graph_app = typer.Typer(no_args_is_help=True, help="Look after the graph that queries are resolved on.")

Server = Annotated[str, typer.Argument(help="The server's name, as `graph status` shows it.")]


@graph_app.command()
def status() -> None:
    """Show every server in the graph: how many tools, and how old."""
    import anyio

    from agent_utilities.cli.graph import show_status

    anyio.run(show_status)


@graph_app.command()
def sync(
    url: Annotated[str, typer.Argument(help="A live MCP server's URL, such as http://127.0.0.1:8001/mcp.")],
    name: Annotated[str | None, typer.Option(help="The name to keep it under; its own by default.")] = None,
) -> None:
    """Bring a live server's tools into the graph: those it shows to a caller without a selection."""
    import anyio

    from agent_utilities.cli.graph import sync_server

    anyio.run(sync_server, url, name)


@graph_app.command()
def query(words: Annotated[str, typer.Argument(help="The user's words.")], server: Server) -> None:
    """Show which of a server's tools a query resolves to, best first."""
    import anyio

    from agent_utilities.cli.graph import show_matches

    anyio.run(show_matches, words, server)


@graph_app.command()
def forget(server: Server) -> None:
    """Remove a server and its tools from the graph, such as one that was renamed."""
    import anyio

    from agent_utilities.cli.graph import forget_server

    anyio.run(forget_server, server)

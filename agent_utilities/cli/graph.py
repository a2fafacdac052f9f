"""`agent-utilities graph`: looking after the tool graph."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import anyio
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from agent_utilities.errors import AgentUtilitiesError, InputError
from agent_utilities.graph.backends import embedded_path, graph_backend
from agent_utilities.graph.base import GraphError, ToolGraph, record_of
from agent_utilities.graph.embedded import EmbeddedGraph
from agent_utilities.graph.matching import match, names_of
from agent_utilities.graph.query_text import normalise
from agent_utilities.graph.sync import forget, server_state, server_states, sync
from agent_utilities.settings import Settings, read_settings

graph_app = typer.Typer(no_args_is_help=True, help="Look after the graph that queries are resolved on.")

_PAGE = 100
Server = Annotated[str, typer.Argument(help="The server's name, as `graph status` shows it.")]


class ListingError(AgentUtilitiesError):
    """A server could not be listed."""


@graph_app.command()
def status() -> None:
    """Show every server in the graph: how many tools, and how old."""
    anyio.run(_status)


@graph_app.command(name="sync")
def sync_command(
    url: Annotated[str, typer.Argument(help="A live MCP server's URL, such as http://127.0.0.1:8001/mcp.")],
    name: Annotated[str | None, typer.Option(help="The name to keep it under; its own by default.")] = None,
) -> None:
    """Bring a live server's tools into the graph: those it shows to a caller without a selection."""
    anyio.run(_sync, url, name)


@graph_app.command()
def query(words: Annotated[str, typer.Argument(help="The user's words.")], server: Server) -> None:
    """Show which of a server's tools a query resolves to, best first."""
    anyio.run(_query, words, server)


@graph_app.command(name="forget")
def forget_command(server: Server) -> None:
    """Remove a server and its tools from the graph, such as one that was renamed."""
    anyio.run(_forget, server)


async def _status() -> None:
    settings = _settings()
    table = Table("server", "tools", "age", "digest", "graph", header_style="bold")
    for graph in _every_graph(settings):
        try:
            async with _open(graph):
                for state in await server_states(graph):
                    age_s = time.time() - state.updated_at_ms / 1000
                    style = "yellow" if age_s > settings.graph_ttl_hours * 3600 else ""
                    row = (state.name, str(state.n_tools), _age(age_s), state.digest[:12], graph.backend)
                    table.add_row(*row, style=style)
        except GraphError as error:
            if error.cause != "busy" or not isinstance(graph, EmbeddedGraph) or graph.path is None:
                raise
            table.add_row(graph.path.stem, "", "", "", "in use by its running server: ask its /ready", style="dim")
    Console().print(table if table.row_count else "the graph holds no server yet")


def _age(age_s: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if age_s >= size:
            return f"{age_s / size:.0f} {unit}"
    return f"{max(0, age_s):.0f} s"


async def _sync(url: str, name: str | None) -> None:
    from fastmcp import Client

    if not url.startswith(("http://", "https://")):
        raise InputError("not an HTTP URL", url, "argument URL", "give a live server's, such as http://host:8001/mcp")
    with Progress(transient=True, console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(f"listing {url}", total=None)
        try:
            async with Client(url) as client:
                server = name or client.session.server_info.name
                tools = await client.list_tools()
        except Exception as error:
            raise ListingError(f"can't list {url!r}: {error}; is the server running?") from None
        records = []
        progress.update(task, description="reading tools", total=len(tools))
        for tool in tools:
            records.append(record_of(tool.model_dump(mode="json", by_alias=True)))
            progress.advance(task)
        progress.update(task, description="writing", total=None)
        async with _open(_graph_of(server, _settings(), must_be_there=False)) as graph:
            report = await sync(graph, server, records, int(time.time() * 1000))
    print(f"{server}: {report.state.n_tools} tools, {report.n_put} put, {report.n_dropped} dropped")


async def _query(words: str, server: str) -> None:
    if not normalise(words):
        raise InputError("no words", words, "argument WORDS", "give some, such as 'slow requests'")
    async with _open(_graph_of(server, _settings())) as graph:
        state = await server_state(graph, server)
        if state is None:
            raise _unknown(server)
        names = names_of(await match(graph, server, normalise(words)))
    print("\n".join(names) if names else f"no match: a caller is shown all permitted of its {state.n_tools} tools")


async def _forget(server: str) -> None:
    async with _open(_graph_of(server, _settings())) as graph:
        if await server_state(graph, server) is None:
            raise _unknown(server)
        await forget(graph, server)
    print(f"{server}: forgotten")


def _settings() -> Settings:
    settings = read_settings(os.environ)
    if settings.graph == "off":
        raise InputError("the graph is off", "off", "env MCP_GRAPH", "unset it, or use embedded or neo4j")
    return settings


def _every_graph(settings: Settings) -> list[ToolGraph]:
    """Return Neo4j, or every embedded graph there is a file of."""
    graph = graph_backend(settings.graph, "", settings.graph_folder, os.environ)
    if not isinstance(graph, EmbeddedGraph):
        return [graph] if graph is not None else []
    folder = embedded_path("", settings.graph_folder).parent
    return [EmbeddedGraph(path, or_memory=False) for path in sorted(folder.glob("*.lbdb"))]


def _graph_of(server: str, settings: Settings, *, must_be_there: bool = True) -> ToolGraph:
    """Return the graph that keeps a server."""
    graph = graph_backend(settings.graph, server, settings.graph_folder, os.environ)
    assert graph is not None, "an absent graph is refused with the settings"
    if not isinstance(graph, EmbeddedGraph):
        return graph
    path = embedded_path(server, settings.graph_folder)
    if must_be_there and not path.exists():
        raise _unknown(server)
    return EmbeddedGraph(path, or_memory=False)


def _unknown(server: str) -> InputError:
    hint = "see `agent-utilities graph status`"
    return InputError("the graph holds no such server", server, "argument SERVER", hint)


@asynccontextmanager
async def _open(graph: ToolGraph) -> AsyncIterator[ToolGraph]:
    await graph.open()
    try:
        yield graph
    finally:
        await graph.close()

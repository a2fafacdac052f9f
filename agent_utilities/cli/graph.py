"""`agent-utilities graph`: show, fill and query the tool graph, and remove servers from it."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import typer
from rich.text import Text

from agent_utilities.cli.asking import list_tools
from agent_utilities.errors import InputError
from agent_utilities.query.graph import sync as graph_sync
from agent_utilities.query.graph.backends import embedded_path, graph_backend
from agent_utilities.query.graph.base import GraphError, ServerState, ToolGraph, gateway_of, record_of
from agent_utilities.query.graph.embedded import EmbeddedGraph
from agent_utilities.query.graph.matching import match, names_of, normalise
from agent_utilities.runtime.hosts import shown_address
from agent_utilities.server.command_line.terminal import NamesTable, in_event_loop, terminal
from agent_utilities.settings import Settings
from agent_utilities.settings_file import settings_of

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Look after the graph that queries are resolved on.")


@app.command()
@in_event_loop
async def status() -> None:
    """Show every server in the graph: how many tools, and how old."""
    settings = _settings()
    graphs = [graph := _graph_of("", settings)]
    place = f"servers of all who share the Neo4j at {shown_address(os.environ.get('NEO4J_URI', '').strip())}"
    if isinstance(graph, EmbeddedGraph):
        folder = embedded_path("", settings.graph_folder).parent
        graphs = [EmbeddedGraph(path, or_memory=False) for path in sorted(folder.glob("*.lbdb"))]
        place = (
            f"servers whose graphs are in {folder} (MCP_GRAPH_FOLDER): those that were started with it on this machine"
        )
    table = NamesTable("", "server", "tools", "age", "digest", "graph")
    for graph in graphs:
        try:
            async with _open(graph):
                for server in await graph_sync.server_states(graph):
                    for state in (server, *server.nodes[1:]):  # below a gateway, its upstreams
                        age_s = time.time() - state.updated_at_ms / 1000
                        style = "yellow" if age_s > settings.graph_ttl_hours * 3600 else ""
                        row = (state.name, str(state.n_tools), _age(age_s), state.digest[:12], graph.backend)
                        table.add_row(*(Text(cell, style) for cell in row))
        except GraphError as error:
            if error.cause != "busy" or not isinstance(graph, EmbeddedGraph) or graph.path is None:
                raise
            row = (graph.path.stem, "", "", "", "in use by its running server: ask its /ready")
            table.add_row(*(Text(cell, "dim") for cell in row))
    if not table.n_rows:
        print(f"the graph holds no server yet: {place}")
        return
    terminal().print(table)
    print(place)


def _age(age_s: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if age_s >= size:
            return f"{age_s / size:.0f} {unit}"
    return f"{max(0, age_s):.0f} s"


@app.command()
@in_event_loop
async def sync(url: str, name: str | None = None) -> None:
    """Bring a live server's tools into the graph: those it shows to a caller without a selection.

    Args:
        url: A live MCP server's URL, such as http://127.0.0.1:8001/mcp.
        name: The name to keep it under; its own by default.
    """
    tools, own_name = await list_tools(url)
    server = name or own_name
    async with _open(_graph_of(server, _settings())) as graph:
        held = await graph_sync.server_state(graph, server)
        if held is not None and held.nodes:
            hint = "it brings its upstreams' tools in itself, which its list does not tell apart; or give --name"
            raise InputError("a gateway in the graph", server, "argument URL", hint)
        report = await graph_sync.sync(graph, server, list(map(record_of, tools)), int(time.time() * 1000))
    print(f"{server}: {report.state.n_tools} tools, {report.n_put} put, {report.n_dropped} dropped")


@app.command()
@in_event_loop
async def query(words: str, server: str) -> None:
    """Show which of a server's tools a query resolves to, best first.

    Args:
        words: The user's words.
        server: The server's name, as `graph status` shows it.
    """
    if not normalise(words):
        raise InputError("no words", words, "argument WORDS", "give some, such as 'slow requests'")
    async with _open_holding(server) as (graph, state):
        names = names_of(await match(graph, server, normalise(words)))
    print("\n".join(names) if names else f"no match: a caller is shown all permitted of its {state.n_tools} tools")


@app.command()
@in_event_loop
async def forget(server: str) -> None:
    """Remove a server and its tools from the graph, such as one that was renamed.

    Args:
        server: The server's name, as `graph status` shows it.
    """
    async with _open_holding(server) as (graph, state):
        await graph_sync.forget(graph, server)
    n_upstreams = len(state.nodes) - 1
    print(f"{server}: forgotten" + (f", with {n_upstreams} upstreams" if n_upstreams > 0 else ""))


def _settings() -> Settings:
    settings = settings_of(os.environ)
    if settings.graph == "off":
        raise InputError("the graph is off", "off", "env MCP_GRAPH", "unset it, or use embedded or neo4j")
    return settings


def _graph_of(server: str, settings: Settings) -> ToolGraph:
    graph = graph_backend(settings.graph, server, settings.graph_folder, os.environ)
    assert graph is not None, "an absent graph is refused with the settings"
    if not isinstance(graph, EmbeddedGraph):
        return graph
    return EmbeddedGraph(embedded_path(server, settings.graph_folder), or_memory=False)


@asynccontextmanager
async def _open_holding(server: str) -> AsyncIterator[tuple[ToolGraph, ServerState]]:
    """Yield the open graph that holds a server, or one behind a gateway, and the server's state."""
    settings = _settings()
    for keeper in filter(None, (server, gateway_of(server))):
        graph = _graph_of(keeper, settings)
        if isinstance(graph, EmbeddedGraph) and graph.path is not None and not graph.path.exists():
            continue
        async with _open(graph):
            state = await graph_sync.server_state(graph, server)
            if state is not None:
                yield graph, state
                return
    raise InputError("the graph holds no such server", server, "argument SERVER", "see `agent-utilities graph status`")


@asynccontextmanager
async def _open(graph: ToolGraph) -> AsyncIterator[ToolGraph]:
    await graph.open()
    try:
        yield graph
    finally:
        await graph.close()

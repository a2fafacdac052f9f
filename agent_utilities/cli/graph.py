"""What `agent-utilities graph` does: looking after the tool graph."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rich.console import Console
from rich.text import Text

from agent_utilities.cli.asking import mcp_url
from agent_utilities.errors import AgentUtilitiesError, InputError
from agent_utilities.graph.backends import embedded_path, graph_backend
from agent_utilities.graph.base import (
    GraphError,
    ServerState,
    ToolGraph,
    gateway_of,
    record_of,
)
from agent_utilities.graph.embedded import EmbeddedGraph
from agent_utilities.graph.matching import match, names_of, normalise
from agent_utilities.graph.sync import forget, server_state, server_states, sync
from agent_utilities.mcp.command_line.tables import NamesTable
from agent_utilities.settings import Settings
from agent_utilities.settings_file import settings_of


class ListingError(AgentUtilitiesError):
    """A server could not be listed."""


async def show_status() -> None:
    """Print every server in the graph: how many tools, how old; below a gateway, its upstreams."""
    settings = _settings()
    table = NamesTable("", "server", "tools", "age", "digest", "graph")
    for graph in _every_graph(settings):
        try:
            async with _open(graph):
                for server in await server_states(graph):
                    for state in (server, *server.nodes[1:]):
                        age_s = time.time() - state.updated_at_ms / 1000
                        style = "yellow" if age_s > settings.graph_ttl_hours * 3600 else ""
                        row = (state.name, str(state.n_tools), _age(age_s), state.digest[:12], graph.backend)
                        table.add_row(*(Text(cell, style) for cell in row))
        except GraphError as error:
            if error.cause != "busy" or not isinstance(graph, EmbeddedGraph) or graph.path is None:
                raise
            row = (graph.path.stem, "", "", "", "in use by its running server: ask its /ready")
            table.add_row(*(Text(cell, "dim") for cell in row))
    console, place = Console(), _place(settings)
    if not table.n_rows:
        print(f"the graph holds no server yet: {place}")
        return
    console.print(table)
    print(place)


def _place(settings: Settings) -> str:
    """Say whose servers a listing of the graph is of."""
    graph = graph_backend(settings.graph, "", settings.graph_folder, os.environ)
    if not isinstance(graph, EmbeddedGraph):
        return f"servers of all who share the Neo4j at {os.environ.get('NEO4J_URI', '').strip()}"
    folder = embedded_path("", settings.graph_folder).parent
    return f"servers whose graphs are in {folder} (MCP_GRAPH_FOLDER): those that were started with it on this machine"


def _age(age_s: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if age_s >= size:
            return f"{age_s / size:.0f} {unit}"
    return f"{max(0, age_s):.0f} s"


async def sync_server(url: str, name: str | None) -> None:
    """Bring a live server's tools into the graph."""
    from fastmcp import Client

    place = mcp_url(url)
    try:
        async with Client(place) as client:
            server = name or client.session.server_info.name
            records = [record_of(tool.model_dump(mode="json", by_alias=True)) for tool in await client.list_tools()]
    except Exception as error:
        raise ListingError(f"can't list {url!r}: {error}; is the server running?") from None
    async with _open(_graph_of(server, _settings())) as graph:
        held = await server_state(graph, server)
        if held is not None and held.nodes:
            hint = "it brings its upstreams' tools in itself, which its list does not tell apart; or give --name"
            raise InputError("a gateway in the graph", server, "argument URL", hint)
        report = await sync(graph, server, records, int(time.time() * 1000))
    print(f"{server}: {report.state.n_tools} tools, {report.n_put} put, {report.n_dropped} dropped")


async def show_matches(words: str, server: str) -> None:
    """Print which of a server's tools a query resolves to, best first."""
    if not normalise(words):
        raise InputError("no words", words, "argument WORDS", "give some, such as 'slow requests'")
    async with _open_holding(server) as (graph, state):
        names = names_of(await match(graph, server, normalise(words)))
    print("\n".join(names) if names else f"no match: a caller is shown all permitted of its {state.n_tools} tools")


async def forget_server(server: str) -> None:
    """Remove a server and its tools from the graph; with a gateway its upstreams go too."""
    async with _open_holding(server) as (graph, state):
        await forget(graph, server)
    n_upstreams = len(state.nodes) - 1
    print(f"{server}: forgotten" + (f", with {n_upstreams} upstreams" if n_upstreams > 0 else ""))


def _settings() -> Settings:
    settings = settings_of(os.environ)
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
            state = await server_state(graph, server)
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

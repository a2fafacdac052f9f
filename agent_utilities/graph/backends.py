"""Choosing the backend: Neo4j where it is configured, else a file in the user's cache folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from agent_utilities.errors import SettingsError
from agent_utilities.graph.base import ToolGraph
from agent_utilities.runtime.hosts import shown_address
from agent_utilities.runtime.process_io import own_folder

Backend = Literal["auto", "off", "embedded", "neo4j"]
_SCHEMES = ("bolt", "bolt+s", "bolt+ssc", "neo4j", "neo4j+s", "neo4j+ssc")


def graph_backend(backend: Backend, server: str, folder: str, environ: Mapping[str, str]) -> ToolGraph | None:
    """Return the backend for a server, not yet opened, or None where the graph is off.

    Args:
        backend: the operator's choice; `auto` is Neo4j where `NEO4J_URI` is set, else embedded.
        server: the server's name; it names the embedded graph's file.
        folder: where embedded graphs are kept; the user's cache folder where blank.
        environ: the environment, for `NEO4J_*`.

    Raises:
        SettingsError: `NEO4J_URI` is missing or can't be used.
    """
    if backend == "off":
        return None
    uri = environ.get("NEO4J_URI", "").strip()
    if backend == "neo4j" or (backend == "auto" and uri):
        if uri.partition("://")[0] not in _SCHEMES:
            hint = "set it to an address such as bolt://127.0.0.1:7687 or neo4j+s://host"
            raise SettingsError("not a Neo4j address", shown_address(uri), "env NEO4J_URI", hint)
        from agent_utilities.graph.neo4j import Neo4jGraph

        username, password = environ.get("NEO4J_USERNAME"), environ.get("NEO4J_PASSWORD")
        return Neo4jGraph(
            uri, username or ("neo4j" if password else None), password, environ.get("NEO4J_DATABASE") or None
        )
    from agent_utilities.graph.embedded import EmbeddedGraph

    return EmbeddedGraph(embedded_path(server, folder))


def embedded_path(server: str, folder: str = "") -> Path:
    """Return the file of a server's embedded graph."""
    base = Path(folder) if folder else own_folder("cache") / "graph"
    return base / f"{re.sub(r'[^A-Za-z0-9._-]', '_', server)[:100] or 'server'}.lbdb"

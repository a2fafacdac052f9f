"""The development sets as servers: a gateway of a set's servers, and FastMCP's own search over the same tools."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import mcp_types
from fastmcp import FastMCP
from fastmcp.server.transforms.search import BM25SearchTransform
from fastmcp.tools.base import Tool

from agent_utilities import AgentServer, create_gateway
from agent_utilities.catalog.context import n_tokens
from agent_utilities.cli.evaluation.data import Request, read_requests, read_tools
from agent_utilities.cli.evaluation.data import Tool as EvaluatedTool
from agent_utilities.gateway.upstreams.config import GatewayConfig, UpstreamConfig
from agent_utilities.gateway.upstreams.folders import gateway_folder
from agent_utilities.gateway.upstreams.names import Namespace
from agent_utilities.gateway.upstreams.snapshot import Snapshot
from agent_utilities.gateway.upstreams.snapshot_store import SnapshotStore
from benchmarks.host_internals import put
from benchmarks.served_quality import VECTORS

SETS: Sequence[tuple[str, str]] = (
    ("azure_mcp", "queries"),
    ("livemcpbench", "queries"),
    ("livemcpbench", "queries_steps"),
    ("metatool", "queries"),
    ("metatool", "queries_multi"),
)
"""Each catalog with a file of requests."""


@dataclass(frozen=True)
class DevelopmentSet:
    """A catalog and requests that its tools answer.

    Args:
        name: of the catalog and the requests.
        tools: as `eval` reads them, one without a server as of one with the catalog's name.
        definitions: as servers list them, by server.
        ids: of the tools, by the names that a gateway of those servers gives them.
        requests: with the ids of the tools wanted.
    """

    name: str
    tools: Sequence[EvaluatedTool]
    definitions: Mapping[str, Sequence[mcp_types.Tool]]
    ids: Mapping[str, str]
    requests: Sequence[Request]

    @property
    def gateway_tools(self) -> Iterator[mcp_types.Tool]:
        """The tools under the names that a gateway gives them."""
        namespace = Namespace(self.definitions)
        for server, tools in self.definitions.items():
            for tool in tools:
                yield tool.model_copy(update={"name": namespace.namespaced(server, tool.name)})

    @property
    def n_tokens(self) -> int:
        """What a list of all tools takes."""
        return sum(n_tokens(tool.model_dump(mode="json", by_alias=True)) for tool in self.gateway_tools)


def missing_sets(data: Path) -> list[str]:
    """Return the names of the sets that are not in a folder."""
    return [f"{name}/{file}" for name, file in SETS if not (data / name / f"{file}.jsonl").exists()]


def read_set(data: Path, name: str, file: str, n_requests: int) -> DevelopmentSet:
    """Return a set, with a sample of its requests where it has more than so many."""
    path = data / name / "tools.jsonl"
    tools = read_tools(path)
    requests = read_requests(data / name / f"{file}.jsonl", tools)
    sample = Random(0).sample(requests, min(n_requests, len(requests)))
    definitions: dict[str, list[mcp_types.Tool]] = {}
    names: list[tuple[str, str, str]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        server = row["server"] or name
        definitions.setdefault(server, []).append(_listed(row))
        names.append((server, row["name"], row["id"]))
    namespace = Namespace(definitions)
    ids = {namespace.namespaced(server, tool): tool_id for server, tool, tool_id in names}
    served = [replace(each, document=replace(each.document, server=each.document.server or name)) for each in tools]
    return DevelopmentSet(f"{name}/{file}", served, definitions, ids, sample)


def _listed(row: Mapping[str, Any]) -> mcp_types.Tool:
    return mcp_types.Tool(
        name=row["name"],
        description=row["description"],
        input_schema=row.get("input_schema") or {"type": "object", "properties": {}},
        _meta={"fastmcp": {"tags": row["tags"]}} if row.get("tags") else None,
    )


@contextmanager
def gateway_of(sample: DevelopmentSet, **variables: str) -> Iterator[AgentServer]:
    """Give a gateway of a set's servers, as one is that has seen them: it lists what they had, and starts none.

    Args:
        sample: the set.
        variables: of the environment.
    """
    with tempfile.TemporaryDirectory(prefix="benchmark-", ignore_cleanup_errors=True) as folder:
        if VECTORS.exists():
            shutil.copy(VECTORS, folder)
        environ = {"MCP_GRAPH_FOLDER": folder, "MCP_GATEWAY_FOLDER": folder, "MCP_GRAPH": "embedded", **variables}
        store = SnapshotStore(gateway_folder("snapshots", folder))
        configs = [_seen(store, server, tuple(tools)) for server, tools in sample.definitions.items()]
        yield create_gateway(GatewayConfig(upstreams=tuple(configs)), "benchmark-gateway", environ=environ)
        if (made := Path(folder, VECTORS.name)).exists():
            VECTORS.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(made, VECTORS)


def _seen(store: SnapshotStore, server: str, tools: tuple[mcp_types.Tool, ...]) -> UpstreamConfig:
    config = UpstreamConfig(name=server, source="benchmark", transport="stdio", command="nothing")
    store.load(config)
    store.save(
        Snapshot(
            upstream=config.name,
            config_digest=config.digest,
            taken_at_s=time.time(),
            protocol_version="2025-11-25",
            server_info={"name": config.name},
            tools=tuple(tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools),
        )
    )
    return config


def fastmcp_of(sample: DevelopmentSet, **options: Any) -> FastMCP[Any]:
    """Return a FastMCP server of the same tools, found by its own search.

    Args:
        sample: the set.
        options: of `BM25SearchTransform`.
    """
    server: FastMCP[Any] = FastMCP("benchmark-fastmcp")
    for tool in sample.gateway_tools:
        put(server, Tool(name=tool.name, description=tool.description, parameters=tool.input_schema))
    server.add_transform(BM25SearchTransform(**options))
    return server

"""Gateways with capabilities over real, tiny servers, and clients of both eras."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types
import psutil
from fastmcp import Client
from pydantic import SecretStr

from agent_utilities import AgentServer
from agent_utilities.gateway.capabilities.model import Capabilities, Capability
from agent_utilities.gateway.capabilities.servers import CapabilityServers, Offer
from agent_utilities.gateway.upstreams.config import GatewayConfig, UpstreamConfig
from agent_utilities.selection.channels import META_KEY
from tests.parts import capabilities_of, gateway_with

SERVER = Path(__file__).with_name("tiny_server.py")
LONG_S = 60

TRIGGERS: Mapping[str, tuple[str, ...]] = {
    "versioning": ("show the git log", "what changed between two commits", "commit my changes to git"),
    "files": ("read a file on disk", "list a directory of files", "write text into a file"),
    "clock": ("what time is it in Tokyo", "convert a time between time zones", "current local time"),
    "web": ("fetch the content of a url", "download a web page", "get the text of a website"),
    "mail": ("send an email to a colleague", "search my inbox for a message", "reply to a mail"),
    "database": ("run a SQL query", "look at the schema of a table", "count the rows of a database table"),
}
TOOLS: Mapping[str, tuple[str, ...]] = {
    "versioning": ("git_log", "git_diff", "git_push"),
    "files": ("read_file", "write_file"),
    "clock": ("now",),
    "web": ("fetch",),
    "mail": ("send_mail", "search_mail"),
    "database": ("run_sql", "describe_table"),
}


def server(
    name: str, tools: Sequence[str], capabilities: Mapping[str, tuple[str, ...]] | None = None
) -> UpstreamConfig:
    """Return a tiny server as an upstream: of the configuration itself, or of capabilities."""
    return UpstreamConfig(
        name=name,
        source="a test",
        transport="stdio",
        command=sys.executable,
        args=tuple(map(SecretStr, ["-S", "-E", str(SERVER), name, *tools])),
        cwd=str(SERVER.parent),
        tags=tuple(capabilities or ()),
        capabilities=capabilities or {},
    )


def offer(most: int = 4, fixed: Sequence[str] = (), unavailable: Mapping[str, str] | None = None) -> Offer:
    """Return six capabilities with a server each, named after it with `-server`."""
    known = {
        name: Capability(
            name, f"{name}/tiny.toml", SERVER.parent, description=f"All of {name}", triggers=triggers, domains=("work",)
        )
        for name, triggers in TRIGGERS.items()
    }
    configs = {f"{name}-server": server(f"{name}-server", TOOLS[name], {name: ("*",)}) for name in known}
    by_capability: dict[str, tuple[str, ...]] = {name: (f"{name}-server",) for name in known}
    servers = CapabilityServers(configs, by_capability, {}, dict(unavailable or {}))
    return Offer(Capabilities(known), servers, tuple(fixed), most)


def gateway(folder: Path, offered: Offer | None = None, **environ: str) -> AgentServer:
    """Return a gateway with capabilities and one server of its own, whose state is kept in a folder."""
    settings = {"MCP_GRAPH": "off", "MCP_RANKER": "lexical", "MCP_USAGE": "off", "MCP_GROUPS": "off"}
    settings["MCP_RESULT_TOKENS"] = "off"
    own = GatewayConfig(upstreams=(server("office", ["hello"]),))
    return gateway_with(
        own,
        "capable",
        offer=offered or offer(),
        environ={**os.environ, **settings, "MCP_GATEWAY_FOLDER": str(folder), **environ},
    )


@asynccontextmanager
async def session(of: AgentServer) -> AsyncIterator[Client[Any]]:
    """Be a client of the handshake era."""
    async with Client(of, mode="legacy", timeout=LONG_S) as client:
        yield client


async def listed(client: Client[Any], **selection: Any) -> tuple[list[str], dict[str, Any]]:
    """Return the names of the tools that a client is listed for a selection in `_meta`, and what it is told."""
    params = mcp_types.PaginatedRequestParams.model_validate({"_meta": {META_KEY: selection}})
    result = await client.session.send_request(mcp_types.ListToolsRequest(params=params), mcp_types.ListToolsResult)
    return [tool.name for tool in result.tools], dict((result.meta or {})[META_KEY])


async def seen(of: AgentServer, *capabilities: str) -> None:
    """Wait until the servers of capabilities that are on have listed their tools."""
    for name in capabilities:
        assert await capabilities_of(of).switching.seen(name, LONG_S) == []


async def switched(client: Client[Any], action: str, name: str) -> dict[str, Any]:
    """Return what the `capability` tool answers as data."""
    result = await client.call_tool("capability", {"action": action, "name": name})
    return dict(result.structured_content or {})


def running() -> set[str]:
    """Return the names of the tiny servers that run as children of this process, as the operating system counts."""
    return set(processes())


def processes() -> list[str]:
    """Return the name of each tiny server that is a child of this process, as often as it runs."""
    names = []
    for child in psutil.Process().children(recursive=True):
        try:
            line = child.cmdline()
        except psutil.Error:
            continue
        if str(SERVER) in line:
            names.append(line[line.index(str(SERVER)) + 1])
    return sorted(names)

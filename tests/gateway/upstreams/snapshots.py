"""Configs and snapshots for tests: one of git's that has every kind of component."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import mcp_types
from pydantic import BaseModel

from agent_utilities.gateway.upstreams.config import UpstreamConfig
from agent_utilities.gateway.upstreams.snapshot import Item, Snapshot
from agent_utilities.gateway.upstreams.snapshot_store import SnapshotStore


def config(name: str = "git", **fields: Any) -> UpstreamConfig:
    """Return the config of an upstream over stdio."""
    given = {"transport": "stdio", "command": f"{name}-mcp", **fields}
    return UpstreamConfig(name=name, source=f"mcp.json: mcpServers.{name}", **given)


def on_wire(component: BaseModel) -> Item:
    """Return a component as a server lists it."""
    return component.model_dump(by_alias=True, mode="json", exclude_none=True)


def tool(name: str = "git_status", description: str = "Show the status.", **fields: Any) -> Item:
    """Return a tool with one parameter."""
    given: dict[str, Any] = {"input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}, **fields}
    return on_wire(mcp_types.Tool(name=name, description=description, **given))


def snapshot(of: UpstreamConfig, *tools: Item, **fields: Any) -> Snapshot:
    """Return what an upstream lists: the tools, and one component of each other kind."""
    given: dict[str, Any] = {
        "taken_at_s": 1.5,
        "protocol_version": "2025-11-25",
        "server_info": {"name": "git", "version": "1"},
        "instructions": "Work with git.",
        "capabilities": {"tools": {"listChanged": True}},
        "prompts": ({"name": "p", "arguments": [{"name": "a", "required": True}]},),
        "resources": ({"name": "r", "uri": "file:///a"},),
        "templates": ({"name": "t", "uriTemplate": "file:///{a}"},),
        "problems": ("one",),
        **fields,
    }
    return Snapshot(upstream=of.name, config_digest=of.digest, tools=tools or (tool(),), **given)


def in_memory() -> SnapshotStore:
    """Return a store that keeps nothing on disk, since its folder can't be made."""
    return SnapshotStore(Path(os.devnull))

"""Taps of real, tiny servers, and gateways that offer what such a folder has."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_utilities import AgentServer
from agent_utilities.gateway.capabilities.servers import Offer
from agent_utilities.gateway.upstreams.config import GatewayConfig
from tests.gateway.capabilities.capable import SERVER, server
from tests.gateway.upstreams.processes import FAULTY_SERVER
from tests.parts import gateway_with

QUIET = {
    "MCP_GRAPH": "off",
    "MCP_RANKER": "lexical",
    "MCP_USAGE": "off",
    "MCP_GROUPS": "off",
    "MCP_RESULT_TOKENS": "off",
}


def tiny(name: str, *tools: str, **more: Any) -> dict[str, Any]:
    """Return the table of a tiny server."""
    arguments = ["-S", "-E", str(SERVER), name, *tools]
    return {"name": name, "type": "stdio", "command": sys.executable, "args": arguments, **more}


def faulty(name: str, *faults: str, **more: Any) -> dict[str, Any]:
    """Return the table of a server that misbehaves; see `tests/gateway/upstreams/faulty_server.py`."""
    arguments = ["-I", "-S", str(FAULTY_SERVER), *faults]
    return {"name": name, "type": "stdio", "command": sys.executable, "args": arguments, **more}


def write_bundle(
    tap: Path,
    name: str,
    *servers: Mapping[str, Any],
    triggers: Sequence[str] = (),
    domains: Sequence[str] = (),
    **roles: Any,
) -> Path:
    """Write a bundle into a tap, in one step as an editor does; return its provider's file.

    Args:
        tap: the folder of bundles.
        name: the capability's.
        servers: the tables of those that it brings along.
        triggers, domains: of its `config.toml`.
        roles: what stands under `roles.mcp`.
    """
    folder = tap / name
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"description = {json.dumps(f'All of {name}')}", "[roles.mcp]"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in roles.items()]
    for each in servers:
        lines += ["[[mcp.servers]]", *(f"{key} = {_toml(value)}" for key, value in each.items())]
    (folder / "config.toml").write_text(
        f"triggers = {json.dumps(list(triggers))}\ndomains = {json.dumps(list(domains))}\n"
    )
    return write(folder / "tiny.toml", "\n".join(lines))


def write(path: Path, text: str) -> Path:
    """Put a text in the place of a file's, in one step."""
    beside = path.with_suffix(".new")
    beside.write_text(text)
    return beside.replace(path)


def offering(tap: Path, most: int = 4, fixed: Sequence[str] = (), **environ: str) -> Offer:
    """Return where a gateway's capabilities come from: a folder of bundles."""
    given = {**os.environ, **environ}
    return Offer(fixed=tuple(fixed), most=most, folders=[tap], environ=given, folder=SERVER.parent)


def tap_gateway(tap: Path, folder: Path, most: int = 4, fixed: Sequence[str] = (), **environ: str) -> AgentServer:
    """Return a gateway of a tap and one server of its own, whose state is kept in a folder."""
    own = GatewayConfig(upstreams=(server("office", ["hello"]),))
    offered = offering(tap, most, fixed, **environ)
    return gateway_with(
        own,
        "capable",
        offer=offered.read(own.upstreams),
        environ={**os.environ, **QUIET, "MCP_GATEWAY_FOLDER": str(folder), **environ},
    )


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + "}"
    return json.dumps(value)

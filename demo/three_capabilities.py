"""Three capabilities of which two may be on: they come by what the user says, and give way."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from fastmcp import Client
from mcp_types import PaginatedRequestParams

from agent_utilities.selection.caller import selection_meta
from agent_utilities.selection.channels import META_KEY
from agent_utilities.server.command_line.terminal import NamesTable, Steps
from demo.running import GATEWAY, START_S, caller, demo_environment, n_and_cost, serving, text_of

_TAP = Path(__file__).with_name("tap")
"""Three capabilities, each of which brings one toolset of the demo's office."""
_CALL = "billing_create_invoice"
_SAID = (
    "good morning, how are you?",
    "write an invoice for our customer Acme",
    "find a slot for a meeting with Acme next week",
    _CALL,
    "where is the parcel for Acme?",
)


async def three_capabilities(folder: Path) -> AsyncIterator[NamesTable]:
    """Serve three capabilities of which two may be on, and tell of a conversation with them."""
    environ = demo_environment(MCP_GATEWAY_FOLDER=str(folder / "gateway"), MCP_GRAPH="off")
    environ |= {"DEMO_PYTHON": sys.executable, "DEMO_OFFICE": str(Path(__file__).with_name("office.py"))}
    command = [*GATEWAY, str(_TAP / "mcp.json"), "--capabilities", str(_TAP), "--max-capabilities", "2"]
    steps = Steps(3)
    steps.begin("starting a gateway of three capabilities: --max-capabilities 2")
    async with serving("the demo's gateway", command, environ) as (base, _):
        steps.begin("a conversation in a session")
        session, value = await _session(base)
        yield session
        steps.begin("requests that stand alone: one brings nothing, one what the session had on")
        yield await _alone(base, value)


async def _session(base: str) -> tuple[NamesTable, str]:
    """Return what each turn of a session comes to, and the value by which another request has the same on."""
    title = "9. A session: three capabilities, of which two may be on"
    table = NamesTable(title, "the user says", "nearest", "what happens", "on", "tools", "≈ tokens")
    value = ""
    async with caller(base, mode="legacy") as client:
        for said in _SAID:
            if said == _CALL:
                text = f"{text_of(await client.call_tool(said, {'name': 'Acme'}))}: billing is used last"
                listed = await _list(client)
                table.add_row(f"(the model calls {said})", "", text, _on(listed), *n_and_cost(listed.tools))
                continue
            told = _told(await _list(client, query=said))
            listed = await _list_once_there(client, said, told.get("activated", ()))
            value = str(told["value"])
            table.add_row(f"“{said}”", _nearest(told), _change(told), _on(listed), *n_and_cost(listed.tools))
    return table, value


async def _list_once_there(client: Client[Any], said: str, names: Sequence[str]) -> Any:
    with anyio.fail_after(START_S):
        while True:
            listed = await _list(client, query=said)
            if all(any(tool.name.startswith(f"{name}_") for tool in listed.tools) for name in names):
                return listed
            await anyio.sleep(0.02)


async def _alone(base: str, value: str) -> NamesTable:
    table = NamesTable("10. Requests that stand alone have on what they bring", "sends", "on", "tools", "≈ tokens")
    for header in ("", value):
        asked = {"capabilities": header} if header else {}
        async with caller(base, **asked) as client:
            listed = await _list(client)
        sent = f"x-mcp-capabilities: {header}" if header else "nothing"
        table.add_row(sent, _on(listed), *n_and_cost(listed.tools))
    return table


async def _list(client: Client[Any], **asked: Any) -> Any:
    meta = {"_meta": selection_meta(**asked)} if asked else {}
    return await client.session.list_tools(params=PaginatedRequestParams.model_validate(meta))


def _told(listed: Any) -> Mapping[str, Any]:
    told: Mapping[str, Any] = (listed.meta or {})[META_KEY]["capabilities"]
    return told


def _on(listed: Any) -> str:
    return ", ".join(_told(listed)["active"])


def _nearest(told: Mapping[str, Any]) -> str:
    route = told.get("route") or {}
    name, score = next(iter(route.get("scores", ())), ("", 0.0))
    return f"{name} {score:.2f}, of {route.get('threshold', 0):.2f}" if score else "none"


def _change(told: Mapping[str, Any]) -> str:
    on = [f"[green]{name} comes on[/]" for name in told.get("activated", ())]
    off = [f"[yellow]{name} gives way[/]" for name in told.get("evicted", ())]
    return ", ".join([*on, *off]) or "nothing"

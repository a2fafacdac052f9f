"""`agent-utilities demo capabilities`: one comes on by what the user says, and one gives way to the next."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from mcp_types import PaginatedRequestParams
from rich.console import Console

from agent_utilities.catalog.tokens import n_tokens
from agent_utilities.cli import demo_desk
from agent_utilities.cli.demo_process import START_S, DemoError, demo_environment, print_ending, serving
from agent_utilities.cli.progress import Steps
from agent_utilities.mcp.command_line.tables import NamesTable
from agent_utilities.selection.caller import selection_headers, selection_meta
from agent_utilities.selection.channels import META_KEY

_TRIGGERS = {
    "billing": (
        "write an invoice for a customer",
        "write an invoice for last month",
        "write a new invoice",
        "who has not paid the invoice?",
    ),
    "calendar": (
        "find a slot for a meeting",
        "book a meeting next week",
        "find a time for a meeting next week",
        "when is everybody free?",
    ),
    "shipping": (
        "where is the parcel?",
        "track the parcel for a customer",
        "where is the parcel for a customer?",
        "print a label",
    ),
}
_CALL = "billing_create_invoice"
_SAID = (
    "good morning, how are you?",
    "write an invoice for our customer Acme",
    "find a slot for a meeting with Acme next week",
    _CALL,
    "where is the parcel for Acme?",
)
_MAIN = "from agent_utilities.cli.app import main; main()"


async def run_demo_capabilities() -> None:
    """Serve three capabilities of which two may be on, show a conversation with them, and stop what was started.

    Raises:
        DemoError: the gateway does not start.
    """
    console = Console()
    with tempfile.TemporaryDirectory(prefix="agent-utilities-demo-") as top, Steps(3) as steps:
        folder = Path(top)
        environ = demo_environment(MCP_GATEWAY_FOLDER=str(folder / "gateway"), MCP_GRAPH="off")
        steps.begin("starting a gateway of three capabilities: --max-capabilities 2")
        async with serving("the demo's gateway", _command(folder), environ) as base:
            steps.begin("a conversation in a session")
            session, value = await _session(base)
            steps.begin("requests that stand alone: one brings nothing, one what the session had on")
            alone = await _alone(base, value)
        with steps.cleared():
            console.print(session, "")
            console.print(alone, "")
    print_ending(console)


def _command(folder: Path) -> list[str]:
    """Write a tap of three capabilities; return the command of a gateway that has it, and no other server."""
    for name in demo_desk.DESKS:
        bundle = folder / "tap" / "capabilities" / name
        bundle.mkdir(parents=True)
        (bundle / "config.toml").write_text(f"triggers = {json.dumps(_TRIGGERS[name])}\n", encoding="utf-8")
        args = json.dumps(["-I", demo_desk.__file__, name])
        server = f'[[mcp.servers]]\nname = "{name}"\ncommand = {json.dumps(sys.executable)}\nargs = {args}\n'
        (bundle / "desk.toml").write_text(f"# Title: {name}\n{server}", encoding="utf-8")
    config = folder / "mcp.json"
    config.write_text('{"mcpServers": {}}', encoding="utf-8")
    options = ["--capabilities", str(folder / "tap"), "--max-capabilities", "2"]
    return [sys.executable, "-c", _MAIN, "gateway", str(config), *options]


async def _session(base: str) -> tuple[NamesTable, str]:
    """Return what each turn of a session comes to, and the value by which another request has the same on."""
    title = "9. A session: three capabilities, of which two may be on"
    table = NamesTable(title, "the user says", "nearest", "what happens", "on", "tools", "≈ tokens")
    value = ""
    async with Client(StreamableHttpTransport(f"{base}/mcp"), mode="legacy") as client:
        for said in _SAID:
            if said == _CALL:
                answer = (await client.call_tool(said, {"of": "Acme"})).content[0]
                text = f"{getattr(answer, 'text', '')}: billing is used last"
                listed = await _list(client)
                table.add_row(f"(the model calls {said})", "", text, _on(listed), *_size(listed))
                continue
            told = _told(await _list(client, query=said))
            listed = await _list_once_there(client, said, told.get("activated", ()))
            value = str(told["value"])
            table.add_row(f"“{said}”", _nearest(told), _change(told), _on(listed), *_size(listed))
    return table, value


async def _list_once_there(client: Client[Any], said: str, names: Sequence[str]) -> Any:
    """Return a list that has the tools of these capabilities, whose servers have just been started for the first time.

    Raises:
        DemoError: they did not come.
    """
    with anyio.move_on_after(START_S):
        while True:
            listed = await _list(client, query=said)
            if all(any(tool.name.startswith(f"{name}_") for tool in listed.tools) for name in names):
                return listed
            await anyio.sleep(0.02)
    raise DemoError(f"the tools of {', '.join(names)} did not come within {START_S} s")


async def _alone(base: str, value: str) -> NamesTable:
    """Return what requests that stand alone are listed, with and without what was on."""
    table = NamesTable("10. Requests that stand alone have on what they bring", "sends", "on", "tools", "≈ tokens")
    for header in ("", value):
        headers = selection_headers(capabilities=header) if header else {}
        async with Client(StreamableHttpTransport(f"{base}/mcp", headers=headers)) as client:
            listed = await _list(client)
        table.add_row(f"x-mcp-capabilities: {header}" if header else "nothing", _on(listed), *_size(listed))
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


def _size(listed: Any) -> tuple[str, str]:
    tools = listed.tools
    cost = sum(n_tokens(tool.model_dump(mode="json", by_alias=True, exclude_none=True)) for tool in tools)
    return str(len(tools)), str(cost)

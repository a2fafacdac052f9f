"""`agent-utilities demo tool-search`: sixty tools at the price of two, found, called, evicted, in both protocols."""

from __future__ import annotations

import logging
import sys
import tempfile
from collections.abc import Mapping
from typing import Any, Literal

import httpx2
from fastmcp import Client
from fastmcp.client.messages import MessageHandler
from fastmcp.client.transports import StreamableHttpTransport
from mcp_types import ToolListChangedNotification
from rich.console import Console
from rich.text import Text

from agent_utilities.catalog.tokens import n_tokens
from agent_utilities.cli.demo_process import demo_environment, indexed, print_ending, serving
from agent_utilities.cli.progress import Steps
from agent_utilities.mcp.command_line.tables import NamesTable
from agent_utilities.selection.caller import selection_headers
from agent_utilities.selection.channels import META_KEY

_SERVER = [sys.executable, "-P", "-m", "agent_utilities.cli.demo_office", "--tool-search", "on", "--max-active", "3"]
_BILL = {"query": "create an invoice for a customer", "max_results": 2}
_SHIP = {"query": "track a shipment with its carrier", "max_results": 2}
_INVOICE = {"name": "Acme", "details": {"amount": "120 EUR"}}


class Notices(MessageHandler):
    """Counts how often a server says that its list changed."""

    def __init__(self) -> None:
        self.n_changes = 0

    async def on_tool_list_changed(self, notification: ToolListChangedNotification) -> None:
        """Count one."""
        self.n_changes += 1


async def run_demo_tool_search() -> None:
    """Serve sixty tools, show two conversations with them, and stop what was started.

    Raises:
        DemoError: the server does not start.
    """
    console = Console()
    # The SDK's client warns of a call of what it was not listed, which is what is shown here.
    logging.getLogger("client").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="agent-utilities-demo-") as folder, Steps(5) as steps:
        steps.begin("starting a server of 60 tools: --tool-search on --max-active 3")
        async with (
            serving("the demo's server", _SERVER, demo_environment(MCP_GRAPH_FOLDER=folder)) as base,
            httpx2.AsyncClient(base_url=base) as web,
        ):
            await indexed(web)
            steps.begin("listing them without and with tool search")
            tables = [await _costs(base)]
            steps.begin("a conversation in a session, as clients have had it up to 2025-11-25")
            tables.append(await _session(base))
            steps.begin("the same in requests that stand alone, as in 2026-07-28")
            table, active = await _stateless(base)
            tables.append(table)
            steps.begin("asking what is in the prompt")
            line = await _context(web, active)
        with steps.cleared():
            for table in tables:
                console.print(table, "")
            console.print(Text(line))
    print_ending(console)


async def _costs(base: str) -> NamesTable:
    table = NamesTable("6. The same 60 tools", "x-mcp-tool-search", "listed", "n", "≈ tokens", "saved")
    full = 0
    for value in ("off", "on"):
        async with _client(base, "auto", tool_search=value) as client:
            tools = await client.list_tools()
        cost = _cost(tools)
        full = full or cost
        names = [tool.name for tool in tools]
        some = ", ".join(names[:3]) + (f", … {len(names) - 3} more" if len(names) > 3 else "")
        table.add_row(value, some, str(len(names)), str(cost), f"{1 - cost / full:.0%}")
    return table


async def _session(base: str) -> NamesTable:
    """Return what each step of a session gets, and what is listed after it."""
    table = NamesTable("7. A session: what is found stays listed", "does", "gets", "n", "≈ tokens", "list_changed")
    notices = Notices()
    async with _client(base, "legacy", notices) as client:

        async def row(does: str, gets: str) -> None:
            tools = await client.list_tools()
            table.add_row(does, gets, str(len(tools)), str(_cost(tools)), str(notices.n_changes))

        await row("connects", "tool_search, call_tool")
        for arguments in (_BILL, _SHIP):
            found = await client.call_tool("tool_search", arguments)
            await row(f"tool_search({arguments['query']!r})", _found(found.structured_content or {}))
            if arguments is _BILL:
                await row("create_invoice", _text(await client.call_tool("create_invoice", _INVOICE)))
        arguments = {"name": "delete_ticket", "arguments": {"id": "A-17"}}
        await row("call_tool(delete_ticket), never listed", _text(await client.call_tool("call_tool", arguments)))
    return table


async def _stateless(base: str) -> tuple[NamesTable, str]:
    """Return what each of some requests that stand alone gets, and the value of `active` that the search told."""
    title = "8. Requests that stand alone: what is found is listed where a request brings it"
    table = NamesTable(title, "does", "gets", "n", "≈ tokens")
    async with _client(base, "auto") as client:
        found = await client.call_tool("tool_search", _BILL)
        active = str((found.meta or {})[META_KEY]["active"])
        tools = await client.list_tools()
        table.add_row(f"tool_search({_BILL['query']!r})", _found(found.structured_content or {}), *_size(tools))
        answer = _text(await client.call_tool("create_invoice", _INVOICE))
        table.add_row("create_invoice, which is not listed", answer, *_size(tools))
    async with _client(base, "auto", active=active) as client:
        tools = await client.list_tools()
    table.add_row(f"lists with x-mcp-active: {active}", ", ".join(tool.name for tool in tools), *_size(tools))
    return table, active


async def _context(web: httpx2.AsyncClient, active: str) -> str:
    told = (await web.get("/context", headers=selection_headers(active=active))).json()
    return f"GET /context: {told['line']}; {told['active_line']}"


def _client(
    base: str, mode: Literal["auto", "legacy"], notices: Notices | None = None, **asked: Any
) -> Client[StreamableHttpTransport]:
    transport = StreamableHttpTransport(f"{base}/mcp", headers=selection_headers(**asked))
    return Client(transport, mode=mode, message_handler=notices)


def _found(result: Mapping[str, Any]) -> str:
    """Return a search's result in one line."""
    names = ", ".join(tool["name"] for tool in result["tools"])
    evicted = f"; out: {', '.join(result['evicted'])}" if result["evicted"] else ""
    return f"{'loads' if result['activated'] else 'finds'} {names}{evicted}; {result['deferred']} deferred"


def _text(result: Any) -> str:
    return str(getattr(result.content[0], "text", "")) if result.content else ""


def _size(tools: list[Any]) -> tuple[str, str]:
    return str(len(tools)), str(_cost(tools))


def _cost(tools: list[Any]) -> int:
    return sum(n_tokens(tool.model_dump(mode="json", by_alias=True, exclude_none=True)) for tool in tools)

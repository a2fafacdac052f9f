"""Sixty tools at the price of two: found, called, evicted, in both protocols."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
from mcp_types import ToolListChangedNotification

from agent_utilities.selection.caller import selection_headers
from agent_utilities.selection.channels import META_KEY
from agent_utilities.server.command_line.terminal import NamesTable, Steps
from demo.running import caller, demo_environment, indexed, listed, n_and_cost, saved, serving, some_names, text_of

_OFFICE = [sys.executable, "-P", str(Path(__file__).with_name("office.py")), "--tool-search", "on", "--max-active", "3"]
_BILL = {"query": "create an invoice for a customer", "max_results": 2}
_SHIP = {"query": "track a shipment with its carrier", "max_results": 2}
_INVOICE = {"name": "Acme", "details": {"amount": "120 EUR"}}


async def sixty_tools(folder: Path) -> AsyncIterator[NamesTable | str]:
    """Serve sixty tools, and tell of two conversations with them."""
    # The SDK's client warns of a call of what it was not listed, which is what is shown here.
    logging.getLogger("client").setLevel(logging.ERROR)
    steps = Steps(5)
    steps.begin("starting a server of 60 tools: --tool-search on --max-active 3")
    async with (
        serving("the demo's server", _OFFICE, demo_environment(MCP_GRAPH_FOLDER=str(folder))) as (base, _),
        httpx2.AsyncClient(base_url=base) as web,
    ):
        await indexed(web)
        steps.begin("listing them without and with tool search")
        yield await _search_costs(base)
        steps.begin("a conversation in a session, as clients have had it up to 2025-11-25")
        yield await _search_in_session(base)
        steps.begin("the same in requests that stand alone, as in 2026-07-28")
        alone, active = await _search_alone(base)
        yield alone
        steps.begin("asking what is in the prompt")
        told = (await web.get("/context", headers=selection_headers(active=active))).json()
        yield f"GET /context: {told['line']}; {told['active_line']}"


async def _search_costs(base: str) -> NamesTable:
    table = NamesTable("1. The same 60 tools", "x-mcp-tool-search", "listed", "n", "≈ tokens", "saved")
    everything: list[Any] = []
    for value in ("off", "on"):
        tools = await listed(caller(base, tool_search=value))
        everything = everything or tools
        table.add_row(value, some_names(tools), *n_and_cost(tools), saved(tools, everything))
    return table


async def _search_in_session(base: str) -> NamesTable:
    """Return what each step of a session gets, and what is listed after it."""
    table = NamesTable("2. A session: what is found stays listed", "does", "gets", "n", "≈ tokens", "list_changed")
    changes: list[Any] = []

    async def heard(message: Any) -> None:
        changes.extend([message] if isinstance(message, ToolListChangedNotification) else [])

    async with caller(base, "legacy", heard) as client:

        async def row(does: str, gets: str) -> None:
            table.add_row(does, gets, *n_and_cost(await client.list_tools()), str(len(changes)))

        await row("connects", "tool_search, call_tool")
        for arguments in (_BILL, _SHIP):
            found = await client.call_tool("tool_search", arguments)
            await row(f"tool_search({arguments['query']!r})", _found(found.structured_content or {}))
            if arguments is _BILL:
                await row("create_invoice", text_of(await client.call_tool("create_invoice", _INVOICE)))
        arguments = {"name": "delete_ticket", "arguments": {"id": "A-17"}}
        await row("call_tool(delete_ticket), never listed", text_of(await client.call_tool("call_tool", arguments)))
    return table


async def _search_alone(base: str) -> tuple[NamesTable, str]:
    """Return what each of some requests that stand alone gets, and the value of `active` that the search told."""
    title = "3. Requests that stand alone: what is found is listed where a request brings it"
    table = NamesTable(title, "does", "gets", "n", "≈ tokens")
    async with caller(base) as client:
        found = await client.call_tool("tool_search", _BILL)
        active = str((found.meta or {})[META_KEY]["active"])
        tools = await client.list_tools()
        table.add_row(f"tool_search({_BILL['query']!r})", _found(found.structured_content or {}), *n_and_cost(tools))
        answer = text_of(await client.call_tool("create_invoice", _INVOICE))
        table.add_row("create_invoice, which is not listed", answer, *n_and_cost(tools))
    tools = await listed(caller(base, active=active))
    table.add_row(f"lists with x-mcp-active: {active}", ", ".join(tool.name for tool in tools), *n_and_cost(tools))
    return table, active


def _found(result: Mapping[str, Any]) -> str:
    names = ", ".join(tool["name"] for tool in result["tools"])
    evicted = f"; out: {', '.join(result['evicted'])}" if result["evicted"] else ""
    return f"{'loads' if result['activated'] else 'finds'} {names}{evicted}; {result['deferred']} deferred"

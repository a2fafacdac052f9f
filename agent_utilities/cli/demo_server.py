"""`agent-utilities demo server` and `demo tool-search`, and what all demos run on.

The first shows what channels, a hostile caller and transports see of one server; the other sixty tools at the price of
two: found, called, evicted, in both protocols.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from mcp_types import ToolListChangedNotification

from agent_utilities.catalog.tokens import n_tokens
from agent_utilities.cli.demo import logged_in
from agent_utilities.errors import AgentUtilitiesError
from agent_utilities.mcp.command_line.terminal import NamesTable, Steps
from agent_utilities.selection.caller import selection_headers, selection_url
from agent_utilities.selection.channels import META_KEY

START_S = 60
_AGENT = "logs-agent-mcp"
_NAMED = 3
_WORDS = (
    "which requests are the slowest?",
    "what broke after the deploy?",
    "logs analysis",
    "what is the capital of France?",
)
_LINES = """2026-07-28T12:00:00Z INFO request served in 12 ms
2026-07-28T12:00:01Z ERROR upstream timed out after 3000 ms
2026-07-28T12:00:02Z WARNING retrying request 7
"""
_OFFICE = [sys.executable, "-P", "-m", "agent_utilities.cli.demo_office", "--tool-search", "on", "--max-active", "3"]
_BILL = {"query": "create an invoice for a customer", "max_results": 2}
_SHIP = {"query": "track a shipment with its carrier", "max_results": 2}
_INVOICE = {"name": "Acme", "details": {"amount": "120 EUR"}}


class DemoError(AgentUtilitiesError):
    """The demo could not be run here."""


def demo_environment(**own: str) -> dict[str, str]:
    """Return the environment of a server that a demo runs: none of the user's settings, nor their usage log.

    A query is waited for longer than in service, so that a demo shows the same on a machine that is busy.

    Calls are logged where the user names a file for them in `MCP_USAGE_FILE`, as `MCP_USAGE` says, and nowhere else:
    a demo's calls in the log of their own servers would teach those.
    """
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MCP_")}
    file, usage = logged_in()
    logged = {"MCP_USAGE": usage, "MCP_USAGE_FILE": file} if file else {"MCP_USAGE": "off"}
    return {**environ, "MCP_CONFIG_FILE": "none", "MCP_GRAPH_DEADLINE_MS": "10000", **logged, **own}


def installed(program: str) -> str:
    """Return the path of an agent's program, that beside this interpreter first."""
    beside = Path(sys.executable).parent / program
    found = str(beside) if beside.exists() else shutil.which(program)
    if found is None:
        package = program.removesuffix("-mcp")
        raise DemoError(f"{program} is not installed here; install the {package} package, or run the README's command")
    return found


@asynccontextmanager
async def serving(
    name: str, command: Sequence[str], environ: Mapping[str, str], route: str = "/ready"
) -> AsyncIterator[tuple[str, int]]:
    """Run a server on a free port of this machine until the block ends; yield its base URL and its process's id.

    It serves once `route` answers 200.
    """
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    base, arguments = f"http://127.0.0.1:{port}", ["-t", "http", "-p", str(port), "--log-level", "error"]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen([*command, *arguments], env=environ, stdout=subprocess.DEVNULL, stderr=said)  # noqa: ASYNC220 - it returns at once
        try:
            if not await _serves(f"{base}{route}", process):
                said.seek(0)
                text = said.read().decode(errors="replace").strip()
                raise DemoError(f"{name} did not start within {START_S} s: {text}")
            yield base, process.pid
        finally:
            process.terminate()
            await anyio.to_thread.run_sync(process.wait)


async def _serves(url: str, process: subprocess.Popen[bytes]) -> bool:
    async with httpx2.AsyncClient() as web:
        with anyio.move_on_after(START_S):
            while process.poll() is None:
                try:
                    if (await web.get(url)).status_code == 200:
                        return True
                except httpx2.TransportError:
                    pass
                await anyio.sleep(0.02)
    return False


async def indexed(web: httpx2.AsyncClient) -> None:
    """Wait until a server's graph and index are ready, as long as a start may take; a query has them made at once."""
    with anyio.move_on_after(START_S):
        await web.get("/tools", params={"q": "logs"})
        while True:
            state = (await web.get("/ready")).json()
            if state["graph"]["status"] == state["ranker"]["status"] == "ready":
                return
            await anyio.sleep(0.05)


def caller(base: str, mode: Any = "auto", notices: Any = None, **asked: Any) -> Client[StreamableHttpTransport]:
    """Return a client of a server that asks for a selection by headers."""
    transport = StreamableHttpTransport(f"{base}/mcp", headers=selection_headers(**asked))
    return Client(transport, mode=mode, message_handler=notices)


async def listed(client: Client[Any]) -> list[Any]:
    """Return the tools that a client is listed, which is connected for that."""
    async with client:
        return await client.list_tools()


def n_and_cost(tools: Sequence[Any]) -> tuple[str, str]:
    """Return two cells: how many tools these are, and about how many tokens they take."""
    return str(len(tools)), str(_cost(tools))


def text_of(result: Any) -> str:
    """Return the first text of a call's result."""
    return str(getattr(result.content[0], "text", "")) if result.content else ""


def some_names(tools: Sequence[Any]) -> str:
    """Return the names of the first tools, and how many more there are."""
    names = [tool.name for tool in tools]
    return ", ".join(names[:_NAMED]) + (f", … {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def saved(tools: Sequence[Any], all_tools: Sequence[Any]) -> str:
    """Return the share of tokens that these take less than all."""
    return f"{1 - _cost(tools) / _cost(all_tools):.0%}"


def _cost(tools: Sequence[Any]) -> int:
    return sum(n_tokens(tool.model_dump(mode="json", by_alias=True, exclude_none=True)) for tool in tools)


async def one_server(folder: Path) -> AsyncIterator[NamesTable]:
    """Serve an agent with different bounds, and show what each channel, a hostile caller and each transport get."""
    program, steps = installed(_AGENT), Steps(7)
    (folder / "app.log").write_text(_LINES, encoding="utf-8")
    environ = demo_environment(LOGS_AGENT_ROOTS=str(folder), MCP_GRAPH_FOLDER=str(folder / "graph"))
    async with AsyncExitStack() as stack:

        async def start(*options: str, **env: str) -> str:
            base, _ = await stack.enter_async_context(serving(_AGENT, [program, *options], {**environ, **env}))
            return base

        steps.begin("starting logs-agent over HTTP: everything it has")
        everything = await start()
        steps.begin("starting it with MCP_READ_ONLY=true")
        read_only = await start(MCP_READ_ONLY="true")
        steps.begin("starting it with --disabled-tags write,delete")
        narrowed = await start("--disabled-tags", "write,delete")
        steps.begin("listing its tools by four channels")
        yield await _channels(everything, read_only, narrowed)
        steps.begin("waiting for its graph and index, and sending a user's words")
        yield await _words(everything)
        steps.begin("trying to widen what --disabled-tags left")
        yield await _hostile_caller(narrowed)
        steps.begin("starting it over stdio, and listing by every transport")
        yield await _transports(everything, environ)


async def _channels(everything: str, read_only: str, narrowed: str) -> NamesTable:
    table = NamesTable("1. Four channels, one surface", "who", "asks for", "visible tools", "n", "≈ tokens", "saved")
    by_url = Client(selection_url(f"{everything}/mcp", tools=["tail_log", "search_logs"]))
    all_tools = await listed(caller(everything))
    for who, asks, client in (
        ("operator, env", "MCP_READ_ONLY=true", caller(read_only)),
        ("operator, CLI", "--disabled-tags write,delete", caller(narrowed)),
        ("caller, URL", "?tools=tail_log,search_logs", by_url),
        ("caller, header", "x-mcp-disabled-tags: write,delete", caller(everything, disabled_tags=["write", "delete"])),
        ("nobody", "nothing", caller(everything)),
    ):
        tools = await listed(client)
        table.add_row(who, asks, some_names(tools), *n_and_cost(tools), saved(tools, all_tools))
    return table


async def _words(base: str) -> NamesTable:
    title = "2. An agent host sends the user's words: no LLM, and where nothing fits everything permitted stays"
    table = NamesTable(title, "x-mcp-query", "status", "visible tools, best first", "n", "saved")
    async with httpx2.AsyncClient(base_url=base) as web:
        full = sum(tool["tokens"] for tool in (await web.get("/tools")).json()["tools"])
        await indexed(web)
        for words in _WORDS:
            answer = (await web.get("/tools", headers=selection_headers(query=words))).json()
            status, ranked = answer["selection"]["status"], answer["selection"].get("ranked", [])
            share = 1 - sum(tool["tokens"] for tool in answer["tools"]) / full
            table.add_row(words, status, ", ".join(ranked) or "all", str(len(answer["tools"])), f"{share:.0%}")
    return table


async def _hostile_caller(base: str) -> NamesTable:
    table = NamesTable("3. A caller that tries to widen what --disabled-tags write,delete left", "tries", "gets")
    writing = ["delete_log", "rotate_log"]
    tries: list[dict[str, Any]] = [
        {"tools": ["all"]},
        {"tools": writing},
        {"tags": ["write", "delete"]},
        {"disabled_tags": []},
    ]
    for asked in tries:
        ((header, value),) = selection_headers(**asked).items()
        seen = [tool.name for tool in await listed(caller(base, **asked))]
        gained = [name for name in writing if name in seen]
        table.add_row(f"{header}: {value}", f"{len(seen)} tools, {', '.join(gained) if gained else 'none that writes'}")
    async with caller(base, tools=["all"]) as client:
        for name in ("delete_log", "no_such_tool"):
            answer = await client.call_tool(name, {"path": "app.log"}, raise_on_error=False)
            table.add_row(f"calls {name}", text_of(answer))
    async with httpx2.AsyncClient() as web:
        refused = await web.get(f"{base}/tools?disabled_tag=read")
        table.add_row("GET /tools?disabled_tag=read", f"{refused.status_code}: {refused.json()['error']['hint']}")
    return table


async def _transports(base: str, environ: Mapping[str, str]) -> NamesTable:
    table = NamesTable("4. Every transport shows the same", "transport", "protocol", "visible tools", "n")
    wanted = ["tail_log", "count_by_level"]
    options = ["-t", "stdio", "--log-level", "error", "--tools", ",".join(wanted)]
    for transport, client in (
        ("stdio", Client(StdioTransport(installed(_AGENT), options, env=dict(environ), keep_alive=False))),
        ("streamable HTTP, stateless", caller(base, tools=wanted)),
        ("streamable HTTP, handshake", caller(base, mode="legacy", tools=wanted)),
        ("SSE", Client(SSETransport(selection_url(f"{base}/sse", tools=wanted)))),
    ):
        async with client:
            names = [tool.name for tool in await client.list_tools()]
            table.add_row(transport, str(client.session.protocol_version), ", ".join(names), str(len(names)))
    async with httpx2.AsyncClient() as web:
        answer = (await web.get(selection_url(f"{base}/tools", tools=wanted))).json()
        names = [tool["name"] for tool in answer["tools"]]
        table.add_row("GET /tools", "plain JSON", ", ".join(names), str(len(names)))
    return table


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
    table = NamesTable("6. The same 60 tools", "x-mcp-tool-search", "listed", "n", "≈ tokens", "saved")
    everything: list[Any] = []
    for value in ("off", "on"):
        tools = await listed(caller(base, tool_search=value))
        everything = everything or tools
        table.add_row(value, some_names(tools), *n_and_cost(tools), saved(tools, everything))
    return table


async def _search_in_session(base: str) -> NamesTable:
    """Return what each step of a session gets, and what is listed after it."""
    table = NamesTable("7. A session: what is found stays listed", "does", "gets", "n", "≈ tokens", "list_changed")
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
    title = "8. Requests that stand alone: what is found is listed where a request brings it"
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

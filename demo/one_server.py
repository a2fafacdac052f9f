"""One server, as each channel, a hostile caller and each transport see it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StdioTransport

from agent_utilities.selection.caller import selection_headers, selection_url
from agent_utilities.server.command_line.terminal import NamesTable, Steps
from demo.running import (
    caller,
    demo_environment,
    indexed,
    installed,
    listed,
    n_and_cost,
    saved,
    serving,
    some_names,
    text_of,
)

_AGENT = "logs-agent-mcp"
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

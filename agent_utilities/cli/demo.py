"""`agent-utilities demo`: a real agent, and what each channel, a hostile caller and each transport see of it."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from rich.console import Console

from agent_utilities.catalog.tokens import n_tokens
from agent_utilities.cli.demo_process import DemoError, demo_environment, indexed, print_ending, serving
from agent_utilities.cli.progress import Steps
from agent_utilities.mcp.command_line.tables import NamesTable
from agent_utilities.selection.caller import selection_headers, selection_url

_AGENT = "logs-agent-mcp"
_N_STEPS = 9
_NAMED = 3
_WORDS = (
    "which requests are the slowest?",
    "what broke after the deploy?",
    "logs analysis",
    "what is the capital of France?",
)
_LINES = [
    "2026-07-28T12:00:00Z INFO request served in 12 ms",
    "2026-07-28T12:00:01Z ERROR upstream timed out after 3000 ms",
    "2026-07-28T12:00:02Z WARNING retrying request 7",
]


async def run_demo() -> None:
    """Start the logs agent, print four tables, and stop everything that was started.

    Raises:
        DemoError: the agent is not installed, or does not start.
    """
    console = Console()
    command = _command()
    with tempfile.TemporaryDirectory(prefix="agent-utilities-demo-") as top, Steps(_N_STEPS) as steps:
        folder = _logs(Path(top))
        for show in (_channels, _words, _hostile_caller, _transports):
            table = await show(steps, command, folder)
            with steps.cleared():
                console.print(table, "")
    print_ending(console)


def _logs(top: Path) -> str:
    folder = top / "logs"
    folder.mkdir()
    (folder / "app.log").write_text("\n".join(_LINES) + "\n", encoding="utf-8")
    return str(folder)


def _command() -> str:
    beside = Path(sys.executable).parent / _AGENT
    program = str(beside) if beside.exists() else shutil.which(_AGENT)
    if program is None:
        raise DemoError(f"{_AGENT} is not installed here; install the logs-agent package, or run the README's command")
    return program


async def _channels(steps: Steps, command: str, folder: str) -> NamesTable:
    table = NamesTable("1. Four channels, one surface", "who", "asks for", "visible tools", "n", "≈ tokens", "saved")
    steps.begin("starting logs-agent over stdio: everything it has")
    async with _stdio(command, folder) as client:
        everything = await _listed(client)
    full = _cost(everything)
    steps.begin("starting it with MCP_READ_ONLY=true")
    async with _stdio(command, folder, env={"MCP_READ_ONLY": "true"}) as client:
        _row(table, "operator, env", "MCP_READ_ONLY=true", await _listed(client), full)
    steps.begin("starting it with --tools")
    async with _stdio(command, folder, "--tools", "tail_log,search_logs,rotate_log") as client:
        _row(table, "operator, CLI", "--tools tail_log,search_logs,rotate_log", await _listed(client), full)
    steps.begin("starting it over HTTP: a caller's URL and headers")
    async with _serving(command, folder) as base:
        async with Client(selection_url(f"{base}/mcp", tools=["tail_log", "search_logs"])) as client:
            _row(table, "caller, URL", "?tools=tail_log,search_logs", await _listed(client), full)
        async with _http(f"{base}/mcp", disabled_tags=["write", "delete"]) as client:
            _row(table, "caller, header", "x-mcp-disabled-tags: write,delete", await _listed(client), full)
    _row(table, "nobody", "nothing", everything, full)
    return table


async def _words(steps: Steps, command: str, folder: str) -> NamesTable:
    title = "2. An agent host sends the user's words: no LLM, and where nothing fits everything permitted stays"
    table = NamesTable(title, "x-mcp-query", "status", "visible tools, best first", "n", "saved")
    steps.begin("starting it over HTTP, for queries")
    async with _serving(command, folder) as base, httpx2.AsyncClient(base_url=base) as web:
        full = sum(tool["tokens"] for tool in (await web.get("/tools")).json()["tools"])
        steps.begin("waiting for its graph and index")
        await indexed(web)
        for words in _WORDS:
            answer = (await web.get("/tools", headers=selection_headers(query=words))).json()
            status, ranked = answer["selection"]["status"], answer["selection"].get("ranked", [])
            saved = 1 - sum(tool["tokens"] for tool in answer["tools"]) / full
            table.add_row(words, status, ", ".join(ranked) or "all", str(len(answer["tools"])), f"{saved:.0%}")
    return table


async def _hostile_caller(steps: Steps, command: str, folder: str) -> NamesTable:
    table = NamesTable("3. A caller that tries to widen what --disabled-tags write,delete left", "tries", "gets")
    steps.begin("starting it with --disabled-tags: a caller that tries to widen that")
    async with _serving(command, folder, "--disabled-tags", "write,delete") as base:
        tries: dict[str, dict[str, list[str]]] = {
            "x-mcp-enabled-tools: all": {"tools": ["all"]},
            "x-mcp-enabled-tools: delete_log,rotate_log": {"tools": ["delete_log", "rotate_log"]},
            "x-mcp-enabled-tags: write,delete": {"tags": ["write", "delete"]},
            "x-mcp-disabled-tags: none": {"disabled_tags": []},
        }
        for label, asked in tries.items():
            async with _http(f"{base}/mcp", **asked) as client:
                names = [tool.name for tool in await _listed(client)]
                gained = sorted({"delete_log", "rotate_log"} & set(names))
                table.add_row(label, f"{len(names)} tools, {', '.join(gained) if gained else 'none that writes'}")
        async with _http(f"{base}/mcp", tools=["all"]) as client:
            for name in ("delete_log", "no_such_tool"):
                answer = await client.call_tool(name, {"path": "app.log"}, raise_on_error=False)
                table.add_row(f"calls {name}", str(getattr(answer.content[0], "text", "")))
        async with httpx2.AsyncClient() as web:
            refused = await web.get(f"{base}/tools?disabled_tag=read")
            table.add_row("GET /tools?disabled_tag=read", f"{refused.status_code}: {refused.json()['error']['hint']}")
    return table


async def _transports(steps: Steps, command: str, folder: str) -> NamesTable:
    table = NamesTable("4. Every transport shows the same", "transport", "protocol", "visible tools", "n")
    wanted = ["tail_log", "count_by_level"]
    steps.begin("starting it over stdio")
    async with _stdio(command, folder, "--tools", ",".join(wanted)) as client:
        _transport_row(table, "stdio", client, await _listed(client))
    steps.begin("starting it over HTTP: both eras, SSE and /tools")
    async with _serving(command, folder) as base:
        async with _http(f"{base}/mcp", tools=wanted) as client:
            _transport_row(table, "streamable HTTP, stateless", client, await _listed(client))
        async with _http(f"{base}/mcp", mode="legacy", tools=wanted) as client:
            _transport_row(table, "streamable HTTP, handshake", client, await _listed(client))
        async with Client(SSETransport(selection_url(f"{base}/sse", tools=wanted))) as client:
            _transport_row(table, "SSE", client, await _listed(client))
        async with httpx2.AsyncClient() as web:
            answer = (await web.get(selection_url(f"{base}/tools", tools=wanted))).json()
            names = [tool["name"] for tool in answer["tools"]]
            table.add_row("GET /tools", "plain JSON", ", ".join(names), str(len(names)))
    return table


def _row(table: NamesTable, who: str, asks: str, tools: list[Any], full: int) -> None:
    cost = _cost(tools)
    names = [tool.name for tool in tools]
    some = ", ".join(names[:_NAMED]) + (f", … {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    table.add_row(who, asks, some, str(len(tools)), str(cost), f"{1 - cost / full:.0%}")


def _transport_row(table: NamesTable, label: str, client: Client[Any], tools: list[Any]) -> None:
    names = ", ".join(tool.name for tool in tools)
    table.add_row(label, str(client.session.protocol_version), names, str(len(tools)))


def _cost(tools: list[Any]) -> int:
    return sum(n_tokens(tool.model_dump(mode="json", by_alias=True, exclude_none=True)) for tool in tools)


async def _listed(client: Client[Any]) -> list[Any]:
    return list(await client.list_tools())


def _environment(folder: str, more: dict[str, str] | None = None) -> dict[str, str]:
    own = {"LOGS_AGENT_ROOTS": folder, "MCP_GRAPH_FOLDER": str(Path(folder).parent)}
    return demo_environment(**own, **(more or {}))


@asynccontextmanager
async def _stdio(command: str, folder: str, *options: str, env: dict[str, str] | None = None) -> AsyncIterator[Any]:
    arguments = ["-t", "stdio", "--log-level", "error", *options]
    said = Path(folder).parent / "stderr.log"
    transport = StdioTransport(command, arguments, env=_environment(folder, env), keep_alive=False, log_file=said)
    async with AsyncExitStack() as stack:
        try:
            client = await stack.enter_async_context(Client(transport))
        except Exception as error:
            told = said.read_text(errors="replace").strip()
            raise DemoError(f"{_AGENT} did not start over stdio: {told or error}") from None
        yield client


@asynccontextmanager
async def _http(url: str, mode: Any = "auto", **asked: Any) -> AsyncIterator[Any]:
    async with Client(StreamableHttpTransport(url, headers=selection_headers(**asked)), mode=mode) as client:
        yield client


def _serving(command: str, folder: str, *options: str) -> AbstractAsyncContextManager[str]:
    return serving(_AGENT, [command, *options], _environment(folder))

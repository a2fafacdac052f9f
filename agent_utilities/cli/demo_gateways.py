"""`agent-utilities demo gateway` and `demo capabilities`: a server that is killed, and bundles that come and go."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
from fastmcp import Client
from mcp_types import PaginatedRequestParams

from agent_utilities.cli.demo_server import START_S, caller, demo_environment, installed, n_and_cost, serving, text_of
from agent_utilities.mcp.command_line.terminal import NamesTable, Steps
from agent_utilities.selection.caller import selection_meta
from agent_utilities.selection.channels import META_KEY

_SERVERS = {"git": "git-agent-mcp", "files": "filesystem-agent-mcp", "logs": "logs-agent-mcp"}
_KILLED = "logs"
_MAIN = [sys.executable, "-c", "from agent_utilities.cli.app import main; main()", "gateway"]
"""The command line of a gateway."""
_CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "git": ("git_git_status", {}),
    "logs": ("logs_count_by_level", {"path": "app.log"}),
}
_CONFIG = Path(__file__).with_name("demo_servers.json")
"""Three agents, whose folder and programs are variables."""
_TAP = Path(__file__).with_name("demo_tap")
"""Three capabilities, each of which brings one toolset of the demo's office."""
_CALL = "billing_create_invoice"
_SAID = (
    "good morning, how are you?",
    "write an invoice for our customer Acme",
    "find a slot for a meeting with Acme next week",
    _CALL,
    "where is the parcel for Acme?",
)


async def killed_server(folder: Path) -> AsyncIterator[NamesTable]:
    """Serve three agents behind one endpoint, kill one, and tell what callers see."""
    (folder / "app.log").write_text("2026-07-28T12:00:01Z ERROR upstream timed out after 3000 ms\n", encoding="utf-8")
    await anyio.run_process(["git", "init", "-q", str(folder)])
    steps = Steps(5)
    title = "5. Three servers behind one endpoint, and one of them is killed"
    table = NamesTable(title, "what happens", "tools", "listed in", *_CALLS)
    steps.begin("starting the gateway for the first time: its servers have never been seen")
    async with _gateway(folder) as (client, pid):
        steps.begin("listing at once, which waits for all three, and a call to two of them")
        await _row(table, "the first start ever", client)
        steps.begin(f"killing the process of {_KILLED!r}, and listing at once")
        victims = [each for each in _upstreams(pid) if _SERVERS[_KILLED] in " ".join(each.cmdline())]
        for victim in victims:
            victim.kill()
        await _row(table, f"{_KILLED!r} is killed: {len(victims)} process", client)
        steps.begin("calling it until it answers again")
        took_s = await _recovery_s(client)
        await _row(table, f"{took_s:.1f} s later: it was started again", client)
    steps.begin("starting the gateway again: its servers are known")
    async with _gateway(folder) as (client, pid):
        await _row(table, f"started again, {len(_upstreams(pid))} of 3 servers running", client)
    yield table


@asynccontextmanager
async def _gateway(folder: Path) -> AsyncIterator[tuple[Client[Any], int]]:
    """Serve the gateway; yield a client of it and its process, as soon as it answers."""
    programs = {f"DEMO_{name.upper()}": installed(program) for name, program in _SERVERS.items()}
    environ = demo_environment(MCP_GATEWAY_FOLDER=str(folder / "gateway"), MCP_GRAPH="off", MCP_RANKER="off")
    environ |= {"DEMO_FOLDER": str(folder), **programs}
    environ["MCP_FIRST_LIST_S"] = str(START_S)  # nobody gives up here, however busy the machine is
    async with (
        serving("the gateway", [*_MAIN, str(_CONFIG)], environ, "/health") as (base, pid),
        caller(base) as client,
    ):
        yield client, pid


async def _row(table: NamesTable, what: str, client: Client[Any]) -> None:
    """Add what a caller sees now: how many tools, how fast, and what two calls give."""
    began = time.perf_counter()
    tools = await client.list_tools()
    took_ms = 1000 * (time.perf_counter() - began)
    answers = []
    for tool, arguments in _CALLS.values():
        result = await client.call_tool(tool, arguments, raise_on_error=False)
        text = " ".join(text_of(result).split())
        short = text if len(text) <= 70 else f"{text[:69]}…"
        answers.append(f"[red]{short}[/]" if result.is_error else f"[green]answers[/] {short}")
    table.add_row(what, str(len(tools)), f"{took_ms:.0f} ms", *answers)


async def _recovery_s(client: Client[Any]) -> float:
    began = time.perf_counter()
    with anyio.fail_after(START_S):
        while True:
            if not (await client.call_tool(*_CALLS[_KILLED], raise_on_error=False)).is_error:
                return time.perf_counter() - began
            await anyio.sleep(0.1)


def _upstreams(pid: int) -> list[psutil.Process]:
    programs = set(_SERVERS.values())
    children = psutil.Process(pid).children(recursive=True)
    return [each for each in children if any(Path(word).name in programs for word in each.cmdline())]


async def three_capabilities(folder: Path) -> AsyncIterator[NamesTable]:
    """Serve three capabilities of which two may be on, and tell of a conversation with them."""
    environ = demo_environment(MCP_GATEWAY_FOLDER=str(folder / "gateway"), MCP_GRAPH="off", DEMO_PYTHON=sys.executable)
    command = [*_MAIN, str(_TAP / "mcp.json"), "--capabilities", str(_TAP), "--max-capabilities", "2"]
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

"""`agent-utilities gateway check`: every upstream reached once, and what is wrong with those that are not."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict, dataclass

from rich.console import Console

from agent_utilities.catalog.tokens import n_tokens
from agent_utilities.cli.progress import Steps
from agent_utilities.mcp.command_line.plain_text import plain
from agent_utilities.mcp.command_line.tables import NamesTable
from agent_utilities.settings_file import settings_of
from agent_utilities.upstream.config import GatewayConfig
from agent_utilities.upstream.errors import Cause
from agent_utilities.upstream.folders import gateway_folder, with_folder
from agent_utilities.upstream.snapshots.snapshot_store import SnapshotStore
from agent_utilities.upstream.supervision.policy import Policy
from agent_utilities.upstream.supervision.reaching import reach
from agent_utilities.upstream.supervision.supervisor import Upstream
from agent_utilities.upstream.supervision.upstreams import Upstreams

_STYLE = {"ready": "green", "idle": "green", "off": "dim", "failing": "red"}
_REMEDIES: dict[Cause, str] = {
    "not found": "install it, or give its whole path as `command`",
    "did not start": "run the command by hand; what it says is in `agent-utilities gateway logs NAME`",
    "did not answer": "give it longer by `startTimeoutSeconds`, or see `agent-utilities gateway logs NAME`",
    "died": "see `agent-utilities gateway logs NAME`",
    "not MCP": "see whether command or URL is an MCP server's",
    "sent too much": "raise `maxMessageBytes` in its config if that much is meant",
    "refused": "log in by `agent-utilities gateway login NAME`, or look at its `headers` and `auth`",
    "unreachable": "see whether it runs, and whether the URL is right",
}


@dataclass(frozen=True)
class Checked:
    """What one upstream did when it was reached.

    Args:
        server, transport: its name in the config, and how it is reached.
        state: as `/ready` tells it.
        tools, tokens: how many tools it listed, and what they cost on every turn.
        start_s: seconds until it had listed everything, or failed.
        wrong: what is wrong; empty where nothing is.
        remedy: what would mend it.
    """

    server: str
    transport: str
    state: str
    tools: int = 0
    tokens: int = 0
    start_s: float = 0.0
    wrong: str = ""
    remedy: str = ""


async def check(config: GatewayConfig, *, as_json: bool) -> int:
    """Reach every upstream, print what each did, and return how many failed.

    What they list is kept, so that the next gateway lists it at once.

    Args:
        config: the upstreams.
        as_json: print one JSON object instead of a table.
    """
    given = settings_of(os.environ).gateway_folder
    upstreams = Upstreams(
        config,
        environ=with_folder(os.environ, given),
        store=SnapshotStore(gateway_folder("snapshots", given)),
        on_change=lambda _: None,
        logs=gateway_folder("logs", given),
        policy=Policy(is_once=True),
    )
    checked: dict[str, Checked] = {}
    with Steps(len(config.upstreams)) as steps:

        async def reach_one(upstream: Upstream) -> None:
            checked[upstream.config.name] = await _reach(upstream)
            steps.begin(f"{upstream.config.name}: {checked[upstream.config.name].state}")

        await reach(upstreams, lambda _: True, reach_one)
    rows = [checked[each.name] for each in config.upstreams]
    n_failed = sum(bool(row.wrong) for row in rows) + len(config.problems)
    if as_json:
        body = {"upstreams": list(map(asdict, rows)), "problems": config.problems, "notices": config.notices}
        json.dump({**body, "files": config.files}, sys.stdout)
        print()
    else:
        _print(rows, config)
    return n_failed


async def _reach(upstream: Upstream) -> Checked:
    config = upstream.config
    if not config.enabled:
        return Checked(config.name, config.transport, "off")
    began = time.perf_counter()
    await upstream.renewed()
    took_s = time.perf_counter() - began
    state, seen = upstream.state, upstream.snapshot
    tools = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in (seen.tools if seen else ())]
    problems = list(seen.problems) if seen is not None else []
    if seen is not None and seen.n_absent:
        problems.append(f"a gateway, which has not reached {seen.n_absent} of its own servers; their tools are missing")
    wrong = f"{state.cause}: {state.detail}" if state.cause else "; ".join(problems)
    remedy = _REMEDIES.get(state.cause, "") if state.cause else ""
    name = remedy.replace("NAME", config.name)
    n = sum(map(n_tokens, tools))
    return Checked(config.name, config.transport, state.name, len(tools), n, round(took_s, 2), wrong, name)


def _print(rows: list[Checked], config: GatewayConfig) -> None:
    console = Console(emoji=False)
    table = NamesTable("", "server", "transport", "state", "tools", "≈ tokens", "seconds")
    for row in rows:
        state = f"[{_STYLE.get(row.state, 'yellow')}]{row.state}[/]"
        table.add_row(plain(row.server), row.transport, state, str(row.tools), str(row.tokens), f"{row.start_s:.1f}")
    console.print(table)
    for row in rows:
        if row.wrong:
            console.print(f"[red]{plain(row.server)}[/]: {plain(row.wrong)}", highlight=False, soft_wrap=True)
        if row.remedy:
            console.print(f"  what would mend it: {plain(row.remedy)}", highlight=False, soft_wrap=True)
    n_tools, n_tokens_in_all = sum(row.tools for row in rows), sum(row.tokens for row in rows)
    n_up = sum(row.state in ("ready", "idle") for row in rows)
    print(f"{n_up} of {len(rows)} servers answered: {n_tools} tools, about {n_tokens_in_all} tokens on every turn")
    for problem in config.problems:
        console.print(f"[red]left out:[/] {plain(problem)}", highlight=False, soft_wrap=True)
    for notice in config.notices:
        console.print(f"[yellow]note:[/] {plain(notice)}", highlight=False, soft_wrap=True)

"""`agent-utilities gateway check`, `login` and `lock`: what looks after the servers of a gateway, one by one."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio
from rich.console import Console

from agent_utilities.catalog.tokens import n_tokens
from agent_utilities.cli.terminal import Steps
from agent_utilities.errors import InputError
from agent_utilities.mcp.command_line.tables import NamesTable, plain
from agent_utilities.selection.model import nearest
from agent_utilities.settings_file import settings_of
from agent_utilities.upstream.config import GatewayConfig, UpstreamConfig
from agent_utilities.upstream.errors import Cause, UpstreamError
from agent_utilities.upstream.folders import gateway_folder, with_folder
from agent_utilities.upstream.operator.lock import (
    Lock,
    accept,
    changes,
    lock_of,
    lock_path,
    named,
    read_lock,
    write_lock,
)
from agent_utilities.upstream.operator.lock_text import change_text, visible
from agent_utilities.upstream.snapshot_store import SnapshotStore
from agent_utilities.upstream.supervision.backoff import Policy
from agent_utilities.upstream.supervision.supervisor import Upstream
from agent_utilities.upstream.supervision.upstreams import Upstreams, reach

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
    """What one upstream did when it was reached: its state as in `/ready`, what is wrong, and what would mend it."""

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
    steps = Steps(len(config.upstreams))

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


def login_at(name: str, config: GatewayConfig) -> None:
    """Have the user log in at an upstream, in a browser, and keep what it gives."""
    from agent_utilities.upstream.http.login import log_in

    upstream = _named(name, config)
    print(f"opening a browser for {name}; waiting until you have logged in", file=sys.stderr)
    try:
        anyio.run(log_in, upstream, settings_of(os.environ).gateway_folder)
    except Exception as error:
        raise UpstreamError(name, "refused", f"the login failed, {_innermost(error)}") from error
    print(f"logged in at {name}")


def _named(name: str, config: GatewayConfig) -> UpstreamConfig:
    if any(upstream.name == name and upstream.transport == "stdio" for upstream in config.upstreams):
        hint = "it is a command on this machine; give it keys by `env` in its entry of the config"
        raise InputError("a stdio server has no login", name, "argument NAME", hint)
    remote = {upstream.name: upstream for upstream in config.upstreams if upstream.transport != "stdio"}
    if name in remote:
        return remote[name]
    near = nearest(name, remote)
    meant = f"did you mean {near!r}? " if near else ""
    there = ", ".join(remote) or "none"
    raise InputError("no server to log in at", name, "argument NAME", f"{meant}there are: {there}")


def _innermost(error: BaseException) -> str:
    """Return what an error says, or the first of a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


async def take_snapshots(config: GatewayConfig, store: SnapshotStore) -> None:
    """See what every upstream lists now, and keep it."""
    steps = Steps(sum(upstream.enabled for upstream in config.upstreams))

    async def reach_one(upstream: Upstream) -> None:
        await upstream.renewed()
        state = upstream.state
        told = f": {state.cause}: {state.detail}" if state.cause else ""
        steps.begin(f"{upstream.config.name}: {state.name}{told}")

    policy = Policy(is_once=True)
    upstreams = Upstreams(config, environ=os.environ, store=store, on_change=lambda _: None, policy=policy)
    await reach(upstreams, reach_one=reach_one)


def lock_gateway(
    config: GatewayConfig, store: SnapshotStore, file: Path, *, accepted: Sequence[str] = (), accept_all: bool = False
) -> int:
    """Write the lock of a config where there is none; else show what has changed, and accept what is named.

    Return the exit code: 1 where changes wait to be accepted.
    """
    path = lock_path(file)
    enabled = [upstream for upstream in config.upstreams if upstream.enabled]
    loaded = {upstream.name: store.load(upstream) for upstream in enabled}
    snapshots = [snapshot for snapshot in loaded.values() if snapshot is not None]
    for name in (name for name, snapshot in loaded.items() if snapshot is None):
        told = f"{visible(name)!r} was never reached: once a lock is there, what it lists is withheld until accepted"
        print(told, file=sys.stderr)
    lock = read_lock(path)
    if lock is None:
        lock = lock_of(snapshots)
        write_lock(path, lock)
        print(f"{path} has {len(lock)} definitions of {len(snapshots)} servers")
        print("what changes or is new from now on is withheld until `gateway lock --accept NAME`", file=sys.stderr)
        return 0
    pending = changes(lock, snapshots)
    if accept_all:
        accepted = [str(change.key) for change in pending]
    taken = [change.key for name in accepted for change in named(name, pending)]
    for change in pending:
        print(change_text(change) + ("\n  accepted" if change.key in taken else ""))
    if taken:
        write_lock(path, accept(lock, accepted, snapshots))
    return _told(lock, path, [change.what for change in pending if change.key not in taken])


def _told(lock: Lock, path: Path, waiting: Sequence[str]) -> int:
    """Say what waits to be accepted; return the exit code."""
    if not waiting:
        print(f"nothing to accept: all is as {path} has it")
        return 0
    n_withheld = sum(what != "removed" for what in waiting)
    print(
        f"{n_withheld} withheld, {len(waiting) - n_withheld} gone; accept with --accept NAME, or --all", file=sys.stderr
    )
    return 1

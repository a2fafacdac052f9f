"""The servers panel: the state, logs and unaccepted definitions of each server behind the gateway; and its actions."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request as HttpRequest

from agent_utilities.gateway.feature import Upstreams
from agent_utilities.gateway.upstreams.operator.lock import Change, diff_lines, sha256_of
from agent_utilities.gateway.upstreams.secrets import secrets_of, without
from agent_utilities.gateway.upstreams.supervision.upstream import Upstream
from agent_utilities.runtime.waiting import in_daemon_thread
from agent_utilities.seam.host import Host, find
from agent_utilities.seam.panel import Action, Form, PageError, Panel, Reader, Table
from agent_utilities.seam.whole_catalog import WholeCatalog

_N_LINES = 20
_COMPARE_S = 0.5
"""Seconds that one look spends on comparing definitions: a server may write some that take long."""
_LOGIN_S = 300.0
_COLUMNS = (
    "name", "state", "cause", "tools", "since_s", "starts", "connection_failures", "calls", "failed_calls",
    "latency_ms", "memory", "cpu_s",
)  # fmt: skip
_UNTOLD = {"since_s": 0.0, "starts": 0, "connection_failures": 0, "calls": 0, "failed_calls": 0}
"""The values that others than operators see in operators' columns; the rest of these are empty."""


async def look(host: Host, reader: Reader, request: HttpRequest) -> dict[str, Any]:
    """Return each server's row: for operators all of it, for others what `/ready` answers a caller like them."""
    feature = _feature(host)
    bounds = host.verdict(host.selection_of(request).granted, shapes_lists=False).bounds
    if reader.operates:
        bounds = host.offered(WholeCatalog)[0].unbounded().bounds
    shown = [{"name": name, "cause": "", "tools": 0, **each} for name, each in feature.told(bounds).items()]
    if reader.operates:
        n_tools = feature.provider.upstreams_of(bounds)
        every = list(feature.upstreams)
        pids = [each.pids for each in every]
        weights = await in_daemon_thread(lambda: list(map(_weight, pids)))
        changes = [feature.changes(each) for each in every]
        compared = iter(await in_daemon_thread(partial(differences, list(chain(*changes)))))
        tail, names = request.state.tail, [each.config.name for each in every]
        called = [(tail.n_calls[name], tail.n_failed[name]) for name in names]
        shown = [
            _shown(feature, each, n_tools.get(name, 0), weight, n, [(one, next(compared)) for one in changed])
            for each, name, weight, n, changed in zip(every, names, weights, called, changes, strict=True)
        ]
    rows = [[each.get(column, _UNTOLD.get(column)) for column in _COLUMNS] for each in shown]
    return {"servers": shown, "tables": {"servers": Table(_COLUMNS, rows)}}


def states(host: Host, reader: Reader, request: HttpRequest) -> list[dict[str, Any]]:
    """Return each server's state in brief, those that fail first; `helps` is the action that may help one."""
    feature = _feature(host)
    if not reader.operates:
        bounds = host.verdict(host.selection_of(request).granted, shapes_lists=False).bounds
        told = [{"name": name, "cause": "", "tools": 0, **each} for name, each in feature.told(bounds).items()]
        return [{**each, "detail": ""} for each in told]
    n_tools = feature.provider.upstreams_of(host.offered(WholeCatalog)[0].unbounded().bounds)
    return [
        {
            "name": each.config.name,
            "state": each.state.name,
            "cause": each.state.cause or "",
            "detail": each.state.detail,
            "tools": n_tools.get(each.config.name, 0),
            "n_pending": len(feature.changes(each)),
            "helps": "login" if _wants_login(each) else "restart",
        }
        for each in feature.upstreams
    ]


def n_waiting(host: Host) -> int:
    """Return how much of the servers needs a person: those that fail, and texts that are not as they were accepted."""
    feature = find(host, Upstreams)
    every = () if feature is None else tuple(feature.upstreams)
    return sum(each.state.name == "failing" for each in every) + sum(
        len(feature.changes(each)) for each in every if feature is not None
    )


def _wants_login(upstream: Upstream) -> bool:
    config = upstream.config
    return config.transport != "stdio" and config.credentials == "gateway" and upstream.state.cause == "refused"


def _shown(
    feature: Upstreams,
    upstream: Upstream,
    n_tools: int,
    weight: tuple[int, float] | None,
    called: tuple[int, int],
    changes: Iterable[tuple[Change, Sequence[str]]],
) -> dict[str, Any]:
    """Return a server's row as operators see it.

    `calls` and `failed_calls` count what callers called since the start, and what of it was answered with an error, as
    the usage log does; `connection_failures` are starts that failed, and connections that ended by themselves. `memory`
    is the bytes of all its processes, `cpu_s` their processor time in seconds. `pending` has its definitions that are
    not as they were accepted: a key, what happened, its hash, and the lines of the difference.
    """
    config, state, counts = upstream.config, upstream.state, upstream.counts
    (memory, cpu_s), (n_calls, n_failed) = weight or (None, None), called
    return {
        "name": config.name,
        "state": state.name,
        "cause": state.cause or "",
        "tools": n_tools,
        "detail": state.detail,
        "place": _place(upstream),
        "since_s": upstream.since_s,
        "starts": counts.n_starts,
        "connection_failures": counts.n_failures,
        "calls": n_calls,
        "failed_calls": n_failed,
        "latency_ms": 1000 * counts.calls_s / counts.n_calls if counts.n_calls else None,
        "memory": memory,
        "cpu_s": cpu_s,
        "is_off": config.name in feature.turned_off,
        "wants_login": _wants_login(upstream),
        "lines": upstream.opener.stderr.last_lines(_N_LINES),
        "pending": [(str(each.key), each.what, _sha256(each), difference) for each, difference in changes],
    }


def _place(upstream: Upstream) -> str:
    """Return a server's command or URL, with its secrets left out."""
    config = upstream.config
    if config.transport == "stdio":
        words = [config.command, *(argument.get_secret_value() for argument in config.args)]
        return without(secrets_of(config), shlex.join(words))
    parts = urlsplit(config.url.get_secret_value())
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}/..."


def _weight(pids: Sequence[int]) -> tuple[int, float] | None:
    """Return the memory and processor time of processes and their descendants; None where none runs."""
    import psutil

    memory, cpu_s, is_any = 0, 0.0, False
    for pid in pids:
        try:
            root = psutil.Process(pid)
            for process in (root, *root.children(recursive=True)):
                with process.oneshot():
                    times = process.cpu_times()
                    memory, cpu_s, is_any = memory + process.memory_info().rss, cpu_s + times.user + times.system, True
        except psutil.Error:  # it has just ended
            continue
    return (memory, round(cpu_s, 2)) if is_any else None


def _sha256(change: Change) -> str:
    return sha256_of(change.after) if change.after is not None else ""


def differences(changes: Iterable[Change]) -> list[list[str]]:
    """Return how each definition differs from the accepted one; past the deadline they are not compared."""
    until_s = time.monotonic() + _COMPARE_S
    return [diff_lines(change, compares=time.monotonic() < until_s) for change in changes]


# -- what an operator does ---------------------------------------------------------------------------------------------


def _feature(host: Host) -> Upstreams:
    feature = find(host, Upstreams)
    if feature is None:
        raise PageError("there are no servers behind this one")
    return feature


def _named(host: Host, form: Form) -> Upstream:
    name = form.get("server", "")
    if (upstream := _feature(host).upstreams.get(name)) is None:
        raise PageError(f"no server named {name!r}")
    return upstream


def _state(upstream: Upstream) -> str:
    state = upstream.state
    return f"{upstream.config.name} is {state.name}" + (f": {state.cause}, {state.detail}" if state.cause else "")


async def _restart(host: Host, reader: Reader, form: Form) -> str:
    upstream = _named(host, form)
    await upstream.end()
    upstream.retry()
    await upstream.connect()
    return f"restarted; {_state(upstream)}"


async def _stop(host: Host, reader: Reader, form: Form) -> str:
    upstream = _named(host, form)
    await upstream.end()
    return f"stopped; {_state(upstream)}, and started by the next call"


async def _start(host: Host, reader: Reader, form: Form) -> str:
    name = _named(host, form).config.name
    await _feature(host).turn(name, on=True)
    upstream = _named(host, form)
    upstream.retry()
    await upstream.connect()
    return f"started; {_state(upstream)}"


async def _disable(host: Host, reader: Reader, form: Form) -> str:
    name = _named(host, form).config.name
    await _feature(host).turn(name, on=False)
    return f"{name} is off for everybody, until it is started here or the gateway starts anew"


async def _list_anew(host: Host, reader: Reader, form: Form) -> str:
    upstream = _named(host, form)
    await upstream.renewed()
    n_tools = len(upstream.snapshot.tools) if upstream.snapshot is not None else 0
    return f"listed anew: {n_tools} tools; {_state(upstream)}"


async def _log_in(host: Host, reader: Reader, form: Form) -> str:
    """Log in as `gateway login` does, in a browser on the gateway's machine."""
    upstream = _named(host, form)
    name, folder = upstream.config.name, host.operator.settings.gateway_folder
    if reader.caller.token:
        raise PageError(f"run where the gateway runs: agent-utilities gateway login {shlex.quote(name)}")
    from agent_utilities.gateway.upstreams.http.login import log_in

    try:
        async with asyncio.timeout(_LOGIN_S):
            await log_in(upstream.config, folder)
    except Exception as error:
        raise PageError(f"the login at {name} failed: {error or type(error).__name__}") from None
    upstream.retry()
    await upstream.connect()
    return f"logged in; {_state(upstream)}"


async def _accept(host: Host, reader: Reader, form: Form) -> str:
    feature, upstream = _feature(host), _named(host, form)
    wanted = form.get("key", ""), form.get("sha256", "")
    change = next((each for each in feature.changes(upstream) if (str(each.key), _sha256(each)) == wanted), None)
    if change is None:
        raise PageError(f"{wanted[0]} is not as it was shown any more: look again before you accept it")
    await feature.accept(change)
    return f"accepted: {wanted[0]}, {change.what}"


def _asking(question: str, do: Callable[[Host, Reader, Form], Awaitable[str]]) -> Action:
    def ask(host: Host, form: Form) -> str:
        return question.format(_named(host, form).config.name, form.get("key", ""))

    return Action(ask, do)


PANEL = Panel(
    "servers",
    "Servers",
    look,
    {
        "restart": _asking("End the processes of {} and start it again? Calls under way get ten seconds.", _restart),
        "stop": _asking("Stop {}? The next call starts it again.", _stop),
        "start": _asking("Start {}?", _start),
        "disable": _asking("Take {} away from everybody, until it is started here or the gateway restarts?", _disable),
        "relist": _asking("Ask {} anew what it has?", _list_anew),
        "login": _asking("Log the gateway in at {}? A browser opens where the gateway runs.", _log_in),
        "accept": _asking("Accept {1} as it is shown? Models will read it.", _accept),
    },
    is_there=lambda host: find(host, Upstreams) is not None,
)

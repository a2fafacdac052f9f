"""The panels prompt, usage, calls and sessions: what tools cost in the prompt, what was called, what never is."""

from __future__ import annotations

import json
import shlex
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import astuple, replace
from functools import partial
from typing import Any

from starlette.requests import Request as HttpRequest

from agent_utilities.catalog.context import (
    ACTIVE,
    ATTACHED,
    DEFERRED,
    ENTRY_TOOLS,
    INSTRUCTIONS,
    LISTED,
    MANY_TOKENS,
    PINS,
    SECTIONS,
)
from agent_utilities.context.feature import ContextReport
from agent_utilities.page.surface import Row, request_of, rows_of
from agent_utilities.runtime.waiting import in_daemon_thread
from agent_utilities.seam.host import Host, find
from agent_utilities.seam.panel import PageError, Panel, Reader, Table
from agent_utilities.seam.request import Request
from agent_utilities.search.active_set import kept
from agent_utilities.selection.model import Channel, NameSet, fold
from agent_utilities.usage.feature import NOT_USED, Usage
from agent_utilities.usage.model import DAY_MS, EVERYBODY, NOBODY, UsageError
from agent_utilities.usage.report import UsageReport, read_days, read_report, read_results

_MARKS = {
    ENTRY_TOOLS: "M0 8 8 0",
    PINS: "M1 2h3M5 6h3",
    ATTACHED: "M0 4h8",
    ACTIVE: "M0 0 8 8",
    LISTED: "M4 0v8",
    INSTRUCTIONS: "M0 4h8M4 0v8",
    DEFERRED: "",
}
"""What is drawn over the colour of each section, within 8 by 8: who sees no colours tells them apart by it."""


async def look_at_prompt(host: Host, reader: Reader, request: HttpRequest) -> dict[str, Any]:
    """Return the context report of the reader's selection, what it costs a day, and what results cost beside it.

    Raises:
        PageError: the price or the number of turns can't be read.
    """
    feature = find(host, ContextReport)
    if feature is None:
        raise PageError("this server has no context report: its author left the feature out")
    asked = await request_of(host, reader, request)
    report, _, _, _ = await feature.of(asked)
    is_whole = not request.query_params.get("part")  # what one types changes nothing of results
    logged = await _results(host, reader, asked) if is_whole else UsageReport({})
    by_server: dict[str, dict[str, int]] = defaultdict(dict)
    for row in report.rows:
        by_server[row.server][row.section] = row.tokens
    in_prompt = {name: sum(n for section, n in each.items() if section != DEFERRED) for name, each in by_server.items()}
    servers = sorted(by_server, key=lambda name: (-sum(by_server[name].values()), name))
    price, turns = (_number(request, name, default) for name, default in (("price", 3.0), ("turns", 1000.0)))
    return {
        "report": report,
        "sections": SECTIONS,
        "marks": _MARKS,
        "servers": [(name, in_prompt[name], by_server[name]) for name in servers],
        "widest": max(report.total, report.undeferred_tokens, MANY_TOKENS),
        "budget": MANY_TOKENS,
        "price": price,
        "turns": turns,
        "money": [n * turns * price / 1e6 for n in (report.total, report.undeferred_tokens)],
        "logged": logged,
        "tables": {
            "prompt": Table(
                ("section", "server", "tools", "tokens"),
                [(row.section, row.server, row.n_tools, row.tokens) for row in report.rows],
            ),
            "results": Table(
                ("server", "tool", "calls", "tokens", "given"),
                [(each.upstream or each.server, *astuple(each)[2:6]) for each in logged.results],
            ),
        },
    }


async def _results(host: Host, reader: Reader, asked: Request) -> UsageReport:
    """Return what results cost in 30 days; others than operators see their own, of permitted tools, and no share."""
    report, feature = UsageReport({}), find(host, Usage)
    if feature is not None and feature.mode != "off":
        of: dict[str, Any] = {"server": host.name, "days": 30, "subject": whose(feature, reader)}
        with suppress(UsageError):  # the panel of usage says why
            report = await in_daemon_thread(partial(read_results, feature.path, int(time.time() * 1000), **of))
    if reader.operates or not report.results:
        return report if reader.operates else UsageReport({})
    permitted = {row.name for row in await rows_of(host, reader, asked) if row.verdict != "denied"}
    own = [replace(row, share=0.0, projection="") for row in report.results if row.tool in permitted]
    return UsageReport({}, results=tuple(own))


def whose(feature: Usage, reader: Reader) -> str | None:
    """Return the subject whose calls a reader may see; None for everybody's."""
    own = feature.subject()
    return None if reader.operates else own if own not in (EVERYBODY, NOBODY) else NONE


def _number(request: HttpRequest, name: str, default: float) -> float:
    text = request.query_params.get(name, "").strip()
    try:
        number = float(text or default)
        if not 0 <= number <= 1e9:
            raise ValueError
    except ValueError:
        raise PageError(f"{name} can't be read: {text!r}; write a number from 0 up, such as {default:g}") from None
    return number


PROMPT = Panel("prompt", "Prompt", look_at_prompt)


_MOST_DAYS = 365
NONE = "?"
"""A subject that no call has."""
_COLUMNS = ("server", "tool", "calls", "failed", "p50_ms", "p95_ms")
_IDLE = ("server", "tool", "lists", "tokens")


async def look_at_usage(host: Host, reader: Reader, request: HttpRequest) -> dict[str, Any]:
    """Return a reader's own calls from the usage log; for an operator everybody's, and the tools that nobody called.

    Where usage is counted for all together (`MCP_USAGE_SCOPE`), one reader's calls can't be told apart.

    Raises:
        PageError: the number of days can't be read.
        UsageError: the log can't be read.
    """
    days, feature = _days(request.query_params.get("days", "")), find(host, Usage)
    if feature is None or feature.mode == "off":
        return {"mode": "off", "days": days, "tables": {}}
    now_ms, subject = int(time.time() * 1000), whose(feature, reader)
    of: dict[str, Any] = {"server": host.name, "days": days, "subject": subject}
    report = await in_daemon_thread(partial(read_report, feature.path, now_ms, **of))
    by_day = await in_daemon_thread(partial(read_days, feature.path, now_ms, **of))
    known = await rows_of(host, reader, await request_of(host, reader, request))
    permitted = {row.name for row in known if row.verdict != "denied"}
    tools = [row for row in report.tools if reader.operates or row.tool in permitted]
    by_day = [row for row in by_day if reader.operates or row[2] in permitted]
    uncalled = {row.tool: row for row in report.uncalled if reader.operates}
    idle = [row for row in known if row.verdict == "visible" and row.name in uncalled]
    idle.sort(key=lambda row: -row.tokens)
    names = _deniable(idle, known)
    calls = [(row.upstream or row.server, row.tool, row.n_calls, row.n_errors, row.p50_ms, row.p95_ms) for row in tools]
    never = [(row.server, row.name, uncalled[row.name].n_lists, row.tokens) for row in idle]
    series = partial(_series, first=now_ms // DAY_MS - days + 1, days=days)
    return {
        "in_all": series([(day, "", n) for day, _, _, n in by_day]).get("", []),
        "by_server": series([(day, upstream or host.name, n) for day, upstream, _, n in by_day]),
        "by_tool": series([(day, tool, n) for day, _, tool, n in by_day]),
        "mode": feature.mode,
        "days": days,
        "n_calls": sum(row.n_calls for row in tools),
        "n_errors": sum(row.n_errors for row in tools),
        "tools": tools,
        "servers": report.servers if reader.operates else [],
        "idle": [(row, uncalled[row.name].n_lists) for row in idle],
        "idle_tokens": sum(row.tokens for row in idle),
        "n_ended": len(names),
        "ends": _ends(host, names) if names else (),
        "is_known": subject != NONE,
        "searches": (report.n_searches, report.n_empty_searches) if reader.operates else None,
        "empty_searches": report.empty_searches if reader.operates else [],
        "tables": {"calls": Table(_COLUMNS, calls), "never called": Table(_IDLE, never)},
    }


def _deniable(idle: Sequence[Row], known: Sequence[Row]) -> list[str]:
    """Return the names that deny one tool alone: they are no pattern, and no other tool's name or tag."""
    used = Counter(fold(text) for row in known for text in {row.name, row.server, *row.tags})
    used.update(("all", "none"))
    names = [row.name for row in idle if used[fold(row.name)] == 1]
    return [name for name in names if name.isprintable() and name == name.strip() and not {",", "*"} & set(name)]


def _ends(host: Host, names: Sequence[str]) -> tuple[str, str]:
    """Return the lines of a settings file and of a shell that deny tools, beside what is denied there already.

    Such a line replaces the one that is there: without its denies it would permit them again.
    """

    def with_denied(channel: Channel) -> list[str]:
        setting = host.operator.selection.get("deny_tools", channel)
        denied = setting.value.spelled() if setting is not None and isinstance(setting.value, NameSet) else ()
        return [*(name for name in denied if name != "none"), *names]

    in_file = json.dumps(with_denied("file"), ensure_ascii=False)
    return f"disabled_tools = {in_file}", f"MCP_DISABLED_TOOLS={shlex.quote(','.join(with_denied('env')))}"


def _series(rows: list[tuple[int, str, int]], first: int, days: int) -> dict[str, list[int]]:
    """Return the number of calls on each day by name, the oldest day first."""
    counted: dict[str, Counter[int]] = {}
    for day, name, n in rows:
        counted.setdefault(name, Counter())[day - first] += n
    return {name: [by_day[day] for day in range(days)] for name, by_day in counted.items()}


def _days(text: str) -> int:
    try:
        days = int(text.strip() or 30)
        if not 1 <= days <= _MOST_DAYS:
            raise ValueError
    except ValueError:
        raise PageError(f"days can't be read: {text[:100]!r}; write a number from 1 to {_MOST_DAYS}") from None
    return days


USAGE = Panel("usage", "Usage", look_at_usage)


_OF_CALLS = (
    "at", "caller", "tool", "server", "ok", "ms", "waited_ms", "upstream_ms", "result_tokens", "given_tokens", "words",
    "turn", "visible", "permitted", "revision", "trace", "told",
)  # fmt: skip


_N_SHOWN = 30
"""The calls that are shown at first; more are a press away."""


async def look_at_calls(host: Host, reader: Reader, request: HttpRequest) -> dict[str, Any]:
    """Return the calls that a reader may know of, the last one first."""
    seen = request.state.tail.seen_by(reader, request)[::-1]
    wanted = {name: request.query_params.get(name, "") for name in ("server", "called", "caller", "failed")}
    rows = [[getattr(each, column) for column in _OF_CALLS] for each in seen]
    return {
        "seen": seen,
        "shown": seen if request.query_params.get("all") else seen[:_N_SHOWN],
        "last": max((each.n for each in seen), default=0),
        "wanted": wanted,
        "tables": {"calls": Table(_OF_CALLS, rows)},
    }


CALLS = Panel("calls", "Calls", look_at_calls)


_OF_SESSIONS = ("session", "whose", "active", "evicted", "capabilities", "turns", "called")


async def look_at_sessions(host: Host, reader: Reader, request: HttpRequest) -> dict[str, Any]:
    """Return the live sessions of the handshake era: all for an operator, their own for others.

    Others than operators see only those of its tools that are permitted to them now.
    Each session has a random name here, which gives no access to it.
    """
    rows, known = [], await rows_of(host, reader, await request_of(host, reader, request))
    permitted = {row.name for row in known if row.verdict != "denied"}

    def may_know(names: Iterable[str]) -> list[str]:
        return [name for name in names if reader.operates or name in permitted]

    for session, caller in host.live_sessions():
        person = caller.person if caller is not None else ("", "")
        if not reader.operates and (not all(person) or person != reader.caller.person):
            continue
        search, use = kept(session), session.get(Usage.name, NOT_USED)
        capabilities = getattr(session.get("capabilities", None), "active", ())
        whose = f"{person[1]} ({person[0]})" if person[1] else ""
        active, called = may_know(search.active.names), may_know(use.called)
        rows.append((session.id, whose, active, search.n_evicted, list(capabilities), use.n_turns, called))
    return {"rows": rows, "tables": {"sessions": Table(_OF_SESSIONS, rows)}}


SESSIONS = Panel("sessions", "Sessions", look_at_sessions)

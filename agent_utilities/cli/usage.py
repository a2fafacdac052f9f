"""`agent-utilities usage`: print a report of the usage logs, and delete from them."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, astuple
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agent_utilities.errors import InputError
from agent_utilities.server.command_line.terminal import AsJson, NamesTable, bar, counted, plain, sparkline, terminal
from agent_utilities.settings_file import settings_of
from agent_utilities.usage.database import Forget, Forgotten, count, delete_files
from agent_utilities.usage.database import forget as forget_in_log
from agent_utilities.usage.model import DAY_MS, UsageError, usage_file
from agent_utilities.usage.report import CallRow, ResultRow, UncalledTool, UsageReport, merged, read_report

app = typer.Typer(add_completion=False, invoke_without_command=True)

_ROWS = 15
"""Rows of a table; `--json` has all."""
_SETTINGS = 3
"""The most tools for whose results a setting is printed."""
_BAR = 12
"""Columns of the longest bar; a table leaves bars out where others need their room."""
_EPOCH = date(1970, 1, 1)


@app.callback()
def usage(
    context: typer.Context,
    file: Path | None = None,
    server: str | None = None,
    days: Annotated[int, typer.Option(min=1, max=3650)] = 30,
    as_json: AsJson = False,
) -> None:
    """Show what was called, what results cost, what was never called, and searches without a match.

    Args:
        file: The log, an SQLite file; MCP_USAGE_FILE, or all in your state folder, where none is named.
        server: Show this server or gateway alone.
        days: How many days back, with today.
    """
    if context.invoked_subcommand is not None:
        return
    now_ms = int(time.time() * 1000)
    paths = _logs(file)
    reports: list[UsageReport] = []
    for path in paths:
        try:
            reports.append(read_report(path, now_ms, server=server, days=days))
        except UsageError as error:  # which keeps no other log from being shown
            if path == paths[-1] and not reports:
                raise
            print(f"error: {error}", file=sys.stderr)
    report, console = merged(reports), terminal()
    if as_json:
        print(json.dumps({"files": [str(path) for path in paths], "days": days, **asdict(report)}))
    elif report != UsageReport({}):
        _print_report(report, now_ms // DAY_MS, days, console)
    elif paths:
        of = f" of {server!r}" if server is not None else ""
        where = str(paths[0]) if len(paths) == 1 else f"{len(paths)} logs in {paths[0].parent}"
        console.print(plain(f"nothing{of} was logged in the last {counted(days, 'day')}: {where}"), soft_wrap=True)
    else:
        text = f"nothing was logged yet in {_folder()}: gateways log by themselves, servers with MCP_USAGE=counts"
        console.print(plain(text), soft_wrap=True)


def _print_report(report: UsageReport, today: int, days: int, console: Console) -> None:
    """Print a report; `today` is counted in days from the epoch."""
    n_calls = sum(row.n_calls for row in report.servers)
    n_errors = sum(row.n_errors for row in report.servers)
    console.print(f"last {counted(days, 'day')}: {counted(n_calls, 'call')}, {_share(n_errors, n_calls)} failed")
    _print_days(report.calls_by_day, today, days, console)
    _print_calls("server", report.servers, console)
    _print_calls("tool", report.tools, console)
    _print_results(report, console)
    if report.uncalled:
        most = max(row.n_tokens for row in report.uncalled)
        table = NamesTable("listed and never called", "tool", "server", "lists", "tokens", "", n_names=2)
        for row in report.uncalled[:_ROWS]:
            chart = _chart(row.n_tokens, most, "yellow", console)
            table.add_row(plain(row.tool), _server(row), f"{row.n_lists:,}", f"{row.n_tokens:,}", chart)
        _print(table, len(report.uncalled), console)
        n_tokens, tools = sum(row.n_tokens for row in report.uncalled), counted(len(report.uncalled), "tool")
        of_all = f"{n_tokens:,} of the {report.n_listed_tokens:,} tokens of all lists"
        console.print(f"{tools} that nobody called took {of_all}")
    if report.n_searches:
        n_empty = report.n_empty_searches
        outcome = f"{_share(n_empty, report.n_searches)} found nothing" if n_empty else "each found something"
        console.print(f"\n{counted(report.n_searches, 'search', 'searches')}, {outcome}")
        table = NamesTable("found nothing", "request", "server", "times", n_names=0)
        for search in report.empty_searches[:_ROWS]:
            table.add_row(plain(search.request), plain(search.server), f"{search.n:,}")
        _print(table, len(report.empty_searches), console)


def _print_days(calls_by_day: dict[int, int], today: int, days: int, console: Console) -> None:
    first = max(today - days + 1, min(calls_by_day, default=today))
    counts = [calls_by_day.get(day, 0) for day in range(first, today + 1)]
    if not any(counts) or first == today:
        return  # one column tells nothing
    line = sparkline(counts, console.width - 2, in_ascii=console.options.ascii_only)
    console.print(f"|{line}|", style="green", markup=False, no_wrap=True)
    since, until = (_EPOCH + timedelta(days=day) for day in (first, today))
    console.print(f"calls a day, {since} to {until} UTC; at most {max(counts):,}", style="dim")


def _print_calls(by: str, rows: Sequence[CallRow], console: Console) -> None:
    names = ["tool", "server"] if by == "tool" else ["server"]
    most = max((row.n_calls for row in rows), default=0)
    table = NamesTable(f"calls by {by}", *names, "calls", "", "failed", "p50 ms", "p95 ms", n_names=len(names))
    for row in rows[:_ROWS]:
        named = (plain(row.tool), _server(row))[-len(names) :]
        failed = f"[red]{row.n_errors:,}[/]" if row.n_errors else "0"
        chart = _chart(row.n_calls, most, "green", console)
        table.add_row(*named, f"{row.n_calls:,}", chart, failed, _ms(row.p50_ms), _ms(row.p95_ms))
    _print(table, len(rows), console)


def _print_results(report: UsageReport, console: Console) -> None:
    rows = report.results
    most = max((row.n_given for row in rows), default=0)
    table = NamesTable("tokens of results", "tool", "server", "calls", "whole", "given", "of all", "", n_names=2)
    for row in rows[:_ROWS]:
        n_calls, n_tokens, n_given = (f"{n:,}" for n in (row.n_calls, row.n_tokens, row.n_given))
        chart = _chart(row.n_given, most, "yellow", console)
        table.add_row(plain(row.tool), _server(row), n_calls, n_tokens, n_given, f"{100 * row.share:.1f} %", chart)
    _print(table, len(rows), console)
    if rows:
        console.print(f"results took {report.n_given_tokens:,} tokens, and lists {report.n_listed_tokens:,}")
    for row in [row for row in rows if row.setting][:_SETTINGS]:
        what = f"{100 * row.share:.1f} % of what you pay is {row.tool}: this line would take"
        why = f"{100 * row.saved:.0f} % of a whole result away; callers read on so {row.n_reads:,} times"
        for text in ("", f"{what} {why}", *row.setting.split("\n")):
            console.print(plain(text), soft_wrap=True)


def _print(table: NamesTable, n_rows: int, console: Console) -> None:
    if n_rows:
        console.print()
        console.print(table)
    if n_rows > _ROWS:
        console.print(f"… and {n_rows - _ROWS:,} more, which --json has", style="dim")


def _chart(value: int, most: int, style: str, console: Console) -> str:
    return f"[{style}]{bar(value, most, _BAR, in_ascii=console.options.ascii_only)}[/]"


def _server(row: CallRow | ResultRow | UncalledTool) -> str:
    return plain(f"{row.server}/{row.upstream}" if row.upstream else row.server)


def _share(n: int, of: int) -> str:
    return f"{n:,} ({100 * n / of:.1f} %)" if n else "0"


def _ms(ms: float) -> str:
    return f"{ms:,.0f}" if ms >= 10 else f"{ms:.1f}"


@app.command()
def forget(
    file: Path | None = None,
    server: str | None = None,
    tool: str | None = None,
    before: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], metavar="DATE")] = None,
    older_than: Annotated[int | None, typer.Option(min=0, max=36_500, metavar="DAYS")] = None,
    words: bool = False,
    everything: Annotated[bool, typer.Option("--all")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y")] = False,
) -> None:
    """Delete from the log, down to its bytes; servers may go on writing it. Options narrow each other.

    Args:
        file: The log, an SQLite file; MCP_USAGE_FILE, or all in your state folder, where none is named.
        server: Forget this server or gateway alone.
        tool: Forget this tool alone.
        before: Forget what is older, such as 2026-01-31, in UTC.
        older_than: Forget what is older than so many days.
        words: Forget requests alone: calls stay without them.
        everything: Forget everything; a log that is damaged is deleted.
        yes: Do not ask.
    """
    option = "options of usage forget"
    is_narrowed = words or any(value is not None for value in (server, tool, before, older_than))
    if everything and is_narrowed:
        raise InputError("--all beside what narrows it", "--all", option, "leave one of them out")
    if before is not None and older_than is not None:
        raise InputError("--before beside --older-than", str(before.date()), option, "leave one of them out")
    if not (everything or is_narrowed):
        raise InputError("nothing to forget is named", "", option, "name a --server, --tool or time, --words, or --all")
    before_ms = None
    if before is not None:
        before_ms = int(before.replace(tzinfo=UTC).timestamp() * 1000)
    elif older_than is not None:
        before_ms = int(time.time() * 1000) - older_than * DAY_MS
    _forget(_logs(file), Forget(server, tool, before_ms, words), or_delete=everything, yes=yes)


def _forget(paths: Sequence[Path], what: Forget, *, or_delete: bool, yes: bool) -> None:
    """Delete from logs, once the user has confirmed, and print what was deleted."""
    meant = {path: _meant(path, what, or_delete=or_delete) for path in paths}
    damaged = [path for path, text in meant.items() if text is None]
    described = {path: text for path, text in meant.items() if text}
    if not described and not damaged:
        print("nothing to forget")
        return
    if not yes:
        texts = [f"{text} in {path}" for path, text in described.items()]
        whole = " and ".join([*texts, *(f"all of {path}, which is damaged" for path in damaged)])
        if not sys.stdin.isatty():
            hint = "say --yes, or run it on a terminal"
            raise InputError(f"would forget {whole}", "", "options of usage forget", hint)
        typer.confirm(f"forget {whole}?", abort=True)
    console = terminal()
    for path in described:
        forgotten = forget_in_log(path, what)
        console.print(plain(f"{path}: forgot {_described(forgotten, what)}"), soft_wrap=True)
        if not forgotten.is_clean:
            print("a program was reading it, so bytes of it may stay in the file: run it again", file=sys.stderr)
    for path in damaged:
        delete_files(path)
        console.print(plain(f"{path}: deleted, for it was damaged"), soft_wrap=True)


def _meant(path: Path, what: Forget, *, or_delete: bool) -> str | None:
    """Return a description of what would be deleted from a log; None for a damaged one that may be deleted whole."""
    try:
        counts = count(path, what)
    except UsageError as error:
        if or_delete and error.cause == "corrupt":
            return None
        raise
    return _described(counts, what) if any(astuple(counts)[:-1]) else ""


def _described(counts: Forgotten, what: Forget) -> str:
    calls, searches = counted(counts.n_calls, "call"), counted(counts.n_searches, "search", "searches")
    if what.words:
        return f"the words of {calls} and {searches}"
    reads = f", {counted(counts.n_reads, 'day')} of a tool's reads" if counts.n_reads else ""
    return f"{calls}, {searches}{reads} and {counted(counts.n_lists, 'day')} of a tool's lists"


def _logs(file: Path | None) -> list[Path]:
    setting = settings_of(os.environ).usage_file
    if file is None and not setting:
        return sorted(_folder().glob("*.db"))
    path = file if file is not None else usage_file("", setting)
    if path.exists():
        return [path]
    if file is None:
        return []
    raise InputError("no such file", str(path), "option --file", f"name one of {_folder()}, or none for all of them")


def _folder() -> Path:
    return usage_file("").parent

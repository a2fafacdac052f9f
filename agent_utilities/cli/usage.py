"""`agent-utilities usage`: what logs of usage tell, on a terminal, and deleting from them."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import typer
from rich.console import Console

from agent_utilities.cli.terminal import bar, sparkline
from agent_utilities.errors import InputError
from agent_utilities.mcp.command_line.tables import NamesTable, plain
from agent_utilities.settings_file import settings_of
from agent_utilities.usage.errors import UsageError
from agent_utilities.usage.forgetting import Forget, Forgotten, count, delete_files, forget
from agent_utilities.usage.model import DAY_MS, usage_file
from agent_utilities.usage.report import CallRow, UncalledTool, UsageReport, merged, read_report

_ROWS = 15
"""Rows of a table; `--json` has all."""
_BAR = 12
"""Columns of the longest bar; a table leaves bars out where others need their room."""
_EPOCH = date(1970, 1, 1)

_T = TypeVar("_T")


def print_report(report: UsageReport, today: int, days: int, console: Console) -> None:
    """Print a report; `today` is counted in days from the epoch."""
    n_calls = sum(row.n_calls for row in report.servers)
    n_errors = sum(row.n_errors for row in report.servers)
    console.print(f"last {counted(days, 'day')}: {counted(n_calls, 'call')}, {_share(n_errors, n_calls)} failed")
    _print_days(report.calls_by_day, today, days, console)
    _print_calls("calls by server", ["server"], report.servers, console)
    _print_calls("calls by tool", ["tool", "server"], report.tools, console)
    _print_uncalled(report, console)
    _print_searches(report, console)


def _print_days(calls_by_day: dict[int, int], today: int, days: int, console: Console) -> None:
    first = max(today - days + 1, min(calls_by_day, default=today))
    counts = [calls_by_day.get(day, 0) for day in range(first, today + 1)]
    if not any(counts) or first == today:
        return  # one column tells nothing
    line = sparkline(counts, console.width - 2, in_ascii=console.options.ascii_only)
    console.print(f"|{line}|", style="green", markup=False, no_wrap=True)
    since, until = (_EPOCH + timedelta(days=day) for day in (first, today))
    console.print(f"calls a day, {since} to {until} UTC; at most {max(counts):,}", style="dim")


def _print_calls(title: str, names: Sequence[str], rows: Sequence[CallRow], console: Console) -> None:
    most = max((row.n_calls for row in rows), default=0)

    def cells(row: CallRow) -> Sequence[str]:
        named = (plain(row.tool), _server(row))[-len(names) :]
        failed = f"[red]{row.n_errors:,}[/]" if row.n_errors else "0"
        chart = _chart(row.n_calls, most, "green", console)
        return *named, f"{row.n_calls:,}", chart, failed, _ms(row.p50_ms), _ms(row.p95_ms)

    table = NamesTable(title, *names, "calls", "", "failed", "p50 ms", "p95 ms", n_names=len(names))
    _print(table, rows, cells, console)


def _print_uncalled(report: UsageReport, console: Console) -> None:
    if not report.uncalled:
        return
    most = max(row.n_tokens for row in report.uncalled)

    def cells(row: UncalledTool) -> Sequence[str]:
        chart = _chart(row.n_tokens, most, "yellow", console)
        return plain(row.tool), _server(row), f"{row.n_lists:,}", f"{row.n_tokens:,}", chart

    table = NamesTable("listed and never called", "tool", "server", "lists", "tokens", "", n_names=2)
    _print(table, report.uncalled, cells, console)
    n_tokens = sum(row.n_tokens for row in report.uncalled)
    tools = counted(len(report.uncalled), "tool")
    console.print(f"{tools} that nobody called took {n_tokens:,} of the {report.n_listed_tokens:,} tokens of all lists")


def _print_searches(report: UsageReport, console: Console) -> None:
    if not report.n_searches:
        return
    n_empty = report.n_empty_searches
    outcome = f"{_share(n_empty, report.n_searches)} found nothing" if n_empty else "each found something"
    console.print(f"\n{counted(report.n_searches, 'search', 'searches')}, {outcome}")
    table = NamesTable("found nothing", "request", "server", "times", n_names=0)
    _print(table, report.empty_searches, lambda row: (plain(row.request), plain(row.server), f"{row.n:,}"), console)


def _print(table: NamesTable, rows: Sequence[_T], cells: Callable[[_T], Sequence[str]], console: Console) -> None:
    if not rows:
        return
    for row in rows[:_ROWS]:
        table.add_row(*cells(row))
    console.print()
    console.print(table)
    if len(rows) > _ROWS:
        console.print(f"… and {len(rows) - _ROWS:,} more, which --json has", style="dim")


def _chart(value: int, most: int, style: str, console: Console) -> str:
    return f"[{style}]{bar(value, most, _BAR, in_ascii=console.options.ascii_only)}[/]"


def _server(row: CallRow | UncalledTool) -> str:
    return plain(f"{row.server}/{row.upstream}" if row.upstream else row.server)


def counted(n: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 call`, `2,000 calls`."""
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"


def _share(n: int, of: int) -> str:
    return f"{n:,} ({100 * n / of:.1f} %)" if n else "0"


def _ms(ms: float) -> str:
    return f"{ms:,.0f}" if ms >= 10 else f"{ms:.1f}"


def show_usage(file: Path | None, *, server: str | None, days: int, as_json: bool) -> None:
    """Print what logs tell; one that can't be read is named on stderr where there are others."""
    now_ms = int(time.time() * 1000)
    paths = _logs(file)
    reports: list[UsageReport] = []
    for path in paths:
        try:
            reports.append(read_report(path, now_ms, server=server, days=days))
        except UsageError as error:
            if path == paths[-1] and not reports:
                raise
            print(f"error: {error}", file=sys.stderr)
    report = merged(reports)
    if as_json:
        json.dump({"files": [str(path) for path in paths], "days": days, **report.as_dict()}, sys.stdout)
        print()
        return
    console = Console(emoji=False, highlight=False)
    if report == UsageReport({}):
        _print_nothing(console, paths, server, days)
    else:
        print_report(report, now_ms // DAY_MS, days, console)


def _print_nothing(console: Console, paths: list[Path], server: str | None, days: int) -> None:
    if paths:
        of = f" of {server!r}" if server is not None else ""
        where = str(paths[0]) if len(paths) == 1 else f"{len(paths)} logs in {paths[0].parent}"
        text = f"nothing{of} was logged in the last {counted(days, 'day')}: {where}"
    else:
        text = f"nothing was logged yet in {_folder()}: gateways log by themselves, servers with MCP_USAGE=counts"
    console.print(plain(text), soft_wrap=True)


def forget_usage(file: Path | None, what: Forget, everything: bool, *, yes: bool) -> None:
    """Delete from logs what is asked for, once the user has agreed, and say what it was."""
    paths = _logs(file)
    meant = {path: found for path in paths if (found := _count(path, what, or_delete=everything)) is not None}
    damaged = [path for path in paths if path not in meant]
    console = Console(emoji=False, highlight=False)
    meant = {path: found for path, found in meant.items() if found.n_calls or found.n_searches or found.n_lists}
    if not meant and not damaged:
        console.print("nothing to forget")
        return
    if not yes:
        _agree([f"{_described(found, what)} in {path}" for path, found in meant.items()], damaged)
    for path in meant:
        forgotten = forget(path, what)
        console.print(plain(f"{path}: forgot {_described(forgotten, what)}"), soft_wrap=True)
        if not forgotten.is_clean:
            print("a program was reading it, so bytes of it may stay in the file: run it again", file=sys.stderr)
    for path in damaged:
        delete_files(path)
        console.print(plain(f"{path}: deleted, for it was damaged"), soft_wrap=True)


def meant_by(
    server: str | None,
    tool: str | None,
    before: datetime | None,
    older_than: int | None,
    *,
    words: bool,
    everything: bool,
) -> Forget:
    """Return what the options of `usage forget` ask to delete; `older_than` is in days."""
    option = "options of usage forget"
    named = [value for value in (server, tool, before, older_than) if value is not None]
    if everything and (named or words):
        raise InputError("--all beside what narrows it", "--all", option, "leave one of them out")
    if before is not None and older_than is not None:
        raise InputError("--before beside --older-than", str(before.date()), option, "leave one of them out")
    if not (everything or words or named):
        raise InputError("nothing to forget is named", "", option, "name a --server, --tool or time, --words, or --all")
    before_ms = None
    if before is not None:
        before_ms = int(before.replace(tzinfo=UTC).timestamp() * 1000)
    elif older_than is not None:
        before_ms = int(time.time() * 1000) - older_than * DAY_MS
    return Forget(server, tool, before_ms, words)


def _count(path: Path, what: Forget, *, or_delete: bool) -> Forgotten | None:
    """Return what would be deleted from a log; None for one that is damaged and may be deleted whole."""
    try:
        return count(path, what)
    except UsageError as error:
        if or_delete and error.cause == "corrupt":
            return None
        raise


def _described(found: Forgotten, what: Forget) -> str:
    calls, searches = counted(found.n_calls, "call"), counted(found.n_searches, "search", "searches")
    if what.words:
        return f"the words of {calls} and {searches}"
    return f"{calls}, {searches} and {counted(found.n_lists, 'day')} of a tool's lists"


def _agree(texts: list[str], damaged: list[Path]) -> None:
    whole = " and ".join([*texts, *(f"all of {path}, which is damaged" for path in damaged)])
    if not sys.stdin.isatty():
        raise InputError(f"would forget {whole}", "", "options of usage forget", "say --yes, or run it on a terminal")
    typer.confirm(f"forget {whole}?", abort=True)


def _logs(file: Path | None) -> list[Path]:
    given = settings_of(os.environ).usage_file
    if file is None and not given:
        return sorted(_folder().glob("*.db"))
    path, source = (file, "option --file") if file is not None else (usage_file("", given), "env MCP_USAGE_FILE")
    if file is None and not path.exists():
        return []
    if not path.exists():
        raise InputError("no such file", str(path), source, f"name one of {_folder()}, or none for all of them")
    return [path]


def _folder() -> Path:
    return usage_file("").parent

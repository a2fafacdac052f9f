"""A report of usage on a terminal: tables and small charts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import TypeVar

from rich.console import Console

from agent_utilities.cli.bars import bar, sparkline
from agent_utilities.mcp.command_line.plain_text import plain
from agent_utilities.mcp.command_line.tables import NamesTable
from agent_utilities.usage.report import CallRow, EmptySearch, UncalledTool, UsageReport

_ROWS = 15
"""Rows of a table; `--json` has all."""
_BAR = 12
_NARROWEST = 76
"""Columns of a terminal from which there is room for bars."""
_EPOCH = date(1970, 1, 1)

_T = TypeVar("_T")


def print_report(report: UsageReport, today: int, days: int, console: Console) -> None:
    """Print a report.

    Args:
        report: of one log or several.
        today: counted in days from the epoch.
        days: how many the report is of.
        console: where to print it.
    """
    n_calls = sum(row.n_calls for row in report.servers)
    n_errors = sum(row.n_errors for row in report.servers)
    console.print(
        f"last {counted(days, 'day')}: {counted(n_calls, 'call')}, {_share(n_errors, n_calls)} failed", highlight=False
    )
    _print_days(report.calls_by_day, today, days, console)
    _print_calls("calls by server", "server", report.servers, console)
    _print_calls("calls by tool", "tool", report.tools, console)
    _print_uncalled(report, console)
    _print_searches(report, console)


def _print_days(calls_by_day: dict[int, int], today: int, days: int, console: Console) -> None:
    first = max(today - days + 1, min(calls_by_day, default=today))
    counts = [calls_by_day.get(day, 0) for day in range(first, today + 1)]
    if not any(counts) or first == today:
        return  # one column tells nothing
    line = sparkline(counts, console.width - 2, in_ascii=console.options.ascii_only)
    console.print(f"|{line}|", style="green", highlight=False, markup=False, no_wrap=True)
    since, until = (_EPOCH + timedelta(days=day) for day in (first, today))
    console.print(f"calls a day, {since} to {until} UTC; at most {max(counts):,}", style="dim", highlight=False)


def _print_calls(title: str, kind: str, rows: Sequence[CallRow], console: Console) -> None:
    if not rows:
        return
    names = ("tool", "server") if kind == "tool" else (kind,)
    table = NamesTable(title, *names, "calls", "", "failed", "p50 ms", "p95 ms", n_names=len(names))
    most = max(row.n_calls for row in rows)
    width = min(_BAR, 8 + console.width - _NARROWEST) if console.width >= _NARROWEST else 0
    for row in rows[:_ROWS]:
        names = (plain(row.tool), _server(row)) if kind == "tool" else (_server(row),)
        chart = bar(row.n_calls, most, width, in_ascii=console.options.ascii_only)
        failed = f"[red]{row.n_errors:,}[/]" if row.n_errors else "0"
        table.add_row(*names, f"{row.n_calls:,}", f"[green]{chart}[/]", failed, _ms(row.p50_ms), _ms(row.p95_ms))
    _print(table, rows, console)


def _print_uncalled(report: UsageReport, console: Console) -> None:
    if not report.uncalled:
        return
    table = NamesTable("listed and never called", "tool", "server", "lists", "tokens", "", n_names=2)
    most = max(row.n_tokens for row in report.uncalled)
    width = _BAR if console.width >= _NARROWEST else 0
    for row in report.uncalled[:_ROWS]:
        chart = bar(row.n_tokens, most, width, in_ascii=console.options.ascii_only)
        table.add_row(plain(row.tool), _server(row), f"{row.n_lists:,}", f"{row.n_tokens:,}", f"[yellow]{chart}[/]")
    _print(table, report.uncalled, console)
    n_tokens = sum(row.n_tokens for row in report.uncalled)
    tools = counted(len(report.uncalled), "tool")
    text = f"{tools} that nobody called took {n_tokens:,} of the {report.n_listed_tokens:,} tokens of all lists"
    console.print(text, highlight=False)


def _print_searches(report: UsageReport, console: Console) -> None:
    if not report.n_searches:
        return
    n_empty = report.n_empty_searches
    outcome = f"{_share(n_empty, report.n_searches)} found nothing" if n_empty else "each found something"
    console.print(f"\n{counted(report.n_searches, 'search', 'searches')}, {outcome}", highlight=False)
    rows: tuple[EmptySearch, ...] = report.empty_searches
    if not rows:
        return
    table = NamesTable("found nothing", "request", "server", "times", n_names=0)
    for row in rows[:_ROWS]:
        table.add_row(plain(row.request), plain(row.server), f"{row.n:,}")
    _print(table, rows, console)


def _print(table: NamesTable, rows: Sequence[_T], console: Console) -> None:
    console.print()
    console.print(table)
    if len(rows) > _ROWS:
        console.print(f"… and {len(rows) - _ROWS:,} more, which --json has", style="dim", highlight=False)


def _server(row: CallRow | UncalledTool) -> str:
    return plain(f"{row.server}/{row.upstream}" if row.upstream else row.server)


def counted(n: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 call`, `2,000 calls`."""
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"


def _share(n: int, of: int) -> str:
    return f"{n:,} ({100 * n / of:.1f} %)" if n else "0"


def _ms(ms: float) -> str:
    return f"{ms:,.0f}" if ms >= 10 else f"{ms:.1f}"

"""What `agent-utilities capabilities check` and `list` print."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from agent_utilities.cli.capabilities_read import BundleReport, FoldersReport, read_folders
from agent_utilities.cli.usage_report import counted
from agent_utilities.mcp.command_line.plain_text import plain

_STYLES = {"ready": "green", "not installed": "yellow", "unavailable": "yellow"}
_LONGEST_NAME = 24


def check_capabilities(folders: Sequence[Path], providers: Sequence[str], config: Path | None, *, as_json: bool) -> int:
    """Print what each bundle brings and lacks, and what is wrong; return how many problems leave bundles out.

    Raises:
        InputError: a folder or the config file can't be read, or a provider is not `NAME=PROVIDER`.
    """
    report = read_folders(folders, providers, config)
    if as_json:
        _print_json(report)
        return len(report.problems)
    console = Console(emoji=False)
    for bundle in report.bundles:
        _print_bundle(bundle, console)
    for problem in report.problems:
        _line(console, f"[red]left out:[/] {plain(problem)}")
    for notice in report.notices:
        _line(console, f"[yellow]note:[/] {plain(notice)}")
    _print_sum(report, console)
    return len(report.problems)


def list_capabilities(folders: Sequence[Path], providers: Sequence[str], config: Path | None, *, as_json: bool) -> None:
    """Print a table of the bundles.

    Raises:
        InputError: a folder or the config file can't be read, or a provider is not `NAME=PROVIDER`.
    """
    report = read_folders(folders, providers, config)
    if as_json:
        _print_json(report)
        return
    console = Console(emoji=False)
    if report.bundles:
        console.print(_table(report.bundles, console.width))
    _print_sum(report, console)


def _print_json(report: FoldersReport) -> None:
    bundles = [{**asdict(bundle), "state": bundle.state} for bundle in report.bundles]
    told = {"folders": list(map(str, report.folders)), "bundles": bundles}
    json.dump({**told, "problems": report.problems, "notices": report.notices}, sys.stdout)
    print()


def _print_bundle(bundle: BundleReport, console: Console) -> None:
    servers = ", ".join(bundle.servers or bundle.require) or "no server"
    sentences = counted(bundle.n_triggers, "trigger") if bundle.n_triggers else "no triggers: enabled by name alone"
    domains = f"; for {', '.join(bundle.domains)}" if bundle.domains else ""
    state = f"[{_STYLES[bundle.state]}]{bundle.state}[/]"
    told = f"{bundle.name} ({bundle.provider}): {servers}; {sentences}{domains}"
    _line(console, f"{state} {plain(told)}")
    for lack in (bundle.unavailable, *bundle.missing):
        if lack:
            _line(console, f"  {plain(lack)}")


def _table(bundles: Sequence[BundleReport], width: int) -> Table:
    table = Table(header_style="bold", box=SIMPLE_HEAD, show_edge=False, padding=0)
    rows = [(each.name, each.title, each.provider, ", ".join(each.servers), each) for each in bundles]
    name = _width("name", (row[0] for row in rows), _LONGEST_NAME)
    state = _width("state", (row[4].state for row in rows), width)
    free = width - name - state - len("triggers") - 5  # a space between two columns
    provider = _width("provider", (row[2] for row in rows), max(len("provider"), free // 4))
    servers = _width("servers", (row[3] for row in rows), max(len("servers"), free // 4))
    title = _width("title", (row[1] for row in rows), max(len("title"), free - provider - servers))
    table.add_column("name", overflow="fold", width=name)
    for heading, columns in (("title", title), ("provider", provider), ("servers", servers)):
        table.add_column(heading, no_wrap=True, overflow="ellipsis", width=columns)
    table.add_column("triggers", justify="right")
    table.add_column("state", no_wrap=True)
    for *texts, bundle in rows:
        styled = f"[{_STYLES[bundle.state]}]{bundle.state}[/]"
        table.add_row(*map(plain, texts), str(bundle.n_triggers or ""), styled)
    return table


def _width(heading: str, texts: Iterable[str], most: int) -> int:
    """Return how wide a column is: as its longest text, and no wider than it may be."""
    return min(most, max(len(heading), *map(len, texts)))


def _print_sum(report: FoldersReport, console: Console) -> None:
    where = plain(", ".join(map(str, report.folders)))
    if not report.bundles and not report.problems:
        _line(console, f"no capabilities in {where}: make one by `agent-utilities capabilities new NAME`")
        return
    n_ready = sum(bundle.state == "ready" for bundle in report.bundles)
    problems = f", {counted(len(report.problems), 'problem')}" if report.problems else ""
    n = counted(len(report.bundles), "capability", "capabilities")
    _line(console, f"{n} in {where}, {n_ready} ready{problems}")


def _line(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True)

"""What `agent-utilities capabilities check` and `list` print."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.text import Text

from agent_utilities.cli.capabilities_read import BundleReport, FoldersReport, read_folders
from agent_utilities.cli.usage_report import counted
from agent_utilities.mcp.command_line.plain_text import plain
from agent_utilities.mcp.command_line.tables import NamesTable

_STYLES = {"ready": "green", "not installed": "yellow", "unavailable": "yellow"}
_LONGEST_TITLE = 40


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
        console.print(_table(report.bundles))
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


def _table(bundles: Sequence[BundleReport]) -> NamesTable:
    table = NamesTable("", "name", "title", "provider", "servers", "triggers", "state")
    for each in bundles:
        title = f"{each.title[: _LONGEST_TITLE - 1]}…" if len(each.title) > _LONGEST_TITLE else each.title
        texts = (each.name, title, each.provider, ", ".join(each.servers))
        state = Text(each.state.replace(" ", "\N{NO-BREAK SPACE}"), _STYLES[each.state])
        table.add_row(*map(plain, texts), str(each.n_triggers or ""), state)
    return table


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

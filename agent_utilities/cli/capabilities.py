"""`agent-utilities capabilities check` and `list`: what each bundle in some folders comes to."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from agent_utilities.capabilities.model import Capability
from agent_utilities.capabilities.requirements import read_requirement
from agent_utilities.capabilities.servers import CapabilityServers, servers_of
from agent_utilities.capabilities.tap import read_capabilities
from agent_utilities.cli.gateway import user_capabilities
from agent_utilities.cli.usage import counted
from agent_utilities.errors import InputError
from agent_utilities.mcp.command_line.tables import NamesTable, plain
from agent_utilities.settings_file import settings_of
from agent_utilities.upstream.config import UpstreamConfig
from agent_utilities.upstream.configuration.config_files import read_config


@dataclass(frozen=True)
class BundleReport:
    """What one bundle comes to on this machine.

    Args:
        name, title, provider: as its files have them.
        servers: the names, on a gateway, of those that it brings along, then of the gateway's own that it uses.
        require: what must be installed, as `OWNER/TOOL`.
        n_triggers: how many sentences call for it.
        domains: the profiles that see it; empty for every one.
        unavailable: why it can't be enabled; empty where it can.
        missing: what is not installed, one line each.
    """

    name: str
    title: str
    provider: str
    servers: tuple[str, ...]
    require: tuple[str, ...]
    n_triggers: int
    domains: tuple[str, ...]
    unavailable: str = ""
    missing: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """`ready`, or what is in the way in a word."""
        return "unavailable" if self.unavailable else "not installed" if self.missing else "ready"


@dataclass(frozen=True)
class FoldersReport:
    """What folders of capabilities come to: a problem leaves a bundle out, a notice tells what is passed over."""

    folders: tuple[Path, ...]
    bundles: tuple[BundleReport, ...]
    problems: tuple[str, ...]
    notices: tuple[str, ...]


def read_folders(given: Sequence[Path], providers: Sequence[str], config: Path | None) -> FoldersReport:
    """Return what folders come to."""
    own = user_capabilities()
    folders = tuple(given) or ((own,) if own.is_dir() else ())
    upstreams = read_config([config], os.environ).upstreams if config is not None else ()
    chosen = {**settings_of(os.environ).capabilities, **_chosen(providers)}
    capabilities = read_capabilities(folders, providers=chosen)
    servers = servers_of(capabilities, upstreams, os.environ, Path.cwd())
    bundles = (_report(each, servers) for _, each in sorted(capabilities.by_name.items()))
    notices = (*capabilities.notices, *servers.notices)
    return FoldersReport(folders or (own,), tuple(bundles), capabilities.problems, notices)


def _report(capability: Capability, servers: CapabilityServers) -> BundleReport:
    name = capability.name
    brought = servers.by_capability.get(name, ())
    placed = (*brought, *servers.own.get(name, ()))
    return BundleReport(
        name=name,
        title=capability.title,
        provider=capability.provider,
        servers=placed or tuple(server.name for server in capability.servers),
        require=capability.require,
        n_triggers=len(capability.triggers),
        domains=capability.domains,
        unavailable=servers.unavailable.get(name, ""),
        missing=_missing(capability, [servers.configs[each] for each in brought]),
    )


def _missing(capability: Capability, configs: Sequence[UpstreamConfig]) -> tuple[str, ...]:
    """Return what is not installed of what a capability requires, and of its servers' programs. Nothing is run."""
    path = os.environ.get("PATH", os.defpath)
    whys = {name: read_requirement(name, capability.tap).why_missing(path) for name in capability.require}
    lines = [f"requires {name}: {why}" for name, why in whys.items() if why]
    for config in configs:
        own = config.env["PATH"].get_secret_value() if "PATH" in config.env else path
        if config.transport == "stdio" and shutil.which(config.command, path=own) is None:
            lines.append(f"server {config.name}: the program {config.command!r} is not installed")
    return tuple(lines)


def _chosen(providers: Sequence[str]) -> dict[str, str]:
    chosen = {}
    for pair in providers:
        name, separator, provider = map(str.strip, pair.partition("="))
        if not (name and separator and provider):
            raise InputError("not NAME=PROVIDER", pair, "option --provider", "write it as websearch=brave")
        chosen[name] = provider
    return chosen


_STYLES = {"ready": "green", "not installed": "yellow", "unavailable": "yellow"}
_LONGEST_TITLE = 40


def check_capabilities(folders: Sequence[Path], providers: Sequence[str], config: Path | None, *, as_json: bool) -> int:
    """Print what each bundle brings and lacks, and what is wrong; return how many problems leave bundles out."""
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
    """Print a table of the bundles."""
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

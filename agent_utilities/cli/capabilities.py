"""`agent-utilities capabilities`: check, list and make bundles, and try which one words lead to."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from agent_utilities.cli.asking import pairs
from agent_utilities.server.command_line.terminal import AsJson, NamesTable, counted, plain, print_problems, terminal

if TYPE_CHECKING:  # `--help` needs none of it
    from agent_utilities.gateway.capabilities.model import Capability
    from agent_utilities.gateway.capabilities.servers import CapabilityServers

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Look after the bundles of servers that a gateway offers."
)

_FOLDERS = """Folders of capabilities, later over earlier; `starter` for those of the package. Your own where none
is named."""
_CONFIG = "A gateway's config file, such as .mcp.json, whose servers bundles may refer to."
_PROVIDER = "Take another provider; may be repeated."
Folders = Annotated[list[str] | None, typer.Argument(metavar="DIRS", show_default=False, help=_FOLDERS)]
Providers = Annotated[list[str] | None, typer.Option("--provider", metavar="NAME=PROVIDER", help=_PROVIDER)]
Config = Annotated[Path | None, typer.Option(help=_CONFIG)]


@app.command()
def check(folders: Folders = None, provider: Providers = None, config: Config = None, as_json: AsJson = False) -> int:
    """Say of each bundle what it brings and lacks, and what is wrong; 1 where one is left out."""
    report = _read(folders, provider, config)
    if as_json:
        print(json.dumps(report))
    else:
        console = terminal()
        for bundle in report["bundles"]:
            _print_bundle(bundle, console)
        print_problems(console, report["problems"], report["notices"])
        _print_sum(report, console)
    return min(1, len(report["problems"]))


@app.command("list")
def list_bundles(
    folders: Folders = None, provider: Providers = None, config: Config = None, as_json: AsJson = False
) -> None:
    """Show the bundles in a table."""
    report = _read(folders, provider, config)
    if as_json:
        print(json.dumps(report))
        return
    console = terminal()
    table = NamesTable("", "name", "title", "provider", "servers", "triggers", "state")
    for each in report["bundles"]:
        title = each["title"]
        title = f"{title[: _LONGEST_TITLE - 1]}…" if len(title) > _LONGEST_TITLE else title
        texts = (each["name"], title, each["provider"], ", ".join(each["servers"]))
        state = Text(each["state"].replace(" ", "\N{NO-BREAK SPACE}"), _STYLES[each["state"]])
        table.add_row(*map(plain, texts), str(each["n_triggers"] or ""), state)
    if table.n_rows:
        console.print(table)
    _print_sum(report, console)


@app.command()
def new(name: str, folder: Path | None = None) -> None:
    """Write a bundle that works, with comments, for you to change.

    Args:
        name: The capability's name, such as websearch.
        folder: A folder of capabilities; your own where none is named.
    """
    from agent_utilities.cli.new import make_capability

    made = make_capability(name, folder)
    print(f"made {made}; next: change its files, then agent-utilities capabilities check {made.parent}")


@app.command()
def route(
    folder: Annotated[Path, typer.Option()],
    rows: Annotated[Path, typer.Option()],
    out: Path | None = None,
    words: bool = False,
) -> None:
    """Say which bundle each message calls for, as a gateway decides it, and how often that is right.

    Args:
        folder: A folder of capabilities; `starter` for the package's.
        rows: JSON lines of messages: intent, and label where known: a name, or null for none.
        out: Where to write a JSON line for each: intent, scores, activated; nowhere where it is not given.
        words: Compare words alone, whatever MCP_RANKER says.
    """
    from agent_utilities.cli.evaluation.run import route_messages

    route_messages(folder, rows, out, by_words=words)


Row = dict[str, Any]


def _read(named: Sequence[str] | None, providers: list[str] | None, config: Path | None) -> Row:
    """Return the report on some folders, or on the user's own where none is named, as `--json` prints it.

    A problem leaves a bundle out, a notice says what is ignored.
    """
    from agent_utilities.gateway.capabilities.servers import servers_of
    from agent_utilities.gateway.capabilities.tap import folder_named, read_capabilities
    from agent_utilities.gateway.upstreams.configuration.config_files import read_config
    from agent_utilities.settings_file import settings_of, user_folder

    own = user_folder() / "capabilities"
    folders = tuple(map(folder_named, named or ())) or ((own,) if own.is_dir() else ())
    upstreams = read_config([config], os.environ).upstreams if config is not None else ()
    chosen = settings_of(os.environ).capabilities | dict(pairs(providers, "--provider", "NAME=PROVIDER"))
    capabilities = read_capabilities(folders, providers=chosen)
    servers = servers_of(capabilities, upstreams, os.environ, Path.cwd())
    return {
        "folders": list(map(str, folders or (own,))),
        "bundles": [_bundle(each, servers) for _, each in sorted(capabilities.by_name.items())],
        "problems": capabilities.problems,
        "notices": (*capabilities.notices, *servers.notices),
    }


def _bundle(capability: Capability, servers: CapabilityServers) -> Row:
    """Return one bundle's row: its texts, and what it can do on this machine.

    Its `servers` are the names, on a gateway, of those that it brings, then of the gateway's own that it uses.
    """
    name = capability.name
    placed = (*servers.by_capability.get(name, ()), *servers.own.get(name, ()))
    unavailable, missing = servers.unavailable.get(name, ""), _missing(capability, servers)
    return {
        "name": name,
        "title": capability.title,
        "provider": capability.provider,
        "servers": placed or tuple(server.name for server in capability.servers),
        "require": capability.require,
        "n_triggers": len(capability.triggers),
        "domains": capability.domains,
        "unavailable": unavailable,
        "missing": missing,
        "state": "unavailable" if unavailable else "not installed" if missing else "ready",
    }


def _missing(capability: Capability, servers: CapabilityServers) -> tuple[str, ...]:
    """Return a capability's missing requirements and programs, a line each. Nothing is run."""
    from agent_utilities.gateway.capabilities.installers import read_requirement

    path = os.environ.get("PATH", os.defpath)
    whys = {name: read_requirement(name, capability.tap).why_missing(path) for name in capability.require}
    lines = [f"requires {name}: {why}" for name, why in whys.items() if why]
    for config in (servers.configs[name] for name in servers.by_capability.get(capability.name, ())):
        own = config.env["PATH"].get_secret_value() if "PATH" in config.env else path
        if config.transport == "stdio" and shutil.which(config.command, path=own) is None:
            lines.append(f"server {config.name}: the program {config.command!r} is not installed")
    return tuple(lines)


_STYLES = {"ready": "green", "not installed": "yellow", "unavailable": "yellow"}
_LONGEST_TITLE = 40


def _print_bundle(bundle: Row, console: Console) -> None:
    servers = ", ".join(bundle["servers"] or bundle["require"]) or "no server"
    n = bundle["n_triggers"]
    sentences = counted(n, "trigger") if n else "no triggers: enabled by name alone"
    domains = f"; for {', '.join(bundle['domains'])}" if bundle["domains"] else ""
    about = f"{bundle['name']} ({bundle['provider']}): {servers}; {sentences}{domains}"
    console.print(f"[{_STYLES[bundle['state']]}]{bundle['state']}[/] {plain(about)}", soft_wrap=True)
    for lack in filter(None, (bundle["unavailable"], *bundle["missing"])):
        console.print(f"  {plain(lack)}", soft_wrap=True)


def _print_sum(report: Row, console: Console) -> None:
    where, bundles, problems = ", ".join(report["folders"]), report["bundles"], report["problems"]
    text = f"no capabilities in {where}: make one by `agent-utilities capabilities new NAME`"
    if bundles or problems:
        n_ready = sum(bundle["state"] == "ready" for bundle in bundles)
        left_out = f", {counted(len(problems), 'problem')}" if problems else ""
        text = f"{counted(len(bundles), 'capability', 'capabilities')} in {where}, {n_ready} ready{left_out}"
    console.print(plain(text), soft_wrap=True)

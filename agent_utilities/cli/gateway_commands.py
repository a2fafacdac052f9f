"""The implementation of `agent-utilities gateway`: serve the servers of a config, check, lock and log in at them."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from agent_utilities.catalog.context import n_tokens
from agent_utilities.cli.gateway_options import GATEWAY_NAME, GatewayOptions
from agent_utilities.errors import InputError, SettingsError
from agent_utilities.gateway.upstreams.config import GatewayConfig
from agent_utilities.gateway.upstreams.configuration.config_files import read_config
from agent_utilities.gateway.upstreams.configuration.host_files import find_config, searched, user_home
from agent_utilities.gateway.upstreams.errors import Cause, UpstreamError
from agent_utilities.gateway.upstreams.folders import gateway_folder, with_folder
from agent_utilities.gateway.upstreams.operator import lock as locks
from agent_utilities.gateway.upstreams.operator.consent import agreed_or_refuse, is_agreed
from agent_utilities.gateway.upstreams.operator.operator_rules import ConfigFiles, OperatorRules
from agent_utilities.gateway.upstreams.processes.stderr_log import log_file, logged, read_log
from agent_utilities.gateway.upstreams.snapshot_store import SnapshotStore
from agent_utilities.policy.bounds import finish
from agent_utilities.runtime.shown import shown
from agent_utilities.runtime.waiting import run_async
from agent_utilities.selection.model import nearest
from agent_utilities.server.command_line.terminal import NamesTable, Steps, plain, print_problems, terminal
from agent_utilities.server.server_cli import launch
from agent_utilities.settings_file import settings_of, user_folder

if TYPE_CHECKING:  # what a bad option need not wait for
    from fastmcp.server.providers import Provider

    from agent_utilities.gateway.capabilities.servers import Offer
    from agent_utilities.gateway.upstreams.supervision.upstream import Upstream
    from agent_utilities.server.agent_server import AgentServer

_MOST_WHYS = 5
"""The most capabilities of which the start says why they can't be switched on; a tap of eighty lacks many keys."""
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


def launch_gateway(options: GatewayOptions) -> None:
    """Serve the upstreams of a config, or print what would be visible."""
    started_s = time.monotonic()  # before all that is imported to serve, which its host waits for too
    launch(lambda: _gateway(options, started_s), options)


def _gateway(options: GatewayOptions, started_s: float) -> AgentServer:
    from agent_utilities.server_factory import gateway_features, gateway_of

    offer = offer_of(options)
    chosen = chosen_config(options.files or (), yes=options.yes, is_needed=offer is None)
    problems, notices = [*chosen.config.problems], [*chosen.config.notices]
    if options.name == GATEWAY_NAME and os.environ.get("NEO4J_URI", "").strip():
        notices.append("gateways that share a Neo4j need names of their own: give this one a --name")
    if offer is not None:
        offer = offer.read(chosen.config.upstreams)
        problems += offer.capabilities.problems
        notices += [*offer.capabilities.notices, *offer.servers.notices, *_unavailable(offer)]
    features = gateway_features(chosen.config, chosen if chosen.files else None, offer=offer, started_s=started_s)
    gateway = gateway_of(features, options.name)
    for line in (*(f"left out: {problem}" for problem in problems), *(f"note: {notice}" for notice in notices)):
        gateway.greeting.tell(shown(line, None))
    if options.skills:
        gateway.add_provider(skills_provider(options.skills))
    return gateway


def skills_provider(folders: Sequence[Path]) -> Provider:
    """Return a provider of the skills in some folders: every folder in one of them that has a `SKILL.md`.

    A skill may be edited while it is served. Of two skills of one name the earlier folder's is served.

    Raises:
        SettingsError: one of them is no folder, or FastMCP 4.2 refuses a skill in it.
    """
    for folder in folders:
        if not folder.is_dir():
            hint = "give a folder whose folders have a SKILL.md each, such as ~/.claude/skills"
            raise SettingsError("no folder of skills", str(folder), "--skills", hint)
    if find_spec("fastmcp.skills.provider") is None:  # before FastMCP 4.2
        from fastmcp.server.providers.skills import SkillsDirectoryProvider

        return SkillsDirectoryProvider([*folders])
    try:
        provider: Provider = import_module("fastmcp.skills.provider").SkillsDirectoryProvider([*folders], reload=True)
        return provider
    except ValueError as error:
        where = ", ".join(map(str, folders))
        raise SettingsError("skills that are none", where, "--skills", " ".join(str(error).split())) from None


def offer_of(options: GatewayOptions) -> Offer | None:
    """Return the offer of capabilities: of the option's folders or the setting's, with the user's own over them."""
    from agent_utilities.gateway.capabilities.servers import Offer
    from agent_utilities.gateway.capabilities.tap import folder_named

    settings = settings_of(os.environ)
    in_settings = filter(None, map(str.strip, settings.capability_folders.split(os.pathsep)))
    named = list(map(folder_named, options.capabilities or in_settings))
    own = user_folder() / "capabilities"
    folders = [*named, *([own] if own.is_dir() else [])]
    at_boot = filter(None, map(str.strip, settings.boot_capabilities.split(",")))
    fixed = tuple(dict.fromkeys(options.capability or at_boot))
    if not folders:
        if fixed:
            raise InputError("no capabilities", fixed[0], "option --capability", "name a folder: --capabilities DIR")
        return None
    most = settings.max_capabilities if options.max_capabilities is None else options.max_capabilities
    return Offer(
        fixed=fixed,
        most=most,
        routes=settings.capability_routing,
        folders=folders,
        environ=os.environ,
        folder=Path.cwd(),
        providers=settings.capabilities,
        allow_install=options.allow_install or settings.allow_install,
    )


def _unavailable(offer: Offer) -> Iterator[str]:
    """Yield a line for each capability that can't be switched on, up to a limit."""
    unavailable = offer.servers.unavailable
    for name, why in islice(unavailable.items(), _MOST_WHYS):
        yield f"{name} can't be switched on: {why}"
    if others := list(unavailable)[_MOST_WHYS:]:
        named = f"{len(others)} more can't be switched on: {', '.join(others)}"
        yield f"{named}; agent-utilities capabilities check says why"


def chosen_config(files: Sequence[Path], *, yes: bool, is_needed: bool = True) -> ConfigFiles:
    """Return a gateway's config: of the files that were named, or of one that is looked for, whose path is printed.

    The user consents to a file of the working folder, on a terminal or by `yes`; naming a file is consent to it and to
    its later edits. With capabilities no config is needed.
    """
    if files:
        return ConfigFiles(files, os.environ, read_config(files, os.environ))
    folder, home = Path.cwd(), user_home(os.environ)
    match = find_config(folder, home, os.environ)
    if match is None and not is_needed:
        return ConfigFiles((), os.environ, GatewayConfig())
    if match is None:
        looked = ", ".join(map(str, searched(folder, home, os.environ)))
        raise InputError("no config was found", str(folder), "the working folder", f"name one; looked for: {looked}")
    others = f"; passed over: {', '.join(map(str, match.passed_over))}" if match.passed_over else ""
    with suppress(OSError):  # whoever read it has gone
        print(f"taking {match.path}{others}", file=sys.stderr)
    config = read_config([match.path], os.environ)
    consent = gateway_folder("consent", settings_of(os.environ).gateway_folder)
    agreed_or_refuse(match, config, consent, os.environ, yes=yes)
    return ConfigFiles([match.path], os.environ, config, lambda later: is_agreed(match, later, consent))


@dataclass(frozen=True)
class Checked:
    """The result of reaching one upstream: its state as in `/ready`, what is wrong, and a remedy."""

    server: str
    transport: str
    state: str
    tools: int = 0
    permitted: int = 0
    tokens: int = 0
    start_s: float = 0.0
    wrong: str = ""
    remedy: str = ""


def check_servers(chosen: ConfigFiles, *, as_json: bool) -> int:
    """Reach every upstream, and print the results; return 1 where one failed or is left out, or there is none.

    Their snapshots are kept, so that the next gateway lists them at once.
    """
    rows = run_async(_reach_all, chosen)
    config = chosen.config
    if as_json:
        body = {"upstreams": list(map(asdict, rows)), "problems": config.problems, "notices": config.notices}
        print(json.dumps({**body, "files": config.files}))
    else:
        _print(rows, config)
    return int(not rows or bool(config.problems) or any(row.wrong for row in rows))


async def _reach_all(chosen: ConfigFiles) -> list[Checked]:
    """Reach every upstream once, print each as it answers, and keep its snapshot."""
    from agent_utilities.gateway.upstreams.supervision.backoff import Policy
    from agent_utilities.gateway.upstreams.supervision.upstreams import Upstreams, reach

    folder, config, rules = settings_of(os.environ).gateway_folder, chosen.config, chosen.rules()
    upstreams = Upstreams(
        config,
        environ=with_folder(os.environ, folder),
        store=SnapshotStore(gateway_folder("snapshots", folder)),
        on_change=lambda _: None,
        logs=gateway_folder("logs", folder),
        policy=Policy(is_once=True),
    )
    checked: dict[str, Checked] = {}
    steps = Steps(len(config.upstreams))

    async def reach_one(upstream: Upstream) -> None:
        row = checked[upstream.config.name] = await _reach(upstream, rules)
        steps.begin(f"{row.server}: {row.state}")

    await reach(upstreams, lambda _: True, reach_one)
    return [checked[each.name] for each in config.upstreams]


async def _reach(upstream: Upstream, rules: OperatorRules) -> Checked:
    config = upstream.config
    if not config.enabled:
        return Checked(config.name, config.transport, "off")
    began = time.perf_counter()
    await upstream.renewed()
    took_s = time.perf_counter() - began
    state, seen = upstream.state, upstream.snapshot
    tools = seen.tools if seen is not None else ()
    wrong = remedy = ""
    if state.cause:
        wrong, remedy = f"{state.cause}: {state.detail}", _REMEDIES.get(state.cause, "").replace("NAME", config.name)
    elif seen is not None:
        absent = f"a gateway, which has not reached {seen.n_absent} of its own servers; their tools are missing"
        wrong = "; ".join([*seen.problems, *([absent] if seen.n_absent else [])])
    denied = finish(rules.denials(config, seen)) if seen is not None else {}
    permitted = [tool for tool in tools if locks.Key(config.name, "tools", tool["name"]) not in denied]
    withheld = [key.name for key, where in denied.items() if where.startswith(rules.lock_file.name)]
    if withheld and not state.cause:
        why = f"the lock withholds {len(withheld)}, which it does not have so: {', '.join(withheld[:_MOST_WHYS])}"
        wrong = "; ".join(filter(None, [wrong, why]))
        remedy = "agent-utilities gateway lock shows them; --accept NAME, or --all, has them listed"
    n, n_s = sum(map(n_tokens, permitted)), round(took_s, 2)
    return Checked(config.name, config.transport, state.name, len(tools), len(permitted), n, n_s, wrong, remedy)


def _print(rows: list[Checked], config: GatewayConfig) -> None:
    console = terminal()
    table = NamesTable("", "server", "transport", "state", "tools", "permitted", "≈ tokens", "seconds")
    for row in rows:
        state = f"[{_STYLE.get(row.state, 'yellow')}]{row.state}[/]"
        numbers = map(str, (row.tools, row.permitted, row.tokens))
        table.add_row(plain(row.server), row.transport, state, *numbers, f"{row.start_s:.1f}")
    console.print(table)
    for row in rows:
        if row.wrong:
            console.print(f"[red]{plain(row.server)}[/]: {plain(row.wrong)}", soft_wrap=True)
        if row.remedy:
            console.print(f"  what would mend it: {plain(row.remedy)}", soft_wrap=True)
    n_tools, n_tokens_in_all = sum(row.permitted for row in rows), sum(row.tokens for row in rows)
    n_up = sum(row.state in ("ready", "idle") for row in rows)
    cost = f"{n_tools} tools permitted, about {n_tokens_in_all} tokens on every turn"
    print(f"{n_up} of {len(rows)} servers answered: {cost}")
    print_problems(console, config.problems, config.notices)


def login_at(name: str, config: GatewayConfig) -> None:
    """Log in at an upstream in the user's browser, and keep the login."""
    from agent_utilities.gateway.upstreams.http.login import log_in
    from agent_utilities.gateway.upstreams.supervision.opening import root_error

    upstreams = {upstream.name: upstream for upstream in config.upstreams}
    remote = [upstream.name for upstream in config.upstreams if upstream.transport != "stdio"]
    if name not in upstreams:
        near = nearest(name, remote)
        meant = f"did you mean {near!r}? " if near else ""
        hint = f"{meant}there are: {', '.join(remote) or 'none'}"
        raise InputError("no server to log in at", name, "argument NAME", hint)
    if name not in remote:
        hint = "it is a command on this machine; give it keys by `env` in its entry of the config"
        raise InputError("a stdio server has no login", name, "argument NAME", hint)
    print(f"opening a browser for {name}; waiting until you have logged in", file=sys.stderr)
    try:
        run_async(log_in, upstreams[name], settings_of(os.environ).gateway_folder)
    except Exception as error:
        cause = root_error(error)
        raise UpstreamError(name, "refused", f"the login failed, {type(cause).__name__}: {cause}") from error
    print(f"logged in at {name}")


def print_logs(name: str | None, n_lines: int) -> None:
    """Print the last lines that an upstream wrote to stderr, or those of every upstream that has a log."""
    folder = gateway_folder("logs", settings_of(os.environ).gateway_folder)
    there = logged(folder)
    if name is not None and name not in there:
        raise InputError("no log of that server", name, "argument NAME", f"there are: {', '.join(there) or 'none'}")
    for each in [name] if name is not None else there:
        if name is None:
            print(f"== {each}")
        for line in read_log(log_file(folder, each), n_lines):
            print(line)


def lock_servers(chosen: ConfigFiles, *, accepted: Sequence[str], accept_all: bool) -> int:
    """Lock upstreams' definitions as they are now, or show and accept later changes; return the exit code."""
    print_problems(terminal(stderr=True), chosen.config.problems, chosen.config.notices)
    for row in run_async(_reach_all, chosen):
        if row.wrong:
            print(f"{row.server}: {shown(row.wrong, len(row.wrong))}", file=sys.stderr)
    store = SnapshotStore(gateway_folder("snapshots", settings_of(os.environ).gateway_folder))
    return lock_gateway(chosen.config, store, chosen.files[0], accepted=accepted, accept_all=accept_all)


def lock_gateway(
    config: GatewayConfig, store: SnapshotStore, file: Path, *, accepted: Sequence[str] = (), accept_all: bool = False
) -> int:
    """Write the lock of a config where there is none; else show what has changed, and accept the named changes.

    Return the exit code: 1 where changes wait to be accepted.
    """
    path = locks.lock_path(file)
    enabled = [upstream for upstream in config.upstreams if upstream.enabled]
    loaded = {upstream.name: store.load(upstream) for upstream in enabled}
    snapshots = [snapshot for snapshot in loaded.values() if snapshot is not None]
    for name in (name for name, snapshot in loaded.items() if snapshot is None):
        note = f"{shown(name)!r} was never reached: once a lock is there, what it lists is withheld until accepted"
        print(note, file=sys.stderr)
    lock = locks.read_lock(path)
    if lock is None:
        lock = locks.lock_of(snapshots)
        locks.write_lock(path, lock)
        print(f"{path} has {len(lock)} definitions of {len(snapshots)} servers")
        print("what changes or is new from now on is withheld until `gateway lock --accept NAME`", file=sys.stderr)
        return 0
    pending = locks.changes(lock, snapshots)
    taken = pending if accept_all else [change for name in accepted for change in locks.named(name, pending)]
    for change in pending:
        print(locks.change_text(change) + ("\n  accepted" if change in taken else ""))
    if taken:
        locks.write_lock(path, locks.accept(lock, taken))
    waiting = [change.what for change in pending if change not in taken]
    if not waiting:
        print(f"nothing to accept: all is as {path} has it")
        return 0
    n_gone = waiting.count("removed")
    print(f"{len(waiting) - n_gone} withheld, {n_gone} gone; accept with --accept NAME, or --all", file=sys.stderr)
    return 1

"""`agent-utilities gateway serve`: find the config, ask where it must, and serve what it names."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from agent_utilities.cli.gateway_options import GATEWAY_NAME, GatewayOptions
from agent_utilities.errors import InputError, SettingsError
from agent_utilities.mcp.server_cli import launch
from agent_utilities.settings_file import settings_of, user_folder
from agent_utilities.upstream.config import GatewayConfig
from agent_utilities.upstream.configuration.config_files import read_config
from agent_utilities.upstream.configuration.host_files import find_config, searched, user_home
from agent_utilities.upstream.folders import gateway_folder
from agent_utilities.upstream.operator.consent import agreed_or_refuse, is_agreed
from agent_utilities.upstream.operator.operator_rules import ConfigFiles

if TYPE_CHECKING:
    from fastmcp.server.providers.skills import SkillsDirectoryProvider

    from agent_utilities.capabilities.offering import Offer
    from agent_utilities.mcp.agent_server import AgentServer

_MOST_WHYS = 5
"""Of how many capabilities the start says why they can't be switched on; a tap of eighty lacks many a key."""


def launch_gateway(options: GatewayOptions) -> None:
    """Serve the upstreams of a config, or print what would be visible."""
    started_s = time.monotonic()  # before all that is imported to serve, which its host waits for too
    launch(lambda: _gateway(options, started_s), options)


def _gateway(options: GatewayOptions, started_s: float) -> AgentServer:
    from agent_utilities.server_factory import gateway_features, gateway_of

    offer = offer_of(options)
    chosen = chosen_config(options.files or (), yes=options.yes, is_needed=offer is None)
    print_notes(chosen.config.problems, chosen.config.notices)
    if options.name == GATEWAY_NAME and os.environ.get("NEO4J_URI", "").strip():
        print("note: gateways that share a Neo4j need names of their own: give this one a --name", file=sys.stderr)
    if offer is not None:
        offer = offer.read(chosen.config.upstreams)
        _tell_capabilities(offer)
    features = gateway_features(chosen.config, chosen if chosen.files else None, offer=offer, started_s=started_s)
    gateway = gateway_of(features, options.name)
    if options.skills:
        gateway.add_provider(skills_provider(options.skills))
    return gateway


def skills_provider(folders: Sequence[Path]) -> SkillsDirectoryProvider:
    """Return a provider of the skills in folders: each folder in one of them that has a `SKILL.md`.

    The folders are gone through here, once: to do so at every request would hold up the event loop. What a skill says
    is read when it is read, so that it may be edited while it is served. Of one name the earlier folder's is served.

    Raises:
        SettingsError: one of them is no folder.
    """
    for folder in folders:
        if not folder.is_dir():
            hint = "give a folder whose folders have a SKILL.md each, such as ~/.claude/skills"
            raise SettingsError("no folder of skills", str(folder), "--skills", hint)
    from fastmcp.server.providers.skills import SkillsDirectoryProvider

    return SkillsDirectoryProvider([*folders])


def offer_of(options: GatewayOptions) -> Offer | None:
    """Return where capabilities come from: the option's folders or the setting's, and the user's own over them."""
    from agent_utilities.capabilities.offering import Offer, folders_in, names_in
    from agent_utilities.capabilities.tap import folder_named

    settings = settings_of(os.environ)
    named = list(map(folder_named, options.capabilities or ())) or folders_in(settings.capability_folders)
    own = user_folder() / "capabilities"
    folders = [*named, *([own] if own.is_dir() else [])]
    fixed = tuple(dict.fromkeys(options.capability or names_in(settings.boot_capabilities)))
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


def _tell_capabilities(offer: Offer) -> None:
    """Say on stderr what of capabilities could not be taken, and what can't be switched on."""
    print_notes(offer.capabilities.problems, (*offer.capabilities.notices, *offer.servers.notices))
    unavailable = offer.servers.unavailable
    for name, why in islice(unavailable.items(), _MOST_WHYS):
        print(f"note: {name} can't be switched on: {why}", file=sys.stderr)
    if others := list(unavailable)[_MOST_WHYS:]:
        named = f"{len(others)} more can't be switched on: {', '.join(others)}"
        print(f"note: {named}; agent-utilities capabilities check says why", file=sys.stderr)


def chosen_config(files: Sequence[Path], *, yes: bool, is_needed: bool = True) -> ConfigFiles:
    """Return what configures a gateway: the files that were named, or the one that is found, which is said.

    A file of the working folder is agreed to by its user, or by `yes`; what was named is agreed to with whatever it
    says, later too. With capabilities none is needed.
    """
    if files:
        return ConfigFiles(files, os.environ, read_config(files, os.environ))
    folder, home = Path.cwd(), user_home(os.environ)
    found = find_config(folder, home, os.environ)
    if found is None and not is_needed:
        return ConfigFiles((), os.environ, GatewayConfig())
    if found is None:
        looked = ", ".join(map(str, searched(folder, home, os.environ)))
        raise InputError("no config was found", str(folder), "the working folder", f"name one; looked for: {looked}")
    others = f"; passed over: {', '.join(map(str, found.passed_over))}" if found.passed_over else ""
    print(f"taking {found.path}{others}", file=sys.stderr)
    config = read_config([found.path], os.environ)
    consent = gateway_folder("consent", settings_of(os.environ).gateway_folder)
    agreed_or_refuse(found, config, consent, os.environ, yes=yes)
    return ConfigFiles([found.path], os.environ, config, lambda later: is_agreed(found, later, consent))


def print_notes(problems: Sequence[str], notices: Sequence[str]) -> None:
    """Say on stderr what could not be taken."""
    for problem in problems:
        print(f"WARNING: left out: {problem}", file=sys.stderr)
    for notice in notices:
        print(f"note: {notice}", file=sys.stderr)

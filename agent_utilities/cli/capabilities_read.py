"""What the commands of `agent-utilities capabilities` read: folders, and what each bundle there comes to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_utilities.capabilities.model import Capabilities, Capability
from agent_utilities.capabilities.requirements import check_all
from agent_utilities.capabilities.tap import BUNDLES, read_capabilities
from agent_utilities.errors import InputError
from agent_utilities.mcp.capabilities.servers import CapabilityServers, servers_of
from agent_utilities.settings_file import settings_of, user_folder
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
    """What folders of capabilities come to.

    Args:
        folders: the folders, in order.
        bundles: those that are taken, by name.
        problems: a line for each thing that leaves a bundle out.
        notices: a line for each thing that is passed over.
    """

    folders: tuple[Path, ...]
    bundles: tuple[BundleReport, ...]
    problems: tuple[str, ...]
    notices: tuple[str, ...]


def own_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the user's own bundles: `~/.config/agent-utilities/capabilities`, or as the system has it.

    Args:
        environ: the environment, which may say where the user's settings are.
    """
    return user_folder(environ) / "agent-utilities" / BUNDLES


def read_folders(given: Sequence[Path], providers: Sequence[str], config: Path | None) -> FoldersReport:
    """Return what folders come to.

    Args:
        given: the folders; the user's own where none is named, be it that he has none yet.
        providers: each `NAME=PROVIDER`, over those that the settings choose.
        config: a gateway's config file, whose servers bundles may refer to.

    Raises:
        InputError: a folder or the config file can't be read, or a provider is not `NAME=PROVIDER`.
    """
    own = own_folder(os.environ)
    folders = tuple(given) or ((own,) if own.is_dir() else ())
    upstreams = read_config([config], os.environ).upstreams if config is not None else ()
    chosen = {**settings_of(os.environ).capabilities, **_chosen(providers)}
    capabilities = read_capabilities(folders, providers=chosen)
    servers = servers_of(capabilities, upstreams, os.environ, Path.cwd())
    bundles = (_report(each, capabilities, servers) for _, each in sorted(capabilities.by_name.items()))
    notices = (*capabilities.notices, *servers.notices)
    return FoldersReport(folders or (own,), tuple(bundles), capabilities.problems, notices)


def _report(capability: Capability, capabilities: Capabilities, servers: CapabilityServers) -> BundleReport:
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
        missing=_missing(capability, capabilities.taps[name], [servers.configs[each] for each in brought]),
    )


def _missing(capability: Capability, tap: Path, configs: Sequence[UpstreamConfig]) -> tuple[str, ...]:
    """Return what is not installed of what a capability requires, and of its servers' programs. Nothing is run."""
    path = os.environ.get("PATH", os.defpath)
    checked = check_all(capability, tap, path)
    lines = [f"requires {each.requirement.name}: {each.why}" for each in checked if not each.is_there]
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

"""Capabilities' servers as upstreams of a gateway: what an operator offers, and what a caller may use of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path

from agent_utilities.catalog.model import Entry as CatalogEntry
from agent_utilities.catalog.model import entry
from agent_utilities.errors import SettingsError
from agent_utilities.gateway.capabilities.model import MAX_ACTIVE, Capabilities, Capability
from agent_utilities.gateway.capabilities.tap import edited, read_capabilities
from agent_utilities.gateway.upstreams.config import UpstreamConfig
from agent_utilities.gateway.upstreams.configuration.host_files import user_home
from agent_utilities.gateway.upstreams.configuration.server_entry import MAX_NAME, Reader
from agent_utilities.gateway.upstreams.configuration.variables import Reading
from agent_utilities.policy.bounds import Bounds
from agent_utilities.runtime.shown import shown
from agent_utilities.selection.model import fold, nearest


@dataclass(frozen=True)
class CapabilityServers:
    """The servers that capabilities bring to a gateway.

    Args:
        configs: each server that a capability brings, by its name on the gateway.
        by_capability: the names in `configs` that each capability brings.
        own: by capability, the gateway's own servers that it uses, and the globs of the tools that it wants of each.
        unavailable: by capability, why it can't be enabled, and what would do; without secrets.
        notices: a line for each thing that is ignored or renamed.
    """

    configs: dict[str, UpstreamConfig] = field(default_factory=dict)
    by_capability: dict[str, tuple[str, ...]] = field(default_factory=dict)
    own: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)


def servers_of(
    capabilities: Capabilities, own: Sequence[UpstreamConfig], environ: Mapping[str, str], folder: Path
) -> CapabilityServers:
    """Return the upstreams that capabilities bring, and which of the gateway's own they use.

    Two capabilities that bring the same server share it; another server of a taken name is named `CAPABILITY_SERVER`. A
    capability that lacks something, such as a variable, brings no server. Programs run in the folder.
    """
    placing = _Placing({fold(each.name): each for each in own}, environ, folder)
    for capability in capabilities.by_name.values():
        placing.add(capability)
    return placing.placed


class _Placing:
    """Places capabilities one after another, beside the gateway's own servers; the first server of a name keeps it."""

    def __init__(self, gateway: Mapping[str, UpstreamConfig], environ: Mapping[str, str], folder: Path) -> None:
        self._environ, self._folder = environ, folder
        self._gateway, self._by_folded_name = gateway, dict(gateway)
        self.placed = CapabilityServers()

    def add(self, capability: Capability) -> None:
        """Place a capability's servers, or say why it is unavailable."""
        notices = self.placed.notices
        reader = Reader(Reading(self._environ, self._folder, user_home(self._environ), is_in_seconds=True))
        configs = []
        for server in capability.servers:
            if not (globs := capability.patterns_for(server.name)):
                notices.append(f"{server.source}: none of its tools are wanted, and it is left out")
            elif (config := reader.read(server.name, server.entry, server.source)) is not None:
                about = capability.description or capability.title
                named = {
                    "prefix": None,
                    "tags": (capability.name,),
                    "description": about,
                    "capabilities": {capability.name: globs},
                }
                configs.append(config.model_copy(update=named))
        notices.extend(reader.notices)
        wrong = " | ".join(reader.problems)
        own, lacking = self._own(capability)
        if not (wrong or configs or own or capability.require):
            wrong = _brings_nothing(capability)
        if wrong:
            self.placed.unavailable[capability.name] = shown(wrong, 1000)
            return
        notices.extend(lacking)
        self.placed.by_capability[capability.name] = tuple([self._place(capability, config) for config in configs])
        if own:
            self.placed.own[capability.name] = own

    def _own(self, capability: Capability) -> tuple[dict[str, tuple[str, ...]], list[str]]:
        """Return the gateway's own servers that a capability refers to, and a line for each reference to none."""
        own, lacking = dict[str, tuple[str, ...]](), list[str]()
        brought = {server.name for server in capability.servers}
        for ref in _referred_to(capability):
            if ref in brought:
                continue
            server = self._gateway.get(fold(ref))
            if server is None or not server.enabled:
                is_built_in = server is None and ref in capability.built_in
                what = "is built into another host" if is_built_in else "is neither the bundle's nor the gateway's own"
                where = f"{_source(capability)}: roles.mcp.server_refs"
                lacking.append(f"{where}: the server {ref!r} {what}, and is left out")
            elif globs := capability.patterns_for(ref):
                own[server.name] = globs
        return own, lacking

    def _place(self, capability: Capability, config: UpstreamConfig) -> str:
        """Place a server under its own name, or the first free one of its capability's, and return that name."""
        long = f"{capability.name}_{config.name}"
        numbered = (f"{long[: MAX_NAME - 8]}_{i}" for i in count(2))
        name = next(each for each in chain((config.name, long[:MAX_NAME]), numbered) if self._is_free(each, config))
        if name != config.name:
            self.placed.notices.append(f"{config.source}: the name {config.name!r} is taken, and it is named {name!r}")
        there = self.placed.configs.get(name)
        placed = config.model_copy(update={"name": name}) if there is None else _shared(there, config)
        self.placed.configs[name] = self._by_folded_name[fold(name)] = placed
        return name

    def _is_free(self, name: str, config: UpstreamConfig) -> bool:
        """Whether a name is free, or another capability's for the same server: one that is reached in the same way."""
        there = self._by_folded_name.get(fold(name))
        if there is None:
            return fold(name) not in {fold(each.prefix or "") for each in self._gateway.values()}
        same = ("transport", "command", "args", "env", "cwd", "url", "headers")
        is_one = all(getattr(there, key) == getattr(config, key) for key in same)
        return is_one and there.name == name and name in self.placed.configs


def _shared(config: UpstreamConfig, other: UpstreamConfig) -> UpstreamConfig:
    """Return one server for two capabilities; the longer timeout holds."""
    descriptions = dict.fromkeys(text for text in (config.description, other.description) if text)
    return config.model_copy(
        update={
            "tags": tuple(dict.fromkeys((*config.tags, *other.tags))),
            "description": " ".join(descriptions),
            "capabilities": {**config.capabilities, **other.capabilities},
            "timeout_s": max(config.timeout_s, other.timeout_s),
        }
    )


def _brings_nothing(capability: Capability) -> str:
    names = _referred_to(capability)
    if not names:
        return f"{_source(capability)}: brings nothing; name a server under mcp.servers"
    why = "none of the gateway's own servers; add it to the gateway's config, or under mcp.servers"
    if set(names) <= set(capability.built_in):
        why = "built into another host; it works here only beside a server of that name in the gateway's config"
    return f"{_source(capability)}: needs {', '.join(names)}, which {'is' if len(names) == 1 else 'are'} {why}"


def _referred_to(capability: Capability) -> tuple[str, ...]:
    """Return the names of the servers that a capability uses, including those built into another host."""
    return tuple(dict.fromkeys((*capability.server_refs, *capability.built_in)))


def _source(capability: Capability) -> str:
    return f"{capability.name}/{Path(capability.source).name}"


_DENIES = ("denied_tool", "denied_tag")


def usable_capabilities(
    capabilities: Capabilities,
    servers: CapabilityServers,
    bounds: Bounds,
    profile: str | None,
    seen: Mapping[str, Iterable[CatalogEntry]],
) -> frozenset[str]:
    """Return the names of the capabilities that a caller may learn of and enable.

    Args:
        bounds: the caller's; the rule that hides inactive capabilities is left out.
        profile: the profile that holds for them, folded; None for none.
        seen: the known tools of servers, as the catalog has them; a server without any is judged by its name.
    """
    return frozenset(
        name
        for name, each in capabilities.by_name.items()
        if (profile is None or not each.domains or profile in map(fold, each.domains))
        and _may_leave_anything(each, servers, bounds, seen)
    )


def _may_leave_anything(
    capability: Capability, servers: CapabilityServers, bounds: Bounds, seen: Mapping[str, Iterable[CatalogEntry]]
) -> bool:
    """Whether bounds permit anything of a capability, or may once its tools are known."""
    named = entry("tool", capability.name, tags=(capability.name,), read_only=True)
    if any(rule.refuses(named) for rule in bounds.rules if rule.name in _DENIES):
        return False
    brought = servers.by_capability.get(capability.name, ())
    for server in brought:
        config = servers.configs[server]
        own = [each for each in seen.get(server, ()) if capability.name in (each.capabilities or ())]
        if any(_permits(bounds, each) for each in own):
            return True
        globs = () if own else config.capabilities[capability.name]
        if any(_may_permit(bounds, server, glob, config.tags) for glob in globs):
            return True
    # A capability that brings no server, such as a toolchain, is judged by its own name.
    return not brought and _permits(bounds, named)


def _may_permit(bounds: Bounds, server: str, glob: str, tags: Iterable[str]) -> bool:
    """Whether bounds may permit a tool that matches a glob, of a server whose tools are not known."""
    beginning, star, _ = f"{server}_{glob}".partition("*")
    unknown = entry("tool", beginning, tags=(server, *tags), read_only=True)
    return bounds.may_permit(unknown) if star else _permits(bounds, unknown)


def _permits(bounds: Bounds, judged: CatalogEntry) -> bool:
    return not any(rule.refuses(judged) for rule in bounds.rules if rule.name != "inactive")


@dataclass(frozen=True, eq=False)
class Offer:
    """The capabilities that the operator offers, and where they come from.

    Args:
        fixed: those that are on for everybody.
        most: the most others that one caller may have on.
        routes: whether words switch capabilities on.
        folders: each a tap or the folder of its bundles, later over earlier; without any nothing is read again.
        folder: the gateway's working folder, where servers run.
        providers: the provider that the user chose, by capability.
        allow_install: whether missing requirements are installed when a capability is switched on.
    """

    capabilities: Capabilities = field(default_factory=Capabilities)
    servers: CapabilityServers = field(default_factory=CapabilityServers)
    fixed: tuple[str, ...] = ()
    most: int = MAX_ACTIVE
    routes: bool = True
    folders: Sequence[Path] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    folder: Path = field(default_factory=Path)
    providers: Mapping[str, str] = field(default_factory=dict)
    allow_install: bool = False

    def read(self, own: Sequence[UpstreamConfig]) -> Offer:
        """Return the offer as the folders have it now, beside the servers of a gateway's own configuration.

        Raises:
            InputError: a folder is not there or can't be listed, or a capability that is to be on is not in any.
        """
        return self.having(self.read_folders(), own)

    def read_folders(self) -> Capabilities:
        """Return the folders' capabilities now; a half-finished edit removes none, see `edited`."""
        capabilities = edited(self.capabilities, read_capabilities(self.folders, providers=self.providers))
        for name in self.fixed:
            if name not in capabilities.by_name:
                problem = next((line for line in capabilities.problems if name in line), None)
                near, known = nearest(name, list(capabilities.by_name)), ", ".join(list(capabilities.by_name)[:10])
                hint = problem or (f"did you mean {near}?" if near else f"there are: {known or 'none'}")
                raise SettingsError("no such capability", name, "--capability, MCP_BOOT_CAPABILITIES", hint)
        return capabilities

    def having(self, capabilities: Capabilities, own: Sequence[UpstreamConfig]) -> Offer:
        """Return an offer of other capabilities, beside the servers of a gateway's own configuration."""
        servers = servers_of(capabilities, own, self.environ, self.folder)
        return replace(self, capabilities=capabilities, servers=servers)

"""Which capabilities there are for a caller: those that his profile sees, and of which bounds may leave anything."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import get_args

from agent_utilities.capabilities.model import Capabilities, Capability
from agent_utilities.catalog.model import Entry, entry
from agent_utilities.mcp.capabilities.servers import CapabilityServers
from agent_utilities.selection.model import NameSet, fold
from agent_utilities.visibility.bounds import Bounds, Rule, RuleName
from agent_utilities.visibility.names import every_name

ALL_RULES: frozenset[str] = frozenset(get_args(RuleName))
_DENIES = frozenset(("denied_tool", "denied_tag"))
_NOT_ASKED = frozenset(("inactive",))
"""That nothing of it is active yet is no reason to keep a capability from anybody."""


def usable_capabilities(
    capabilities: Capabilities,
    servers: CapabilityServers,
    bounds: Bounds,
    profile: str | None,
    seen: Mapping[str, Iterable[Entry]],
) -> frozenset[str]:
    """Return the names of the capabilities that a caller may learn of and enable.

    Args:
        capabilities: all there are.
        servers: what each brings along.
        bounds: the caller's, which of tools that were never seen are asked by the name of their server.
        profile: the profile that holds for him, folded; None for none.
        seen: by server, its tools as the catalog has them, of servers whose tools are known.
    """
    return frozenset(
        name
        for name, each in capabilities.by_name.items()
        if _is_seen_by(each, profile) and _may_leave_anything(each, servers, bounds, seen)
    )


def _is_seen_by(capability: Capability, profile: str | None) -> bool:
    return profile is None or not capability.domains or profile in map(fold, capability.domains)


def _may_leave_anything(
    capability: Capability, servers: CapabilityServers, bounds: Bounds, seen: Mapping[str, Iterable[Entry]]
) -> bool:
    """Whether bounds leave anything of a capability, or may once its tools are known."""
    named = entry("tool", capability.name, tags=(capability.name,), read_only=True)
    if _refuses(bounds, named, _DENIES):
        return False
    brought = servers.by_capability.get(capability.name, ())
    for server in brought:
        config = servers.configs[server]
        own = [each for each in seen.get(server, ()) if capability.name in (each.capabilities or ())]
        if own:
            if any(not _refuses(bounds, each) for each in own):
                return True
        elif any(_may_permit(bounds, server, glob, config.tags) for glob in config.capabilities[capability.name]):
            return True
    # What brings no server along, such as a toolchain, is judged by its own name.
    return not brought and not _refuses(bounds, named)


def _may_permit(bounds: Bounds, server: str, glob: str, tags: Iterable[str]) -> bool:
    """Whether bounds may permit a tool that a glob names, of a server that was never seen."""
    start = fold(f"{server}_{glob.partition('*')[0]}")
    unknown = entry("tool", f"{server}_{glob}" if "*" not in glob else start, tags=(server, *tags), read_only=True)
    return not any(
        rule.refuses(unknown) and not (rule.name == "not_allowed_tool" and "*" in glob and _may_name(rule, start))
        for rule in bounds.rules
        if rule.name not in _NOT_ASKED
    )


def _may_name(rule: Rule, start: str) -> bool:
    """Whether an allow-list by name has any name that begins so, or may."""
    names = every_name(rule.setting.value) if isinstance(rule.setting.value, NameSet) else frozenset[str]()
    heads = (name.partition("*") for name in names)
    return any(head.startswith(start) or (bool(star) and start.startswith(head)) for head, star, _ in heads)


def _refuses(bounds: Bounds, judged: Entry, names: Container[str] = ALL_RULES) -> bool:
    return any(rule.refuses(judged) for rule in bounds.rules if rule.name in names and rule.name not in _NOT_ASKED)

"""A capability: servers, the tools that are wanted of them, and the sentences that call for it, as its files say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

_EVERYTHING = "*"


@dataclass(frozen=True)
class CapabilityServer:
    """A server that a capability brings along.

    Args:
        name: its name in the file: the namespace of patterns, and of its tools on a gateway.
        entry: how it is reached, in the words of a server's entry in an `mcp.json`, its variables not filled in.
        tools: the only tools that are wanted of it, as it calls them; empty for all.
        source: where it stands, such as `browser/playwright.toml: mcp.servers.playwright`.
        is_built_in: whether it is part of another host, which alone can start it; `entry` is empty then.
    """

    name: str
    entry: Mapping[str, Any]
    tools: tuple[str, ...] = ()
    source: str = ""
    is_built_in: bool = False


@dataclass(frozen=True)
class Capability:
    """A capability with the provider that holds.

    Args:
        name: its folder's name.
        source: the provider's file, such as `capabilities/browser/playwright.toml`.
        folder: its folder.
        title, description: what people and models read of it; empty where nobody wrote any.
        provider: the provider's name: the file's without `.toml`.
        triggers: sentences that call for it; without any it is only ever enabled by name.
        domains: the profiles that see it; empty for every one.
        require: what must be installed, as `OWNER/TOOL`.
        server_refs: names of the servers that it uses: its own, or the gateway's.
        allowed_tools: patterns of the tools that are wanted, as `SERVER:GLOB` or `GLOB`; None for all.
        servers: those that it brings along.
        built_in: names of servers that are part of another host, and that nothing can be had of here.
    """

    name: str
    source: str
    folder: Path
    title: str = ""
    description: str = ""
    provider: str = ""
    triggers: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    require: tuple[str, ...] = ()
    server_refs: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] | None = None
    servers: tuple[CapabilityServer, ...] = ()
    built_in: tuple[str, ...] = ()

    @property
    def is_toolchain(self) -> bool:
        """Whether it is nothing but what must be installed."""
        return bool(self.require) and not self.servers and not self.server_refs

    def patterns_for(self, server: str) -> tuple[str, ...]:
        """Return the globs of the tools that are wanted of a server, as it calls them; `("*",)` for all.

        Args:
            server: its name in the file. Patterns of other servers' namespaces are none of its.
        """
        own = next((each.tools for each in self.servers if each.name == server), ())
        if self.allowed_tools is None:
            return own or (_EVERYTHING,)
        named = tuple(dict.fromkeys(_without_namespace(self.allowed_tools, server)))
        return tuple(tool for tool in own if any(fnmatchcase(tool, glob) for glob in named)) if own else named


@dataclass(frozen=True)
class Capabilities:
    """Every capability that the folders have, and what could not be taken of them.

    Args:
        by_name: in the folders' order, a later folder's in the place of an earlier one's of its name.
        problems: one line each: file, key, value, and what would do. What they concern is left out.
        notices: one line each, of what is passed over and harms nothing.
        files: every file that was read or looked for, to be watched.
        taps: by capability, the folder beside whose `capabilities/` its `deps/` stands.
        broken: the names of those that something is wrong with, and that are left out.
    """

    by_name: Mapping[str, Capability] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    taps: Mapping[str, Path] = field(default_factory=dict)
    broken: frozenset[str] = frozenset()

    @cached_property
    def triggers(self) -> Mapping[str, tuple[str, ...]]:
        """The sentences that call for each capability that has any."""
        return {name: each.triggers for name, each in self.by_name.items() if each.triggers}


def _without_namespace(patterns: Sequence[str], server: str) -> list[str]:
    """Return patterns that are a server's, or of no namespace, as the server's own names."""
    split = [pattern.partition(":") for pattern in patterns]
    return [glob if colon else name for name, colon, glob in split if not colon or name == server]

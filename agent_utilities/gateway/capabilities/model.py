"""What there is of capabilities, which are active for one caller, and whether words switch one on; with no clock."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class CapabilityServer:
    """A server that a capability brings along.

    Args:
        name: its name in the file: the namespace of patterns, and of its tools on a gateway.
        entry: how it is reached, in the words of a server's entry in an `mcp.json`, its variables not filled in.
        tools: the only tools that are wanted of it, as it calls them; empty for all.
        source: where it stands, such as `browser/playwright.toml: mcp.servers.playwright`.
    """

    name: str
    entry: Mapping[str, Any]
    tools: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True)
class Capability:
    """A capability with the provider that holds.

    Args:
        name: its folder's name.
        source: the provider's file, such as `capabilities/browser/playwright.toml`.
        tap: the folder that `deps/` stands in, with the installers of what it requires.
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
    tap: Path
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

    def patterns_for(self, server: str) -> tuple[str, ...]:
        """Return the globs of the tools that are wanted of a server in the file, as it calls them; `("*",)` for all."""
        own = next((each.tools for each in self.servers if each.name == server), ())
        if self.allowed_tools is None:
            return own or ("*",)
        split = [pattern.partition(":") for pattern in self.allowed_tools]
        globs = [glob if colon else name for name, colon, glob in split if not colon or name == server]
        named = tuple(dict.fromkeys(globs))
        return tuple(tool for tool in own if any(fnmatchcase(tool, glob) for glob in named)) if own else named


@dataclass(frozen=True)
class Capabilities:
    """Every capability that the folders have, and what could not be taken of them.

    Args:
        by_name: in the folders' order, a later folder's in the place of an earlier one's of its name.
        problems: one line each: file, key, value, and what would do. What they concern is left out.
        notices: one line each, of what is passed over and harms nothing.
        files: every file that was read or looked for, to be watched.
        broken: the names of those that something is wrong with, and that are left out.
    """

    by_name: Mapping[str, Capability] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    broken: frozenset[str] = frozenset()

    @cached_property
    def triggers(self) -> Mapping[str, tuple[str, ...]]:
        """The sentences that call for each capability that has any."""
        return {name: each.triggers for name, each in self.by_name.items() if each.triggers}


MAX_ACTIVE = 4
"""The most that are active where the operator does not say how many; those that they fixed do not count."""

Active = tuple[str, ...]
"""Names of the active capabilities, each once, the least recently used first."""


def enable(active: Active, name: str, most: int) -> Active:
    """Return what is active once a capability is enabled: where there are too many, the least recently used gives way.

    One that is active already counts as used, and nothing gives way; where `most` is 0, nothing is ever active.
    """
    if name in active:
        return used(active, (name,))
    return (*active, name)[-most:] if most > 0 else active


def difference(before: Active, after: Active) -> tuple[Active, Active]:
    """Return what came by one or more steps, and what went or gave way."""
    came = tuple(name for name in after if name not in before)
    return came, tuple(name for name in before if name not in after)


def used(active: Active, names: Container[str]) -> Active:
    """Return the same with some of them counting as used last; those that are not active are passed over."""
    return tuple(sorted(active, key=lambda name: name in names))


def brought(names: Sequence[str], usable: Container[str], most: int) -> Active:
    """Return what of a caller's list is active: what they may use, the last ones where they are too many."""
    # The last mention of a name counts: what is used again is used last.
    known = [name for name in dict.fromkeys(reversed(names)) if name in usable][: max(0, most)]
    return tuple(reversed(known))


LEAST_CHARACTERS = 8
"""Fewer are routed to nothing, once what no user wrote is stripped."""


SURPLUS_PER_LEAD = 10.0
"""How much of a score is worth a lead of 1: a best that is far over the threshold needs less of it."""


@dataclass(frozen=True, slots=True)
class Gate:
    """When a capability is activated unasked.

    Args:
        threshold: the least score of the best.
        margin: the least that it must be ahead of the second.
        margin_of_one: the same at the threshold where one word alone says something, and over the square of how many
            do. `send it to her` fits seven capabilities alike, and one of them is ahead by chance.
    """

    threshold: float
    margin: float
    margin_of_one: float = 0.0

    def for_best(self, score: float, n_words: int) -> Gate:
        """Return the gate for a best score of what was said, of which so many different words say something."""
        margin = self.margin_of_one / max(1, n_words) ** 2 - max(0.0, score - self.threshold) / SURPLUS_PER_LEAD
        return Gate(self.threshold, max(self.margin, margin))


Outcome = Literal["activated", "below", "ambiguous", "unrouted"]
"""What comes of routing: one clears the gate; none is near; two are; nothing was compared."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where a user's words lead.

    Args:
        scores: name and score of every capability that was scored, best first; equal ones by name.
        activated: the best, where it clears the gate.
        gate: what had to be cleared, its margin as it was for what was said; None where nothing was scored.
        cause: why nothing is activated, as a person reads it; empty where something is.
        by_words: whether words alone were compared, for want of vectors.
    """

    scores: tuple[tuple[str, float], ...] = ()
    activated: str | None = None
    gate: Gate | None = None
    cause: str = ""
    by_words: bool = False

    @property
    def outcome(self) -> Outcome:
        """What came of it, for those who count."""
        if self.activated is not None:
            return "activated"
        if self.gate is None or not self.scores:
            return "unrouted"
        return "below" if self.scores[0][1] < self.gate.threshold else "ambiguous"


def routed(scores: tuple[tuple[str, float], ...], gate: Gate, n_words: int, *, by_words: bool = False) -> Route:
    """Return the route that scores, best first, come to under a gate; for `n_words` see `Gate.for_best`."""
    if not scores:
        return Route(gate=gate, cause="no capability has triggers", by_words=by_words)
    name, best = scores[0]
    gate = gate.for_best(best, n_words)
    second = scores[1][1] if len(scores) > 1 else 0.0
    cause = ""
    if best < gate.threshold:
        cause = f"{name} is nearest at {best:.3f}, under the threshold of {gate.threshold:.3f}"
    elif len(scores) > 1 and best - second < gate.margin:
        cause = f"{name} is ahead of {scores[1][0]} by {best - second:.3f}, under the margin of {gate.margin:.3f}"
    return Route(scores, None if cause else name, gate, cause, by_words)

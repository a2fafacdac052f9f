"""The values of capabilities and their pure rules: what one brings, which are active, and whether words enable one."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class CapabilityServer:
    """A server that a capability brings.

    Args:
        name: its name in the file: the namespace of patterns, and of its tools on a gateway.
        entry: how it is reached, as a server's entry in an `mcp.json`, its variables not filled in.
        tools: the only tools that are wanted of it, by its own names; empty for all.
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
        title, description: its texts for people and models; empty where it has none.
        provider: the provider's name: the file's without `.toml`.
        triggers: sentences that call for it; without any it is only enabled by name.
        domains: the profiles that see it; empty for every one.
        require: what must be installed, as `OWNER/TOOL`.
        server_refs: names of the servers that it uses: its own, or the gateway's.
        allowed_tools: patterns of the tools that are wanted, as `SERVER:GLOB` or `GLOB`; None for all.
        servers: those that it brings.
        built_in: names of servers that are part of another host, and don't exist here.
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
        """Return globs of the tools that are wanted of a server, by its own names; `("*",)` for all."""
        own = next((each.tools for each in self.servers if each.name == server), ())
        if self.allowed_tools is None:
            return own or ("*",)
        split = [pattern.partition(":") for pattern in self.allowed_tools]
        globs = [glob if colon else name for name, colon, glob in split if not colon or name == server]
        named = tuple(dict.fromkeys(globs))
        return tuple(tool for tool in own if any(fnmatchcase(tool, glob) for glob in named)) if own else named


@dataclass(frozen=True)
class Capabilities:
    """Every capability of some folders, and their errors.

    Args:
        by_name: in the folders' order; a later folder's capability replaces an earlier one's of its name.
        problems: one line for each error: file, key, value, and what would do. Its bundle is left out.
        notices: one line for each harmless thing that is ignored.
        files: every file that was read or looked for, to be watched.
        broken: the names of the capabilities that are left out for their errors.
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
"""The most active capabilities by default; fixed ones do not count."""

Active = tuple[str, ...]
"""Names of the active capabilities, each once, the least recently used first."""


def enable(active: Active, name: str, most: int) -> Active:
    """Return what is active once a capability is enabled; where there are too many, the least recently used is evicted.

    One that is active already is marked as used, and nothing is evicted; where `most` is 0, nothing is ever active.
    """
    if name in active:
        return used(active, (name,))
    return (*active, name)[-most:] if most > 0 else active


def difference(before: Active, after: Active) -> tuple[Active, Active]:
    """Return what was added between two states, and what was removed."""
    came = tuple(name for name in after if name not in before)
    return came, tuple(name for name in before if name not in after)


def used(active: Active, names: Container[str]) -> Active:
    """Return the same with some names moved to the end, as used last; names that are not active are ignored."""
    return tuple(sorted(active, key=lambda name: name in names))


def brought(names: Sequence[str], usable: Container[str], most: int) -> Active:
    """Return the names of a caller's list that are active: those that they may use, the last ones of too many."""
    # The last mention of a name counts.
    known = [name for name in dict.fromkeys(reversed(names)) if name in usable][: max(0, most)]
    return tuple(reversed(known))


LEAST_CHARACTERS = 8
"""Shorter messages, without pasted text, are not routed."""


SURPLUS_PER_LEAD = 10.0
"""The surplus over the threshold that is worth a lead of 1: a best score far over it needs less of a lead."""


@dataclass(frozen=True, slots=True)
class Gate:
    """The condition under which words activate a capability.

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
        """Return the gate for a best score, of a message with so many different words that aren't stopwords."""
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
        gate: the gate for this message; None where nothing was scored.
        cause: why nothing is activated, for a person; empty where something is.
        by_words: whether words alone were compared, without vectors.
    """

    scores: tuple[tuple[str, float], ...] = ()
    activated: str | None = None
    gate: Gate | None = None
    cause: str = ""
    by_words: bool = False

    @property
    def outcome(self) -> Outcome:
        """The outcome, for metrics."""
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

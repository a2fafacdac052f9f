"""All that the upstreams of a gateway list, by the names it bears here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import mcp_types

from agent_utilities.mcp.upstream_calls import CalledUpstream, Caller
from agent_utilities.mcp.upstream_components import UpstreamPrompt, UpstreamResource, UpstreamTemplate, UpstreamTool
from agent_utilities.mcp.upstream_waiting import WaitingCalls
from agent_utilities.upstream.config import UpstreamConfig
from agent_utilities.upstream.names import Names, Namespace
from agent_utilities.upstream.snapshot import Snapshot
from agent_utilities.upstream.uris import Uris

_C = TypeVar("_C")
_L = TypeVar("_L")

DeniedBy = Callable[[UpstreamConfig, str], str | None]
"""Returns where an upstream's configuration denies a tool, by the name that the upstream calls it; None where not."""


@dataclass(frozen=True, eq=False)
class Union:
    """All that the upstreams list.

    Args:
        tools, prompts: by name here, in the order of config and listing.
        resources, templates: by URI here, likewise.
        notices: a line for each component that bears another name than its own, or is left out.
    """

    tools: dict[str, UpstreamTool] = field(default_factory=dict)
    prompts: dict[str, UpstreamPrompt] = field(default_factory=dict)
    resources: dict[str, UpstreamResource] = field(default_factory=dict)
    templates: dict[str, UpstreamTemplate] = field(default_factory=dict)
    notices: tuple[str, ...] = ()

    def changed_lists(self, before: Union) -> frozenset[str]:
        """Return the lists that differ from an earlier union's: `tools`, `prompts`, `resources`."""
        changed = set()
        for kind, name in _LISTS.items():
            now, then = getattr(self, kind), getattr(before, kind)
            if [*map(id, now.values())] != [*map(id, then.values())]:
                changed.add(name)
        return frozenset(changed)


_LISTS = {"tools": "tools", "prompts": "prompts", "resources": "resources", "templates": "resources"}


class _Here(Protocol):
    """What tells how a component is called here."""

    def of(self, upstream: str, original: str) -> str | None:
        """Return its name or URI here, or None where it is left out."""


@dataclass(frozen=True)
class _Reached:
    """An upstream that was reached, with what it lists and what was made of that: by type and name there."""

    caller: Caller
    config: UpstreamConfig
    snapshot: Snapshot
    before: Mapping[tuple[type, str], tuple[str, Any, Any]]
    made: dict[tuple[type, str], tuple[str, Any, Any]]

    def components(
        self, listed: Sequence[_L], original: Callable[[_L], str], here: _Here, make: Callable[[Caller, str, _L], _C]
    ) -> dict[str, _C]:
        """Return components by their names here: those of before, where nothing of them has changed."""
        components: dict[str, _C] = {}
        for each in listed:
            key = (type(each), original(each))
            name = here.of(self.config.name, key[1])
            if name is None or key in self.made:
                continue
            made = self.before.get(key)
            if made is None or made[0] != name or made[1] != each:
                made = (name, each, make(self.caller, name, each))
            self.made[key] = made
            components[name] = made[2]
        return components


class Unions:
    """Makes one union after the other. What is listed as before is the component of before.

    So a list of a thousand tools of which one has changed is read in a moment, and one that is listed anew without any
    change is told to nobody.

    Args:
        denied_by: tells which tools the configuration denies.
        waiting: keeps calls whose callers are asked in results.
    """

    def __init__(self, denied_by: DeniedBy, waiting: WaitingCalls) -> None:
        self._denied_by = denied_by
        self._waiting = waiting
        self._reached: Mapping[str, _Reached] = {}

    def of(self, upstreams: Sequence[CalledUpstream]) -> Union:
        """Return what upstreams list now, in their order."""
        namespace = Namespace(upstream.config.name for upstream in upstreams)
        reached = [self._now(each, each.snapshot) for each in upstreams if each.snapshot is not None]
        self._reached = {each.config.name: each for each in reached}
        tools = Names(namespace, _listed(reached, lambda shot: [tool.name for tool in shot.tools]))
        prompts = Names(namespace, _listed(reached, lambda shot: [prompt.name for prompt in shot.prompts]))
        uris = Uris(namespace.prefixes, _listed(reached, lambda shot: [each.uri for each in shot.resources]))
        templates = Uris(
            namespace.prefixes, _listed(reached, lambda shot: [each.uri_template for each in shot.templates])
        )
        union = Union(
            {}, {}, {}, {}, (*namespace.notices(), *tools.notices, *prompts.notices, *uris.notices, *templates.notices)
        )
        for each in reached:
            shot = each.snapshot
            union.tools.update(each.components(shot.tools, lambda it: it.name, tools, self._tool))
            union.prompts.update(each.components(shot.prompts, lambda it: it.name, prompts, UpstreamPrompt.of))
            union.resources.update(each.components(shot.resources, lambda it: it.uri, uris, UpstreamResource.of))
            union.templates.update(
                each.components(shot.templates, lambda it: it.uri_template, templates, UpstreamTemplate.of)
            )
        return union

    def _now(self, upstream: CalledUpstream, snapshot: Snapshot) -> _Reached:
        before = self._reached.get(upstream.config.name)
        if before is None or before.caller.upstream is not upstream or before.config != upstream.config:
            return _Reached(Caller(upstream, self._waiting), upstream.config, snapshot, {}, {})
        return _Reached(before.caller, before.config, snapshot, before.made, {})

    def _tool(self, caller: Caller, name: str, listed: mcp_types.Tool) -> UpstreamTool:
        return UpstreamTool.of(caller, name, listed, self._denied_by(caller.config, listed.name))


def _listed(reached: Sequence[_Reached], originals: Callable[[Snapshot], Sequence[str]]) -> dict[str, Sequence[str]]:
    return {each.config.name: originals(each.snapshot) for each in reached}

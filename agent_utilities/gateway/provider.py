"""All upstreams' components as one provider: listed from snapshots, and called through connections."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import mcp_types
from fastmcp.prompts.base import Prompt
from fastmcp.resources.base import Resource
from fastmcp.resources.template import ResourceTemplate
from fastmcp.tools.base import Tool
from fastmcp.utilities.components import FastMCPComponent
from fastmcp.utilities.versions import VersionSpec

from agent_utilities.catalog.model import ComponentKind
from agent_utilities.gateway import components
from agent_utilities.gateway.calls import Caller
from agent_utilities.gateway.relay import present_caller
from agent_utilities.gateway.upstreams.config import UpstreamConfig
from agent_utilities.gateway.upstreams.names import Namespace, head, names_here, uris_here
from agent_utilities.gateway.upstreams.operator.lock import Key, Kind
from agent_utilities.gateway.upstreams.operator.operator_rules import OperatorRules
from agent_utilities.gateway.upstreams.snapshot import Snapshot
from agent_utilities.gateway.upstreams.supervision.upstream import Upstream
from agent_utilities.gateway.uris import Links, Uris, with_pages
from agent_utilities.gateway.waiting_calls import WaitingCalls
from agent_utilities.policy.bounds import Bounds, Steps, finish
from agent_utilities.runtime.waiting import finish_in_turns
from agent_utilities.seam.components import KeptProvider, entry_of

logger = logging.getLogger("agent_utilities.gateway")

_C = TypeVar("_C", bound=FastMCPComponent)

_A_STEP = 50
"""Components made in one step of a millisecond or two."""

_KINDS: Mapping[Kind, tuple[ComponentKind, type[components.OfUpstream]]] = {
    "resources": ("resource", components.UpstreamResource),
    "templates": ("template", components.UpstreamTemplate),
    "tools": ("tool", components.UpstreamTool),
    "prompts": ("prompt", components.UpstreamPrompt),
}
"""By list, its kind and the class of its components; what others refer to by URI comes first."""

Denials = Callable[[UpstreamConfig, Snapshot], Steps[Mapping[Key, str]]]
"""Returns the components of an upstream that the operator denies, each with the place of the rule."""
Own = Mapping[str, tuple[Upstream, Callable[..., Caller]]]
"""By name, one person's own upstreams, each with the factory of its `Caller`."""
_Renames = Callable[[str, str], str]
"""Returns the URI here for an upstream, by name, and its own URI, as the current caller reads it."""
_Reached = tuple[Caller, Snapshot, Mapping[Key, str]]
"""An upstream that was reached: its caller, its snapshot, and the denied components."""
_Parts = tuple[Caller, str, dict[str, Any], str | None, list[str]]
"""What a component is made from: its caller, name here, definition, the place of its denial, and its skills."""


@dataclass(frozen=True, eq=False)
class Union:
    """All that the upstreams list.

    Args:
        by_kind: the components of each kind by their names or URIs here, in the order of config and listing.
        notices: a line for each component that is renamed or left out.
        prefixes: by upstream, reached or not, the prefix of its names, without the underscore.
        reached: the upstreams that were reached, by name.
        made: every component with its parts, by its key at the upstream.
        uris: where URIs lead.
        skills: by URI of its `SKILL.md` here, each skill that is not denied, with its upstream.
    """

    by_kind: Mapping[Kind, dict[str, Any]] = field(default_factory=lambda: {kind: {} for kind in _KINDS})
    notices: tuple[str, ...] = ()
    prefixes: Mapping[str, str] = field(default_factory=dict)
    reached: Mapping[str, _Reached] = field(default_factory=dict)
    made: Mapping[Key, tuple[_Parts, Any]] = field(default_factory=dict)
    uris: Uris = field(default_factory=Uris)
    skills: Mapping[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)


def union_of(
    upstreams: Sequence[Upstream], before: Union, denials: Denials, waiting: WaitingCalls, uri_here: _Renames, own: Own
) -> Steps[Union]:
    """Return what upstreams list now, in their order; disabled ones count only for the others' names.

    A component that has not changed is reused from `before`. So a list of a thousand tools of which one has changed is
    made in a moment, and nobody is notified of a list that is taken again without a change.

    Each of `own` replaces the upstream of its name.
    """
    upstreams = [own[each.config.name][0] if each.config.name in own else each for each in upstreams]
    prefixes = {upstream.config.name: upstream.config.prefix for upstream in upstreams}
    namespace = Namespace(prefixes, prefixes)
    tags = components.operators_tags(upstream.config for upstream in upstreams)
    seen = [(each, each.config, each.snapshot) for each in upstreams if each.config.enabled]
    reached: dict[str, _Reached] = {}
    for upstream, config, snapshot in seen:
        if snapshot is not None:
            make = own[config.name][1] if config.name in own else Caller
            caller = make(upstream, config, namespace, tags, waiting, uri_here)
            reached[config.name] = caller, snapshot, (yield from denials(config, snapshot))
    made: dict[Key, tuple[_Parts, Any]] = {}
    union, notices = Union(), list(namespace.notices())
    uris = Uris(union.by_kind["resources"], union.by_kind["templates"], skills=_folders(reached))
    for kind, (_, made_of) in _KINDS.items():
        called = made_of.kind.key
        listed = {name: [x[called] for x in getattr(shot, kind)] for name, (_, shot, _) in reached.items()}
        here, renamed = (names_here if kind in ("tools", "prompts") else uris_here)(namespace, listed)
        notices += renamed
        if kind == "resources":
            uris.here = here
        yield
        for upstream_name, (caller, snapshot, denied) in reached.items():
            for n, each in enumerate(getattr(snapshot, kind)):
                if n % _A_STEP == 0:
                    yield
                original = each[called]
                # A page's URI that another upstream has too must not lead there.
                each = with_pages(each, partial(uris.uri_here, namespace, upstream_name, links=uris.named))
                name, key = here.get((upstream_name, original)), Key(upstream_name, kind, original)
                if name is None or key in made:
                    continue
                of = (caller, name, each, denied.get(key), uris.skills_with(namespace, upstream_name, original))
                known = before.made.get(key)
                made[key] = known if known is not None and known[0] == of else (of, made_of.of(*of))
                union.by_kind[kind][name] = made[key][1]
    notices += (each.notice for each in union.by_kind["templates"].values() if each.parsed is None)
    skills = yield from uris.take_skills(reached)
    return Union(union.by_kind, tuple(notices), namespace.prefixes, reached, made, uris, skills)


def _folders(reached: Mapping[str, _Reached]) -> set[tuple[str, str]]:
    skills = ((name, skill["uri"]) for name, (_, shot, _) in reached.items() for skill in shot.skills)
    return {(name, uri.removesuffix("/SKILL.md")) for name, uri in skills}


_AT_ONCE = 1_000
"""The most components that are compared without a turn of the event loop: 10 ms."""


class UpstreamProvider(KeptProvider):
    """Lists the components of enabled upstreams from their snapshots, and calls them at the upstream.

    The operator denies what `denials` returns, or by default what the configurations deny.
    """

    def __init__(self, upstreams: Iterable[Upstream], denials: Denials | None = None) -> None:
        super().__init__()
        self._upstreams, self._denials = upstreams, denials or OperatorRules().denials
        self.waiting = WaitingCalls()
        """Calls whose callers are asked by results."""
        self.links = Links()
        """Callers' links that are in no list."""
        self._union = Union()
        self.of_caller: Callable[[], Union | None] = lambda: None
        """Returns the current caller's own union; None where they are listed the same as everybody."""
        self._renewing: asyncio.Task[None] | None = None
        self._is_outdated = False
        self.on_taken: Callable[[], None] = lambda: None
        """Called whenever the upstreams' lists were taken again."""
        self._take(finish(self._now()))

    def _now(self) -> Steps[Union]:
        return union_of(list(self._upstreams), self._union, self._denials, self.waiting, self._uri_here, {})

    def with_own(self, own: Own, before: Union) -> Steps[Union]:
        """Return the union for a person who has upstreams of their own, with the components of their last one."""
        known = Union(made={**before.made, **self._union.made})
        return union_of(list(self._upstreams), known, self._denials, self.waiting, self._uri_here, own)

    def _uri_here(self, upstream: str, uri: str) -> str:
        """Return the URI here for an upstream's own URI, as the current caller reads it."""
        present = self.shown()
        namespace = present.reached[upstream][0].namespace
        return present.uris.uri_here(namespace, upstream, uri, links=self.links.of(present_caller()))

    def shown(self) -> Union:
        """Return the current caller's union, before any bound."""
        return self.of_caller() or self._union

    @property
    def generation_for_caller(self) -> Hashable:
        """A value that differs between callers with different lists, and changes with the list."""
        return self.generation, self.of_caller()

    def renew(self) -> None:
        """Take the upstreams' lists again, and notify of changes; long lists in turns with the event loop (law L7)."""
        is_renewing = self._renewing is not None
        if is_renewing or (self.waiting.is_running and sum(map(_n_listed, self._upstreams)) > _AT_ONCE):
            self._is_outdated = True
            if not is_renewing:
                self._renewing = asyncio.create_task(self._renew_in_turns())
        else:
            self._take(finish(self._now()))

    async def _renew_in_turns(self) -> None:
        try:
            while self._is_outdated:
                self._is_outdated = False
                try:
                    self._take(await finish_in_turns(self._now()))
                except Exception:
                    logger.exception("what upstreams list could not be taken; what they listed before is still listed")
        finally:
            self._renewing = None

    async def taken(self) -> None:
        """Wait until the latest lists of the upstreams are taken."""
        if self._renewing is not None:
            await asyncio.wait([self._renewing])

    def _take(self, union: Union) -> None:
        before, self._union = self._union, union
        self.notify_difference(before, union)
        self.on_taken()

    def notify_difference(self, before: Union, now: Union) -> None:
        """Notify of the lists that have changed, if any."""
        changed = [
            kind
            for kind, listed in now.by_kind.items()
            if [*map(id, listed.values())] != [*map(id, before.by_kind[kind].values())]
        ]
        if changed:
            self.notify_changed("resources" if kind == "templates" else kind for kind in changed)

    def _listed(self, kind: Kind) -> Sequence[Any]:
        return tuple(self.shown().by_kind[kind].values())

    def prefix_of(self, upstream: str) -> str:
        """Return the beginning of the names of an upstream's tools and prompts."""
        return head(self.shown().prefixes.get(upstream, upstream))

    def upstreams_of(self, bounds: Bounds) -> dict[str, int]:
        """Return the names of the upstreams of which bounds permit anything, each with its number of such tools."""
        n_tools: dict[str, int] = {}
        for list_name, (kind, _) in _KINDS.items():
            for component in self._listed(list_name):
                name = component.caller.config.name
                if (kind == "tool" or name not in n_tools) and bounds.refusal(entry_of(kind, component)) is None:
                    n_tools[name] = n_tools.get(name, 0) + (kind == "tool")
        return n_tools

    def tools(self) -> Sequence[components.UpstreamTool]:
        """Return every tool, whoever may use it."""
        return self._listed("tools")

    @property
    def notices(self) -> tuple[str, ...]:
        """A line for each component that is renamed or left out."""
        return self.shown().notices

    def instructions(self, permitted: Iterable[object], own: int) -> str | None:
        """Return the instructions of the upstreams of which a caller may use any component.

        Args:
            own: how many characters the gateway's own instructions have.
        """
        usable = {each.caller.config.name for each in permitted if isinstance(each, components.OfUpstream)}
        prefixes, reached = self.shown().prefixes, self.shown().reached
        return joined(
            [
                (name, prefixes[name], snapshot.instructions)
                for name, (_, snapshot, denials) in reached.items()
                if name in usable and snapshot.instructions and Key(name, "instructions", "") not in denials
            ],
            max(0, MOST_CHARACTERS - own),
        )

    async def _list_tools(self) -> Sequence[Tool]:
        return self._listed("tools")

    async def _list_prompts(self) -> Sequence[Prompt]:
        return self._listed("prompts")

    async def _list_resources(self) -> Sequence[Resource]:
        return self._listed("resources")

    async def _list_resource_templates(self) -> Sequence[ResourceTemplate]:
        return self._listed("templates")

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:
        return _of_version(self.shown().by_kind["tools"].get(name), version)

    async def _get_prompt(self, name: str, version: VersionSpec | None = None) -> Prompt | None:
        return _of_version(self.shown().by_kind["prompts"].get(name), version)

    async def _get_resource(self, uri: str, version: VersionSpec | None = None) -> Resource | None:
        resource = self.shown().by_kind["resources"].get(uri)
        return _of_version(self._linked(uri) if resource is None else resource, version)

    def _linked(self, uri: str) -> components.OfUpstream | None:
        """Return the resource that a link of the current caller's leads to; the bounds of its upstream hold for it."""
        present = self.shown()
        upstream, original = present.uris.named.get(uri) or self.links.of(present_caller()).get(uri) or ("", "")
        if upstream not in present.reached:
            return None
        caller, listed = present.reached[upstream][0], {"uri": original, "name": original}
        skills = present.uris.skills_with(caller.namespace, upstream, original)
        return components.UpstreamResource.of(caller, uri, listed, skills=skills)

    async def _get_resource_template(self, uri: str, version: VersionSpec | None = None) -> ResourceTemplate | None:
        return _of_version(self.shown().uris.template(uri) or self.shown().uris.nearest_template(uri), version)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Keep calls that wait for their callers' answers, and take long lists in turns, while the server runs."""
        async with self.waiting.running():
            try:
                yield
            finally:
                if self._renewing is not None:
                    self._renewing.cancel()
                    await asyncio.wait([self._renewing])

    async def complete(
        self,
        reference: mcp_types.PromptReference | mcp_types.ResourceTemplateReference,
        argument: mcp_types.CompletionArgument,
        values: mcp_types.CompletionContext | None,
    ) -> mcp_types.Completion:
        """Complete, by its upstream, an argument of a prompt or template that the caller may use."""
        if isinstance(reference, mcp_types.PromptReference):
            component = self.shown().by_kind["prompts"].get(reference.name)
        else:
            component = self.shown().by_kind["templates"].get(reference.uri) or await self._get_resource(reference.uri)
        if component is None:
            return mcp_types.Completion(values=[])
        completion: mcp_types.Completion = await component.caller.complete(component.reference, argument, values)
        return completion

    async def get_tasks(self) -> Sequence[FastMCPComponent]:
        """Return none: an upstream runs its own background tasks."""
        return []


def _of_version(component: _C | None, version: VersionSpec | None) -> _C | None:
    return component if component is not None and (version is None or version.matches(component.version)) else None


def _n_listed(upstream: Upstream) -> int:
    shot = upstream.snapshot
    return 0 if shot is None else sum(len(getattr(shot, kind)) for kind in _KINDS)


# -- instructions of upstreams -----------------------------------------------------------------------------------------

MOST_CHARACTERS = 1_400
"""The most characters of all instructions: hosts cut at 2,000, and tool search needs some too."""
_LEAST_CHARACTERS = 150
"""The least characters for each upstream, its name included; those without room are only counted."""

_CUT = " …"
_HEADING = re.compile(r"^[ \t]{0,3}#", re.MULTILINE)
_NO_TEXT = re.compile(
    r"[^\S\n\t ]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)


def joined(instructions: Sequence[tuple[str, str, str]], room: int = MOST_CHARACTERS) -> str | None:
    """Return the instructions of upstreams, each a name, prefix and text, as one text; None where all are empty.

    Instructions are only text: they can't pose as another upstream's by a heading, nor hide behind invisible
    characters. The upstreams share the room, and one that needs less leaves the rest to the others.
    """
    said = {name: (prefix, text) for name, prefix, raw in instructions if (text := _plain(raw, room))}
    named = list(said)[: room // _LEAST_CHARACTERS]
    rest = f"Left out: the instructions of {len(said) - len(named)} others." if len(named) < len(said) else ""
    left, parts = room - len(rest) - 2, dict[str, str]()
    for i, name in enumerate(sorted(named, key=lambda name: len(said[name][1]))):
        prefix, text = said[name]
        share = left // (len(named) - i) - 2
        begin = f" (names begin with `{prefix}_`)" if prefix else ""
        parts[name] = _within(f"## {_plain(name, 60)}{begin}\n{text}", share)
        left -= len(parts[name]) + 2
    return "\n\n".join(filter(None, (*(parts[name] for name in named), rest))) or None


def _plain(text: str, most: int) -> str:
    return _within(_HEADING.sub(r"\\#", _NO_TEXT.sub(" ", text[: 2 * most].replace("\r\n", "\n"))).strip(), most)


def _within(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - len(_CUT)].rstrip() + _CUT

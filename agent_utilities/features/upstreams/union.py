"""All that the upstreams of a gateway list, by the names it bears here, and what they say of themselves."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from agent_utilities.features.upstreams.calls import Caller
from agent_utilities.features.upstreams.components import (
    UpstreamPrompt,
    UpstreamResource,
    UpstreamTemplate,
    UpstreamTool,
)
from agent_utilities.features.upstreams.waiting import WaitingCalls
from agent_utilities.selection.model import fold
from agent_utilities.upstream.config import UpstreamConfig
from agent_utilities.upstream.names import Names, Namespace, Uris
from agent_utilities.upstream.operator.lock import Key, Kind
from agent_utilities.upstream.snapshot import Snapshot
from agent_utilities.upstream.supervision.supervisor import Upstream
from agent_utilities.visibility.bounds import Steps

MOST_OF_ONE = 2_000
"""The most characters of one upstream's instructions."""
MOST_OF_ALL = 12_000
"""The most characters of all upstreams' together, headings aside; each is given the same share where they are many."""

_CUT = " …"
_HEADING = re.compile(r"^[ \t]{0,3}#", re.MULTILINE)
_NO_TEXT = re.compile(
    r"[^\S\n\t ]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)


@dataclass(frozen=True, slots=True)
class Instructions:
    """What one upstream says of itself.

    Args:
        upstream: its name.
        prefix: what the names of its components begin with here.
        text: as it says it.
    """

    upstream: str
    prefix: str
    text: str


def joined(own: str | None, told: Sequence[Instructions]) -> str | None:
    """Return the gateway's own instructions and its upstreams', or None where nobody says anything.

    What an upstream says is text to us: it can't pose as another's by a heading, nor hide behind characters that
    nobody sees.

    Args:
        own: the gateway's.
        told: those of the upstreams that the caller may use, in the order of the config.
    """
    share = min(MOST_OF_ONE, MOST_OF_ALL // max(1, len(told)))
    parts = [own] if own else []
    for each in told:
        if text := _plain(each.text, share):
            parts.append(f"## {_plain(each.upstream, share)} (names begin with `{each.prefix}_`)\n{text}")
    return "\n\n".join(parts) or None


def _plain(text: str, most: int) -> str:
    shown = _HEADING.sub(r"\\#", _NO_TEXT.sub(" ", text[: 2 * most].replace("\r\n", "\n"))).strip()
    return shown if len(shown) <= most else shown[: most - len(_CUT)].rstrip() + _CUT


_A_STEP = 50
"""Components that are made in one step: a millisecond or two."""

_C = TypeVar("_C")
_L = TypeVar("_L")

Denials = Callable[[UpstreamConfig, Snapshot], Steps[Mapping[Key, str]]]
"""Returns which components of an upstream the operator denies, each with the place where he does."""


@dataclass(frozen=True, eq=False)
class Union:
    """All that the upstreams list.

    Args:
        tools, prompts: by name here, in the order of config and listing.
        resources, templates: by URI here, likewise.
        notices: a line for each component that bears another name than its own, or is left out.
        prefixes: by upstream, reached or not, the prefix of its names, without the underscore.
    """

    tools: dict[str, UpstreamTool] = field(default_factory=dict)
    prompts: dict[str, UpstreamPrompt] = field(default_factory=dict)
    resources: dict[str, UpstreamResource] = field(default_factory=dict)
    templates: dict[str, UpstreamTemplate] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    prefixes: Mapping[str, str] = field(default_factory=dict)

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


_Given = tuple[str, Any, str | None]
"""What a component is made of: its name here, what is listed, and where it is denied."""


@dataclass(frozen=True)
class _Reached:
    """An upstream that was reached, with what it lists and what was made of that: by type and name there."""

    caller: Caller
    config: UpstreamConfig
    snapshot: Snapshot
    denials: Mapping[Key, str]
    before: Mapping[tuple[type, str], tuple[_Given, Any]]
    made: dict[tuple[type, str], tuple[_Given, Any]]

    def components(
        self,
        kind: Kind,
        listed: Sequence[_L],
        original: Callable[[_L], str],
        here: _Here,
        make: Callable[[Caller, str, _L, str | None], _C],
        into: dict[str, _C],
    ) -> Steps[None]:
        """Put components by their names here into a mapping: those of before, where nothing of them has changed."""
        for n, each in enumerate(listed):
            if n % _A_STEP == 0:
                yield
            key = (type(each), original(each))
            name = here.of(self.config.name, key[1])
            if name is None or key in self.made:
                continue
            given = (name, each, self.denials.get(Key(self.config.name, kind, key[1])))
            made = self.before.get(key)
            if made is None or made[0] != given:
                made = (given, make(self.caller, *given))
            self.made[key] = made
            into[name] = made[1]


class Unions:
    """Makes one union after the other. What is listed as before is the component of before.

    So a list of a thousand tools of which one has changed is read in a moment, and one that is listed anew without any
    change is told to nobody.

    Args:
        denials: tells what the operator denies.
        waiting: keeps calls whose callers are asked in results.
    """

    def __init__(self, denials: Denials, waiting: WaitingCalls) -> None:
        self._denials = denials
        self._waiting = waiting
        self._reached: Mapping[str, _Reached] = {}

    def making(self, upstreams: Sequence[Upstream]) -> Steps[Union]:
        """Return what upstreams list now, in their order; those that are disabled count only for the others' names."""
        namespace = Namespace(upstream.config.name for upstream in upstreams)
        tags = operators_tags(upstream.config for upstream in upstreams)
        seen = [(each, each.snapshot) for each in upstreams if each.config.enabled]
        reached: list[_Reached] = []
        for upstream, snapshot in seen:
            if snapshot is not None:
                reached.append((yield from self._now(upstream, snapshot, namespace, tags)))
        tools = Names(namespace, _listed(reached, lambda shot: map(_name, shot.tools)))
        yield
        prompts = Names(namespace, _listed(reached, lambda shot: map(_name, shot.prompts)))
        yield
        uris = Uris(namespace.prefixes, _listed(reached, lambda shot: map(_uri, shot.resources)))
        yield
        templates = Uris(namespace.prefixes, _listed(reached, lambda shot: map(_template, shot.templates)))
        notices = (*namespace.notices(), *tools.notices, *prompts.notices, *uris.notices, *templates.notices)
        union = Union({}, {}, {}, {}, notices, namespace.prefixes)
        for each in reached:
            shot = each.snapshot
            yield from each.components("tools", shot.tools, _name, tools, UpstreamTool.of, union.tools)
            yield from each.components("prompts", shot.prompts, _name, prompts, UpstreamPrompt.of, union.prompts)
            yield from each.components("resources", shot.resources, _uri, uris, UpstreamResource.of, union.resources)
            yield from each.components(
                "templates", shot.templates, _template, templates, UpstreamTemplate.of, union.templates
            )
        self._reached = {each.config.name: each for each in reached}
        return union

    def instructions(self, usable: Collection[str]) -> Sequence[Instructions]:
        """Return what some of the upstreams, by name, say of themselves."""
        return [
            Instructions(name, each.caller.namespace.prefixes[name], each.snapshot.instructions)
            for name, each in self._reached.items()
            if name in usable and each.snapshot.instructions and Key(name, "instructions", "") not in each.denials
        ]

    def _now(
        self, upstream: Upstream, snapshot: Snapshot, namespace: Namespace, operators_tags: frozenset[str]
    ) -> Steps[_Reached]:
        before = self._reached.get(upstream.config.name)
        denials = yield from self._denials(upstream.config, snapshot)
        is_same = before is not None and before.caller.upstream is upstream and before.config == upstream.config
        names = (namespace, operators_tags)
        if before is None or not is_same or (before.caller.namespace, before.caller.operators_tags) != names:
            caller = Caller(upstream, namespace, self._waiting, operators_tags)
            return _Reached(caller, upstream.config, snapshot, denials, {}, {})
        return _Reached(before.caller, before.config, snapshot, denials, before.made, {})


def no_denials(config: UpstreamConfig, snapshot: Snapshot) -> Steps[Mapping[Key, str]]:
    """Deny nothing."""
    yield from ()
    return {}


def operators_tags(configs: Iterable[UpstreamConfig]) -> frozenset[str]:
    """Return the tags that are given by configurations, folded: no upstream can give one to what it lists."""
    tags: set[str] = set()
    for config in configs:
        tags.update((config.name, *config.tags))
        tags.update(tag for override in config.overrides.values() for tag in override.tags)
    return frozenset(map(fold, tags))


def _name(listed: Any) -> str:
    return str(listed.name)


def _uri(listed: Any) -> str:
    return str(listed.uri)


def _template(listed: Any) -> str:
    return str(listed.uri_template)


def _listed(reached: Sequence[_Reached], originals: Callable[[Snapshot], Iterable[str]]) -> dict[str, Sequence[str]]:
    return {each.config.name: list(originals(each.snapshot)) for each in reached}

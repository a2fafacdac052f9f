"""All that the upstreams of a gateway list, by the names it bears here, and what they say of themselves."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

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
from agent_utilities.upstream.names import Namespace, names_here, uris_here
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


def joined(told: Sequence[tuple[str, str, str]]) -> str | None:
    """Return the instructions of the upstreams that a caller may use, or None where nobody says anything.

    What an upstream says is text to us: it can't pose as another's by a heading, nor hide behind characters that
    nobody sees.

    Args:
        told: of each its name, what the names of its components begin with here, and what it says of itself.
    """
    share = min(MOST_OF_ONE, MOST_OF_ALL // max(1, len(told)))
    parts = []
    for upstream, prefix, said in told:
        if text := _plain(said, share):
            parts.append(f"## {_plain(upstream, share)} (names begin with `{prefix}_`)\n{text}")
    return "\n\n".join(parts) or None


def _plain(text: str, most: int) -> str:
    shown = _HEADING.sub(r"\\#", _NO_TEXT.sub(" ", text[: 2 * most].replace("\r\n", "\n"))).strip()
    return shown if len(shown) <= most else shown[: most - len(_CUT)].rstrip() + _CUT


_A_STEP = 50
"""Components that are made in one step: a millisecond or two."""

_KINDS: Mapping[Kind, tuple[str, Callable[..., Any]]] = {
    "tools": ("name", UpstreamTool.of),
    "prompts": ("name", UpstreamPrompt.of),
    "resources": ("uri", UpstreamResource.of),
    "templates": ("uri_template", UpstreamTemplate.of),
}
"""By kind, what the upstream calls each by, and what makes the component of it."""

Denials = Callable[[UpstreamConfig, Snapshot], Steps[Mapping[Key, str]]]
"""Returns which components of an upstream the operator denies, each with the place where they do."""
_Reached = tuple[Caller, Snapshot, Mapping[Key, str]]
"""An upstream that was reached: what calls it, what it lists, and what of that is denied."""
_Given = tuple[Caller, str, Any, str | None]
"""What a component is made of: what calls it, its name here, how it is listed, and where it is denied."""


@dataclass(frozen=True, eq=False)
class Union:
    """All that the upstreams list.

    Args:
        by_kind: the components of each kind by their names or URIs here, in the order of config and listing.
        notices: a line for each component that bears another name than its own, or is left out.
        prefixes: by upstream, reached or not, the prefix of its names, without the underscore.
        reached: the upstreams that were reached, by name.
        made: every component with what it was made of, by what it is at its upstream.
    """

    by_kind: Mapping[Kind, dict[str, Any]] = field(default_factory=lambda: {kind: {} for kind in _KINDS})
    notices: tuple[str, ...] = ()
    prefixes: Mapping[str, str] = field(default_factory=dict)
    reached: Mapping[str, _Reached] = field(default_factory=dict)
    made: Mapping[Key, tuple[_Given, Any]] = field(default_factory=dict)

    def changed_lists(self, before: Union) -> frozenset[str]:
        """Return the lists that differ from an earlier union's: `tools`, `prompts`, `resources`."""
        changed = set()
        for kind, now in self.by_kind.items():
            if [*map(id, now.values())] != [*map(id, before.by_kind[kind].values())]:
                changed.add("resources" if kind == "templates" else kind)
        return frozenset(changed)

    def instructions(self, usable: Collection[str]) -> str | None:
        """Return what some of the upstreams, by name, say of themselves."""
        return joined(
            [
                (name, self.prefixes[name], snapshot.instructions)
                for name, (_, snapshot, denials) in self.reached.items()
                if name in usable and snapshot.instructions and Key(name, "instructions", "") not in denials
            ]
        )


def union_of(upstreams: Sequence[Upstream], before: Union, denials: Denials, waiting: WaitingCalls) -> Steps[Union]:
    """Return what upstreams list now, in their order; those that are disabled count only for the others' names.

    What is listed as before is the component of before. So a list of a thousand tools of which one has changed is read
    in a moment, and one that is listed anew without any change is told to nobody.

    Args:
        denials: tells what the operator denies.
        waiting: keeps calls whose callers are asked in results.
    """
    namespace = Namespace(upstream.config.name for upstream in upstreams)
    tags = operators_tags(upstream.config for upstream in upstreams)
    seen = [(each, each.config, each.snapshot) for each in upstreams if each.config.enabled]
    reached: dict[str, _Reached] = {}
    for upstream, config, snapshot in seen:
        if snapshot is not None:
            caller = Caller(upstream, config, namespace, tags, waiting)
            known = before.reached.get(config.name)
            same = known[0] if known is not None and known[0] == caller else caller
            reached[config.name] = same, snapshot, (yield from denials(config, snapshot))
    made: dict[Key, tuple[_Given, Any]] = {}
    union, notices = Union(), list(namespace.notices())
    for kind, (attribute, _) in _KINDS.items():
        called = attrgetter(attribute)
        listed = {name: [str(called(x)) for x in getattr(shot, kind)] for name, (_, shot, _) in reached.items()}
        here, told = (names_here if kind in ("tools", "prompts") else uris_here)(namespace, listed)
        notices += told
        yield
        for each in reached.values():
            yield from _components(kind, each, here, before, made, union.by_kind[kind])
    return Union(union.by_kind, tuple(notices), namespace.prefixes, reached, made)


def _components(
    kind: Kind,
    reached: _Reached,
    here: Mapping[tuple[str, str], str],
    before: Union,
    made: dict[Key, tuple[_Given, Any]],
    into: dict[str, Any],
) -> Steps[None]:
    """Put the components of an upstream by their names here into a mapping."""
    caller, snapshot, denials = reached
    attribute, make = _KINDS[kind]
    for n, listed in enumerate(getattr(snapshot, kind)):
        if n % _A_STEP == 0:
            yield
        original = str(getattr(listed, attribute))
        name, key = here.get((caller.config.name, original)), Key(caller.config.name, kind, original)
        if name is None or key in made:
            continue
        given = (caller, name, listed, denials.get(key))
        known = before.made.get(key)
        made[key] = known if known is not None and known[0] == given else (given, make(*given))
        into[name] = made[key][1]


def operators_tags(configs: Iterable[UpstreamConfig]) -> frozenset[str]:
    """Return the tags that are given by configurations, folded: no upstream can give one to what it lists."""
    tags: set[str] = set()
    for config in configs:
        tags.update((config.name, *config.tags))
        tags.update(tag for override in config.overrides.values() for tag in override.tags)
    return frozenset(map(fold, tags))

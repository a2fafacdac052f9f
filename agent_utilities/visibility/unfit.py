"""Names in bounds that fit no component: a misspelt deny leaves open what it was to close."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter

from agent_utilities.catalog.model import Entry
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import NameSet, Setting, Side, nearest
from agent_utilities.visibility.bounds import Steps, matching

_STEP = 2000
"""Names that are compared with an unknown one in one step: two milliseconds."""
MAX_UNKNOWN = 16
"""The most unknown names that are reported at once; each costs a search for the nearest."""


@dataclass(frozen=True, slots=True)
class UnfitName:
    """A name or glob that fits nothing.

    Args:
        name: folded, as it is compared.
        setting: the setting that holds it.
        denies: whether that is a deny.
        choices: every name it could have meant.
        toolsets: the field's name under which it fits toolsets, such as `disabled_toolsets`; empty where it fits none.
    """

    name: str
    setting: Setting
    denies: bool
    choices: frozenset[str]
    toolsets: str = ""

    @property
    def nearest(self) -> str | None:
        """The name that was probably meant, or None; costs a search."""
        return nearest(self.name, self.choices)


def unfit_names(effective: Effective, side: Side, entries: Sequence[Entry]) -> Steps[list[UnfitName]]:
    """Return the names that one side gave and that fit no entry, in alphabetical order.

    Names given as tags are compared with tags, all others with names.
    """
    names = frozenset(name for entry in entries for name in entry.identifiers)
    yield
    tags = frozenset(tag for entry in entries for tag in entry.tags)
    unfit: list[UnfitName] = []
    for given in sorted(_given(effective, side, names, tags), key=attrgetter("name")):
        yield
        if not (yield from matching([given.name], given.choices)):
            is_toolset = given.toolsets and (yield from matching([given.name], tags))
            unfit.append(given if is_toolset else replace(given, toolsets=""))
    return unfit


def _given(effective: Effective, side: Side, names: frozenset[str], tags: frozenset[str]) -> Iterator[UnfitName]:
    """Yield the names in one side's lists, whether or not they fit, each with where a toolset of that name could be."""
    either = names | tags
    for settings, choices, denies, toolsets in (
        (effective.allow_tools, names, False, "toolsets"),
        (effective.deny_tools, names, True, "disabled_toolsets"),
        (effective.allow_tags, tags, False, ""),
        (effective.deny_tags, tags, True, ""),
    ):
        for setting in settings:
            if setting.side == side and isinstance(given := setting.value, NameSet):
                yield from (UnfitName(name, setting, denies, choices, toolsets) for name in sorted(given.names))
                yield from (UnfitName(name, setting, denies, either) for name in sorted(given.toolsets))


def unknown_in(effective: Effective, side: Side, entries: Sequence[Entry]) -> Steps[dict[str, str | None]]:
    """Return the names in one side's lists that fit no entry, each with the nearest that would, or None.

    Of a toolset that stands where it is none (law L3), that is how to name it. At most `MAX_UNKNOWN` names, in
    alphabetical order.
    """
    unknown: dict[str, str | None] = {}
    for unfit in (yield from unfit_names(effective, side, entries)):
        if unfit.name in unknown or len(unknown) == MAX_UNKNOWN:
            continue
        if unfit.toolsets:
            unknown[unfit.name] = f"{unfit.toolsets}={unfit.name}"
        else:
            unknown[unfit.name] = yield from _nearest(unfit.name, unfit.choices)
    return unknown


def _nearest(name: str, choices: Iterable[str]) -> Steps[str | None]:
    """Return the nearest of some choices, a step's worth of them at a time."""
    best: list[str] = []
    rest = iter(choices)
    while step := list(islice(rest, _STEP)):
        found = nearest(name, [*best, *step])
        best = [] if found is None else [found]
        yield
    return best[0] if best else None

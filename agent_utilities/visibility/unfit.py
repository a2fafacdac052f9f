"""Names in bounds that fit no component: a misspelt deny leaves open what it was to close."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from agent_utilities.catalog.model import Entry
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import NameSet, Setting, Side, nearest
from agent_utilities.visibility.bounds import Steps, fits_any, fitting_any

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
    def key(self) -> tuple[str, Setting]:
        """What tells it from others that one side gave."""
        return self.name, self.setting

    @property
    def nearest(self) -> str | None:
        """The name that was probably meant, or None; costs a search."""
        return nearest(self.name, self.choices)


def unfit_names(effective: Effective, side: Side, entries: Sequence[Entry]) -> Iterator[UnfitName]:
    """Yield the names that one side gave and that fit no entry: tags where tags were given, names where names were."""
    names = frozenset(name for entry in entries for name in entry.identifiers)
    tags = frozenset(tag for entry in entries for tag in entry.tags)
    for given in _given(effective, side, names, tags):
        if not fits_any(given.name, given.choices):
            yield given if given.toolsets and fits_any(given.name, tags) else replace(given, toolsets="")


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
    names = frozenset(name for entry in entries for name in entry.identifiers)
    yield
    tags = frozenset(tag for entry in entries for tag in entry.tags)
    yield
    given = sorted(_given(effective, side, names, tags), key=attrgetter("name"))
    unknown: dict[str, str | None] = {}
    in_order: dict[frozenset[str], list[str]] = {}
    for each in given:
        yield
        if each.name in unknown or (yield from fitting_any(each.name, each.choices)):
            continue
        if len(unknown) == MAX_UNKNOWN:
            break
        if each.toolsets and (yield from fitting_any(each.name, tags)):
            unknown[each.name] = f"{each.toolsets}={each.name}"
            continue
        if each.choices not in in_order:
            in_order[each.choices] = sorted(each.choices)
        unknown[each.name] = yield from _nearest(each.name, in_order[each.choices])
    return unknown


def _nearest(name: str, choices: Sequence[str]) -> Steps[str | None]:
    """Return the nearest of sorted choices, a step's worth of them at a time."""
    best = None
    for start in range(0, len(choices), _STEP):
        best = nearest(name, [*([best] if best else []), *choices[start : start + _STEP]])
        yield
    return best

"""Loading and ordering of a server's features: the author's, those that the operator names, and deferred ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import entry_points
from math import inf
from pkgutil import resolve_name
from typing import Any

from pydantic import BaseModel

from agent_utilities.errors import SettingsError
from agent_utilities.runtime.waiting import is_failure
from agent_utilities.seam.feature import Feature
from agent_utilities.selection.model import nearest
from agent_utilities.server.surface.operator import Operator

ENTRY_POINTS = "agent_utilities.features"
"""The group of entry points by which packages provide features."""


@dataclass(frozen=True)
class Later:
    """A deferred feature: it is imported and attached when a server begins to serve, if something needs it.

    Args:
        place: its class, as `package.module:Class`.
        settings: the operator's settings; the feature is needed if any of them is set.
        wanted: whether anything else needs it; called once the features beside it are attached.
        is_off: whether the operator has turned it off, so that nothing needs it.
    """

    place: str
    settings: tuple[str, ...] = ()
    wanted: Callable[[], object] = lambda: False
    is_off: Callable[[Operator], bool] = lambda operator: False

    def made(self, operator: Operator) -> Feature | None:
        """Return the feature, or None where nothing needs it."""
        if self.is_off(operator):
            return None
        is_wanted = any(getattr(operator.settings, name) for name in self.settings) or self.wanted()
        return resolve_name(self.place)() if is_wanted else None


def loaded(source: str, name: str) -> Feature:
    """Return a feature of another package, by the name of its entry point."""
    installed = {each.name: each for each in entry_points(group=ENTRY_POINTS)}
    if (point := installed.get(name)) is None:
        near = nearest(name, installed)
        hint = f"did you mean {near}?" if near else f"installed are: {', '.join(sorted(installed)) or 'none'}"
        raise SettingsError("no such feature", name, source, hint)
    try:
        feature = point.load()()
    except BaseException as error:
        if not is_failure(error):
            raise
        raise SettingsError(f"it can't be loaded: {error!r}", name, source, f"see its {point.value}") from error
    if not isinstance(feature, Feature):
        raise SettingsError("it is no Feature", name, source, f"see its {point.value}")
    return feature


def in_order(features: Sequence[Feature]) -> tuple[Feature, ...]:
    """Return features sorted by their `before` and `after`, else in their original order.

    Raises:
        SettingsError: their order is circular, two have one name, or one declares what it can't.
    """
    for each in features:
        _check(each)
    if twice := [name for name, n in Counter(each.name for each in features if each.name).items() if n > 1]:
        hint = "put one in alone: requests and sessions keep their values by it"
        raise SettingsError("two features have this name", twice[0], "features", hint)
    before: dict[int, set[int]] = defaultdict(set)
    for i, each in enumerate(features):
        for j, other in enumerate(features):
            if i != j and (other.name in each.after or each.name in other.before):
                before[i].add(j)
    if not before:
        return tuple(features)
    sorter = TopologicalSorter({i: before[i] for i in range(len(features))})
    try:
        sorter.prepare()
    except CycleError as error:
        names = " after ".join(name_of(features[i]) for i in reversed(error.args[1]))
        hint = "take one `before` or `after` out"
        raise SettingsError("each is to be asked before the other", names, "features", hint) from None
    order, ready = list[int](), list[int]()
    while sorter.is_active():
        ready = sorted([*ready, *sorter.get_ready()])
        sorter.done(ready[0])
        order.append(ready.pop(0))
    return tuple(features[i] for i in order)


def _all(values: object, kind: type) -> bool:
    return isinstance(values, tuple) and all(isinstance(value, kind) for value in values)


_DECLARED: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "name": (lambda value: isinstance(value, str), "a text"),
    "settings": (lambda value: isinstance(value, BaseModel | None), "an instance of a pydantic model"),
    **dict.fromkeys(("rights", "before", "after"), (lambda value: _all(value, str), 'names, such as ("access",)')),
    **dict.fromkeys(("needs", "hears"), (lambda value: _all(value, type), "classes, such as (ToolCalled,)")),
    "keeps": (lambda value: isinstance(value, type | None), "a dataclass"),
    "limit_s": (
        lambda value: value is None or (isinstance(value, int | float) and 0 < value < inf),
        "seconds above 0, or None",
    ),
}
"""What each attribute of a feature may be, and how that is said."""


def _check(feature: Feature) -> None:
    """Check what a feature declares, so that no request is the first to find out."""
    for attribute, (may_be, what) in _DECLARED.items():
        if not may_be(value := getattr(feature, attribute)):
            raise SettingsError(
                f"not what {attribute} may be", value, f"feature {name_of(feature)}", f"it takes {what}"
            )


def name_of(feature: object) -> str:
    """Return the name of a feature in messages."""
    return str(getattr(feature, "name", "") or type(feature).__name__)

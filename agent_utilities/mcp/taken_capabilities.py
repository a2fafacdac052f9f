"""What capabilities come to for one request: what is active, what its words have switched on, and what went out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent_utilities.capabilities.active import ActiveCapabilities, touch
from agent_utilities.capabilities.routing import Route
from agent_utilities.catalog.model import Catalog
from agent_utilities.mcp.search_session import SessionView
from agent_utilities.mcp.session_capabilities import SessionCapabilities
from agent_utilities.selection.channels import META_KEY
from agent_utilities.selection.merge import merge
from agent_utilities.selection.model import CALLER_CHANNELS, NameSet, Selection, Setting, Slot

N_TOLD = 3
"""How many of the nearest capabilities are told with a decision."""
_PINS: Slot = ("pins", "meta")
_SLOT: Slot = ("capabilities", "meta")


@dataclass(frozen=True, eq=False)
class Taken:
    """What capabilities come to for one request.

    Args:
        caller: his selection, with what is active in the place of what he named.
        active: what is active for him, beside what is for everybody.
        fixed: what is on for everybody and he may use.
        usable: what there is for him.
        view: the session that keeps it; None where the request brings it.
        added, removed: what this request switched on by its words, and what gave way.
        route: where its words led; None where none were routed.
        cause: why a capability that its words call for is not switched on; empty where none is called for, or it is.
    """

    caller: Selection
    active: ActiveCapabilities
    fixed: tuple[str, ...] = ()
    usable: frozenset[str] = frozenset()
    view: SessionView | None = field(default=None, repr=False)
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    route: Route | None = None
    cause: str = ""

    @property
    def session(self) -> SessionCapabilities | None:
        """What keeps what is active; None where the request brings it."""
        return None if self.view is None else self.view.capabilities

    @property
    def present(self) -> ActiveCapabilities:
        """What is active at this moment: other requests of the session may have changed it."""
        return self.active if self.session is None else self.session.active

    @property
    def called_for(self) -> str | None:
        """The capability that the words call for, where it is on."""
        name = self.route.activated if self.route is not None else None
        return name if name in self.active.names or name in self.fixed else None

    @property
    def written(self) -> str:
        """The value of `capabilities` by which another request has the same."""
        return ",".join(self.active.names)

    def has_changed(self, method: str) -> bool:
        """Whether a session's list is another by a request that does not list it."""
        return self.session is not None and method != "tools/list" and bool(self.added or self.removed)

    def used(self, catalog: Catalog, tool: str) -> Taken:
        """Return what there is after a call that succeeded: whichever capabilities bring the tool count as used.

        A session keeps that; a caller without one is told it, to bring it along.
        """
        brings = frozenset[str]().union(
            *(catalog.entries[i].capabilities or () for i in catalog.places_by_own_name.get(tool, ()))
        )
        if not brings:
            return self
        if self.session is not None:
            self.session.used(brings)
            return replace(self, active=self.session.active)
        active = self.active
        for name in self.active.names:
            if name in brings:
                active = touch(active, name)
        return replace(self, active=active)

    def told_with_call(self) -> dict[str, Any] | None:
        """Return what is told of it with a call's result; None where a caller would learn nothing that matters."""
        is_news = bool(self.added or self.removed or self.cause)
        return self.summary() if is_news or (self.session is None and self.active.names) else None

    def summary(self) -> dict[str, Any]:
        """Return what is told of it in `_meta`: never to a model as a turn."""
        told: dict[str, Any] = {"active": list(self.active.names), "value": self.written}
        if self.fixed:
            told["fixed"] = list(self.fixed)
        if self.added:
            told["activated"] = list(self.added)
        if self.removed:
            told["evicted"] = list(self.removed)
        if self.route is not None:
            told["route"] = route_told(self.route)
        if self.cause:
            told["cause"] = self.cause
        return told


def route_told(route: Route) -> dict[str, Any]:
    """Return a routing decision as it is told: the nearest three with scores, and what had to be cleared."""
    told: dict[str, Any] = {"scores": [[name, round(score, 3)] for name, score in route.scores[:N_TOLD]]}
    if route.gate is not None:
        told |= {"threshold": round(route.gate.threshold, 3), "margin": round(route.gate.margin, 3)}
    if route.cause:
        told["cause"] = route.cause
    if route.by_words:
        told["by"] = "words"
    return told


def named_by(caller: Selection) -> tuple[str, ...]:
    """Return the capabilities that a caller names, as he names them: by the channel that holds over the others."""
    for channel in reversed(CALLER_CHANNELS):
        if (setting := caller.get("capabilities", channel)) is not None and isinstance(setting.value, tuple):
            return setting.value
    return ()


def with_pins(caller: Selection, globs: frozenset[str]) -> Selection:
    """Return a selection that never defers the tools which some globs name, beside what it pinned itself."""
    if not globs:
        return caller
    pins = Setting(NameSet(globs), ("capabilities",), "caller")
    return merge(caller, Selection(((_PINS, pins),)))


def with_names(caller: Selection, names: Sequence[str]) -> Selection:
    """Return a selection that names these capabilities, whatever it named before."""
    others = tuple(each for each in caller.slots if each[0][0] != "capabilities")
    if not names:
        return caller if len(others) == len(caller.slots) else Selection(others)
    setting = Setting(tuple(sorted(names)), ("capabilities",), "caller")
    return merge(Selection(others), Selection(((_SLOT, setting),)))


def with_capabilities(result: dict[str, Any], taken: Taken) -> dict[str, Any]:
    """Return a result that tells what is on from now on, where that is news to its caller."""
    told, meta = taken.told_with_call(), result.get("_meta") or {}
    own = meta.get(META_KEY) or {}
    if told is None or "capabilities" in own:  # the tool that switches them has told it
        return result
    return {**result, "_meta": {**meta, META_KEY: {**own, "capabilities": told}}}

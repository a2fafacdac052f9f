"""What capabilities come to for one request: what is active, what its words have switched on, and what went out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent_utilities.capabilities.model import ActiveCapabilities, Route, touch
from agent_utilities.features.capabilities.session import KEY, NO_CAPABILITIES
from agent_utilities.mcp.request import Request
from agent_utilities.selection.channels import META_KEY
from agent_utilities.selection.model import CALLER_CHANNELS, Selection

N_TOLD = 3
"""How many of the nearest capabilities are told with a decision."""


@dataclass(frozen=True, eq=False)
class CallerCapabilities:
    """What capabilities come to for one request.

    Args:
        active: what is active for the caller, beside what is for everybody.
        fixed: what is on for everybody and they may use.
        usable: what there is for them.
        added, removed: what this request switched on by its words, and what gave way.
        route: where its words led; None where none were routed.
        cause: why a capability that its words call for is not switched on; empty where none is called for, or it is.
    """

    active: ActiveCapabilities
    fixed: tuple[str, ...] = ()
    usable: frozenset[str] = frozenset()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    route: Route | None = None
    cause: str = ""

    def now(self, request: Request) -> ActiveCapabilities:
        """Return what is active at this moment: other requests of the session may have changed it."""
        return self.active if request.session is None else request.session.get(KEY, NO_CAPABILITIES).active

    @property
    def called_for(self) -> str | None:
        """The capability that the words call for, where it is on."""
        name = self.route.activated if self.route is not None else None
        return name if name in self.active.names or name in self.fixed else None

    @property
    def written(self) -> str:
        """The value of `capabilities` by which another request has the same."""
        return ",".join(self.active.names)

    def used(self, request: Request, names: Collection[str]) -> CallerCapabilities:
        """Return what there is once some capabilities count as used.

        A session keeps that; a caller without one is told it, to bring it along.
        """
        if not names:
            return self
        if request.session is not None:
            kept = request.session.update(KEY, NO_CAPABILITIES, lambda kept: kept.used(names))
            return replace(self, active=kept.active)
        active = self.active
        for name in self.active.names:
            if name in names:
                active = touch(active, name)
        return replace(self, active=active)

    def news(self, request: Request) -> dict[str, Any] | None:
        """Return what is told of it with a result; None where a caller would learn nothing that matters."""
        is_news = bool(self.added or self.removed or self.cause)
        return self.summary() if is_news or (request.session is None and self.active.names) else None

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


def caller_capabilities(request: Request) -> CallerCapabilities:
    """Return what capabilities come to for a request; nothing where nobody has asked yet."""
    found: CallerCapabilities = request.values.get(KEY) or CallerCapabilities(ActiveCapabilities())
    return found


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
    """Return the capabilities that a caller names, as they name them: by the channel that holds over the others."""
    for channel in reversed(CALLER_CHANNELS):
        if (setting := caller.get("capabilities", channel)) is not None and isinstance(setting.value, tuple):
            return setting.value
    return ()


def with_news(result: dict[str, Any], told: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a result that tells what is on from now on, where that is news to its caller."""
    meta = result.get("_meta") or {}
    own = meta.get(META_KEY) or {}
    if told is None or KEY in own:  # the tool that switches them has told it
        return result
    return {**result, "_meta": {**meta, META_KEY: {**own, KEY: told}}}

"""What capabilities come to for one caller: what a session keeps of them, and what holds for one request."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent_utilities.capabilities.model import Active, Route, brought, enable, used
from agent_utilities.mcp.request import Request
from agent_utilities.selection.channels import META_KEY
from agent_utilities.selection.model import CALLER_CHANNELS, Channel, FieldName, Selection

KEY = "capabilities"
"""The name under which a session and a request have theirs."""
N_TOLD = 3
"""How many of the nearest capabilities are told with a decision."""


@dataclass(frozen=True, slots=True)
class SessionCapabilities:
    """The capabilities of one session; each method returns what there is after one more step."""

    active: Active = ()
    words: str = ""
    """The words that were routed last."""
    route: Route | None = None
    """Where they led; None before any were routed."""
    brought: tuple[str, ...] = ()
    """The names that its requests bring, mostly the same with each."""

    def adopting(self, names: Sequence[str], usable: Container[str], most: int) -> SessionCapabilities:
        """Take the names that a request brings: a session begins with them, one under way enables what is new in them.

        What is active and is not usable any more is given up.
        """
        active, given = tuple(name for name in self.active if name in usable), tuple(names)
        if (active, given) == (self.active, self.brought):
            return self
        if given != self.brought:
            for name in brought([name for name in given if name not in self.brought], usable, most):
                active = enable(active, name, most)
        return replace(self, active=active, brought=given)


NO_CAPABILITIES = SessionCapabilities()
"""Where every session begins."""


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

    active: Active = ()
    fixed: tuple[str, ...] = ()
    usable: frozenset[str] = frozenset()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    route: Route | None = None
    cause: str = ""

    def now(self, request: Request) -> Active:
        """Return what is active at this moment: other requests of the session may have changed it."""
        return self.active if request.session is None else request.session.get(KEY, NO_CAPABILITIES).active

    @property
    def called_for(self) -> str | None:
        """The capability that the words call for, where it is on."""
        name = self.route.activated if self.route is not None else None
        return name if name in self.active or name in self.fixed else None

    @property
    def written(self) -> str:
        """The value of `capabilities` by which another request has the same."""
        return ",".join(self.active)

    def used(self, request: Request, names: Container[str]) -> CallerCapabilities:
        """Return what there is once some capabilities count as used.

        A session keeps that; a caller without one is told it, to bring it along.
        """
        if request.session is None:
            return replace(self, active=used(self.active, names))
        kept = request.session.update(KEY, NO_CAPABILITIES, lambda kept: replace(kept, active=used(kept.active, names)))
        return replace(self, active=kept.active)

    def news(self, request: Request) -> dict[str, Any] | None:
        """Return what is told of it with a result; None where a caller would learn nothing that matters."""
        is_news = bool(self.added or self.removed or self.cause)
        return self.summary() if is_news or (request.session is None and self.active) else None

    def summary(self) -> dict[str, Any]:
        """Return what is told of it in `_meta`: never to a model as a turn."""
        told: dict[str, Any] = {"active": list(self.active), "value": self.written}
        named = {"fixed": self.fixed, "activated": self.added, "evicted": self.removed}
        told |= {key: list(names) for key, names in named.items() if names}
        if self.route is not None:
            told["route"] = _route_told(self.route)
        if self.cause:
            told["cause"] = self.cause
        return told


def caller_capabilities(request: Request) -> CallerCapabilities:
    """Return what capabilities come to for a request; nothing where nobody has asked yet."""
    found: CallerCapabilities = request.values.get(KEY) or CallerCapabilities()
    return found


def _route_told(route: Route) -> dict[str, Any]:
    """Return a routing decision as it is told: the nearest three with scores, and what had to be cleared."""
    told: dict[str, Any] = {"scores": [[name, round(score, 3)] for name, score in route.scores[:N_TOLD]]}
    if route.gate is not None:
        told |= {"threshold": round(route.gate.threshold, 3), "margin": round(route.gate.margin, 3)}
    if route.cause:
        told["cause"] = route.cause
    if route.by_words:
        told["by"] = "words"
    return told


def named_by(
    selection: Selection, field: FieldName = "capabilities", channels: Sequence[Channel] = CALLER_CHANNELS
) -> tuple[str, ...]:
    """Return what a caller names, as they name it: by the channel that holds over the others."""
    for channel in reversed(channels):
        if (setting := selection.get(field, channel)) is not None and isinstance(setting.value, tuple):
            return setting.value
    return ()


def with_news(result: dict[str, Any], told: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a result that tells what is on from now on, where that is news to its caller."""
    # What a server behind has there may be anything.
    meta = given if isinstance(given := result.get("_meta"), dict) else {}
    own = given if isinstance(given := meta.get(META_KEY), dict) else {}
    if told is None or KEY in own:  # the tool that switches them has told it
        return result
    return {**result, "_meta": {**meta, META_KEY: {**own, KEY: told}}}

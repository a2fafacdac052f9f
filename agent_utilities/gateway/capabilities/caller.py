"""One caller's capabilities: what a session keeps, what holds for a request, and its summary, events and metrics."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Literal, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from agent_utilities.gateway.capabilities.model import Active, Outcome, Route, brought, enable, used
from agent_utilities.seam.events import Event
from agent_utilities.seam.request import Request
from agent_utilities.selection.channels import META_KEY
from agent_utilities.selection.model import CALLER_CHANNELS, Channel, FieldName, Selection

logger = logging.getLogger("agent_utilities.wire")

_SECONDS = (1e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 1.5e-2, 2.5e-2, 5e-2, 0.1, 0.5)
_GAUGES = {
    "known": "Capabilities that there are.",
    "unavailable": "Capabilities that can't be switched on.",
    "on": "Capabilities that are on for somebody.",
    "sessions": "Sessions that have any on.",
}


SwitchedBy = Literal["words", "name", "tool", "skill"]
"""What switched capabilities: a caller's words, the names that they brought, the `capability` tool, a skill."""


@dataclass(frozen=True, slots=True)
class CapabilitiesSwitched(Event):
    """Capabilities were switched for a caller: some came, and some went or gave way."""

    by: SwitchedBy
    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()

    def log(self) -> None:
        """Log which came and went, and by what."""
        switched = {"on": self.on, "off": self.off}
        names = " ".join(f"{key}={json.dumps(','.join(value))}" for key, value in switched.items() if value)
        logger.info("capabilities by=%s %s", self.by, names)

    def span_event(self) -> tuple[str, Mapping[str, str | int | float]]:
        """Return the names of those that came and went, and what switched them."""
        attributes = {"by": self.by, "on": ",".join(self.on), "off": ",".join(self.off)}
        return "agent_utilities.capabilities", {key: value for key, value in attributes.items() if value}


@dataclass(frozen=True, slots=True)
class WordsRouted(Event):
    """A caller's words were routed to capabilities; the event does not have the words.

    Args:
        outcome: what came of it.
        nearest: names and scores of the nearest three, best first.
        seconds: how long it took, the embedding with it.
        cause: why nothing was switched on; empty where something was, or was on.
    """

    outcome: Outcome
    nearest: tuple[tuple[str, float], ...]
    seconds: float
    cause: str = ""

    @property
    def _nearest(self) -> str:
        return ",".join(f"{name}:{score:.3f}" for name, score in self.nearest)

    def log(self) -> None:
        """Log where words led, without the words."""
        cause = f" cause={json.dumps(self.cause)}" if self.cause else ""
        nearest, ms = json.dumps(self._nearest), 1000 * self.seconds
        logger.info("routed outcome=%s nearest=%s ms=%.1f%s", self.outcome, nearest, ms, cause)

    def span_event(self) -> tuple[str, Mapping[str, str | int | float]]:
        """Return where words led, and how long that took to find out."""
        return "agent_utilities.routed", {"outcome": self.outcome, "nearest": self._nearest, "seconds": self.seconds}


class CapabilityMetrics:
    """Counts switches and routes, and has gauges of how many capabilities there are and are on."""

    def __init__(self, registry: CollectorRegistry, counts: Callable[[], Mapping[str, int]]) -> None:
        self._switches = Counter(
            "mcp_capability_switches", "Capabilities that came or went.", ["change", "by"], registry=registry
        )
        for change, by in product(("on", "off"), get_args(SwitchedBy)):
            self._switches.labels(change, by)
        self._routes = Counter(
            "mcp_capability_routes", "Words that were routed, by what came of it.", ["outcome"], registry=registry
        )
        for outcome in get_args(Outcome):
            self._routes.labels(outcome)
        self._seconds = Histogram(
            "mcp_capability_route_seconds", "Time to route words.", buckets=_SECONDS, registry=registry
        )
        for name, text in _GAUGES.items():
            gauge = Gauge(f"mcp_capabilities_{name}", text, registry=registry)
            gauge.set_function(partial(lambda key: counts()[key], name))

    def count(self, event: Event) -> None:
        """Count capabilities that came and went, or a route and the time that it took."""
        match event:
            case CapabilitiesSwitched(by, on, off):
                self._switches.labels("on", by).inc(len(on))
                self._switches.labels("off", by).inc(len(off))
            case WordsRouted(outcome, _, seconds):
                self._routes.labels(outcome).inc()
                self._seconds.observe(seconds)


KEY = "capabilities"
"""The name under which sessions and requests keep their capabilities."""
N_NEAREST = 3
"""How many of the nearest capabilities a route's summary has."""


@dataclass(frozen=True, slots=True)
class SessionCapabilities:
    """The capabilities of one session, immutable: each method returns the next state."""

    active: Active = ()
    words: str = ""
    """The words that were routed last."""
    route: Route | None = None
    """Where they led; None before any were routed."""
    brought: tuple[str, ...] = ()
    """The names that its requests send, mostly the same with each."""

    def adopting(self, names: Sequence[str], usable: Container[str], most: int) -> SessionCapabilities:
        """Enable the names that a request sends: all at a session's first request, only new ones afterwards.

        Active capabilities that are no longer usable are dropped.
        """
        active, sent = tuple(name for name in self.active if name in usable), tuple(names)
        if (active, sent) == (self.active, self.brought):
            return self
        if sent != self.brought:
            for name in brought([name for name in sent if name not in self.brought], usable, most):
                active = enable(active, name, most)
        return replace(self, active=active, brought=sent)


NO_CAPABILITIES = SessionCapabilities()
"""Where every session begins."""


@dataclass(frozen=True, eq=False)
class CallerCapabilities:
    """The capabilities of one request's caller.

    Args:
        active: those that are active for the caller, beside the fixed ones.
        fixed: those that are on for everybody and that the caller may use.
        usable: all that the caller may use.
        added, removed: those that this request's words switched on, and those that were evicted.
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
        """Return the capabilities that are active now: other requests of the session may have changed them."""
        return self.active if request.session is None else request.session.get(KEY, NO_CAPABILITIES).active

    @property
    def called_for(self) -> str | None:
        """The capability that the words call for, where it is on."""
        name = self.route.activated if self.route is not None else None
        return name if name in self.active or name in self.fixed else None

    @property
    def written(self) -> str:
        """The value of `capabilities` with which another request has the same ones active."""
        return ",".join(self.active)

    def used(self, request: Request, names: Container[str]) -> CallerCapabilities:
        """Return the same with some capabilities marked as used last.

        A session keeps that order; a caller without one receives it, to send it with the next request.
        """
        if request.session is None:
            return replace(self, active=used(self.active, names))
        kept = request.session.update(KEY, NO_CAPABILITIES, lambda kept: replace(kept, active=used(kept.active, names)))
        return replace(self, active=kept.active)

    def news(self, request: Request) -> dict[str, Any] | None:
        """Return the summary to send with a result; None where it has no news for the caller."""
        is_news = bool(self.added or self.removed or self.cause)
        return self.summary() if is_news or (request.session is None and self.active) else None

    def summary(self) -> dict[str, Any]:
        """Return the summary for `_meta`, which is never sent to a model as a turn."""
        summary: dict[str, Any] = {"active": list(self.active), "value": self.written}
        named = {"fixed": self.fixed, "activated": self.added, "evicted": self.removed}
        summary |= {key: list(names) for key, names in named.items() if names}
        if self.route is not None:
            summary["route"] = _route_summary(self.route)
        if self.cause:
            summary["cause"] = self.cause
        return summary


def caller_capabilities(request: Request) -> CallerCapabilities:
    """Return the capabilities of a request's caller; none before they were determined."""
    capabilities: CallerCapabilities = request.values.get(KEY) or CallerCapabilities()
    return capabilities


def _route_summary(route: Route) -> dict[str, Any]:
    """Return a route's summary: the nearest three with scores, and the gate that they had to clear."""
    summary: dict[str, Any] = {"scores": [[name, round(score, 3)] for name, score in route.scores[:N_NEAREST]]}
    if route.gate is not None:
        summary |= {"threshold": round(route.gate.threshold, 3), "margin": round(route.gate.margin, 3)}
    if route.cause:
        summary["cause"] = route.cause
    if route.by_words:
        summary["by"] = "words"
    return summary


def named_by(
    selection: Selection, field: FieldName = "capabilities", channels: Sequence[Channel] = CALLER_CHANNELS
) -> tuple[str, ...]:
    """Return the names that a caller sends in a field, by the highest channel that has it."""
    for channel in reversed(channels):
        if (setting := selection.get(field, channel)) is not None and isinstance(setting.value, tuple):
            return setting.value
    return ()


def with_news(result: dict[str, Any], summary: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a result with a summary of what is on in its `_meta`, where there is news."""
    # An upstream's `_meta` may be anything.
    meta = value if isinstance(value := result.get("_meta"), dict) else {}
    own = value if isinstance(value := meta.get(META_KEY), dict) else {}
    if summary is None or KEY in own:  # the `capability` tool has put it there
        return result
    return {**result, "_meta": {**meta, META_KEY: {**own, KEY: summary}}}

"""What capabilities tell of themselves, in logs, spans and metrics, where no name is a label."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Literal, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from agent_utilities.capabilities.model import Outcome
from agent_utilities.mcp.events import Event

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
        told = {"on": self.on, "off": self.off}
        names = " ".join(f"{key}={json.dumps(','.join(value))}" for key, value in told.items() if value)
        logger.info("capabilities by=%s %s", self.by, names)

    def span_event(self) -> tuple[str, Mapping[str, str | int | float]]:
        """Return the names of those that came and went, and what switched them."""
        attributes = {"by": self.by, "on": ",".join(self.on), "off": ",".join(self.off)}
        return "agent_utilities.capabilities", {key: value for key, value in attributes.items() if value}


@dataclass(frozen=True, slots=True)
class WordsRouted(Event):
    """A caller's words were routed to capabilities; there are none of them in it.

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
        told = self.outcome, json.dumps(self._nearest), 1000 * self.seconds, cause
        logger.info("routed outcome=%s nearest=%s ms=%.1f%s", *told)

    def span_event(self) -> tuple[str, Mapping[str, str | int | float]]:
        """Return where words led, and how long it took to tell."""
        return "agent_utilities.routed", {"outcome": self.outcome, "nearest": self._nearest, "seconds": self.seconds}


class CapabilityMetrics:
    """Counts what is switched, and where words lead, and tells how many capabilities there are and are on."""

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
        for name, told in _GAUGES.items():
            gauge = Gauge(f"mcp_capabilities_{name}", told, registry=registry)
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

"""Counts and times of capabilities, for Prometheus; no name of one is a label, so that series stay few."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from agent_utilities.capabilities.routing import Outcome
from agent_utilities.mcp.observers.base import CapabilitiesSwitched, Observer, SwitchedBy, WordsRouted

_SECONDS = (1e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 1.5e-2, 2.5e-2, 5e-2, 0.1, 0.5)
_GAUGES = {
    "known": "Capabilities that there are.",
    "unavailable": "Capabilities that can't be switched on.",
    "on": "Capabilities that are on for somebody.",
    "sessions": "Sessions that have any on.",
}


class CapabilityMetrics(Observer):
    """Counts what is switched, and where words lead.

    Args:
        registry: where the metrics are read from; every series is there, at 0, from the start.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
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

    def switched(self, event: CapabilitiesSwitched) -> None:
        """Count capabilities that came and went."""
        self._switches.labels("on", event.by).inc(len(event.on))
        self._switches.labels("off", event.by).inc(len(event.off))

    def routed(self, event: WordsRouted) -> None:
        """Count a route, and the time that it took."""
        self._routes.labels(event.outcome).inc()
        self._seconds.observe(event.seconds)


class CapabilityCollector(Collector):
    """Reads how many capabilities there are and are on, whenever metrics are asked for.

    Args:
        counts: returns them by name, as `ServerCapabilities.health` does.
    """

    def __init__(self, counts: Callable[[], Mapping[str, int]]) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        """Yield a gauge for each count."""
        counts = self._counts()
        for name, told in _GAUGES.items():
            yield GaugeMetricFamily(f"mcp_capabilities_{name}", told, value=counts[name])

"""Counts and times for Prometheus. Every label has a fixed set of values, so no caller can grow the series."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from agent_utilities.mcp.observers.base import CapabilitiesSwitched, Observer, SearchEvent, ToolsListed, WordsRouted
from agent_utilities.mcp.observers.capability_metrics import CapabilityCollector, CapabilityMetrics
from agent_utilities.mcp.observers.search_metrics import SearchMetrics
from agent_utilities.selection.resolution import ANSWERED

METHODS = frozenset(
    {
        "completion/complete",
        "initialize",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "server/discover",
        "subscriptions/listen",
        "tools/call",
        "tools/list",
    }
)
_COUNTS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
_SECONDS = (1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 0.1)


class UnfitCount(Protocol):
    """Tells how many of the operator's names fit nothing."""

    def n_unfit(self, *, denies: bool) -> int:
        """Return how many denies, or names in allow-lists, do."""
        ...


class Metrics(Observer):
    """The metrics of one server, in registries of its own: what everybody may read, and what tells of denied tools.

    Args:
        names: what counts the operator's names that fit nothing.
    """

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, names: UnfitCount | None = None) -> None:
        self._registry, self._of_denied = CollectorRegistry(), CollectorRegistry()
        self._requests = Counter("mcp_requests", "MCP requests served.", ["method", "outcome"], registry=self._registry)
        self._decisions = Histogram(
            "mcp_decision_seconds",
            "Time to decide on a catalog, where no memo held the decision.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._listed = {
            name: Histogram(f"mcp_listed_tools_{name}", f"Tools {name}, a list.", buckets=_COUNTS, registry=registry)
            for name, registry in (
                ("permitted", self._registry),
                ("visible", self._registry),
                ("denied", self._of_denied),
            )
        }
        self._queries = Counter(
            "mcp_queried_lists", "Lists with a query, by how it was answered.", ["status"], registry=self._registry
        )
        self._fallbacks = Counter(
            "mcp_fallbacks",
            "Queried lists that showed all permitted tools.",
            ["cause"],
            registry=self._registry,
        )
        self._search = SearchMetrics(self._registry)
        self._capabilities: CapabilityMetrics | None = None
        if names is not None:
            unfit = Gauge(
                "mcp_operator_names_unfit",
                "Names in the operator's bounds that have fitted no component since the start.",
                ["bound"],
                registry=self._registry,
            )
            unfit.labels("deny").set_function(partial(names.n_unfit, denies=True))
            unfit.labels("allow").set_function(partial(names.n_unfit, denies=False))

    def add(self, collector: Collector) -> None:
        """Have a collector's metrics read by everybody who may read these."""
        self._registry.register(collector)

    def count_capabilities(self, counts: Callable[[], Mapping[str, int]]) -> None:
        """Count capabilities too, on a gateway that has any.

        Args:
            counts: returns how many there are and are on.
        """
        self._capabilities = CapabilityMetrics(self._registry)
        self.add(CapabilityCollector(counts))

    def switched(self, event: CapabilitiesSwitched) -> None:
        """Count capabilities that came and went."""
        if self._capabilities is not None:
            self._capabilities.switched(event)

    def routed(self, event: WordsRouted) -> None:
        """Count where words led."""
        if self._capabilities is not None:
            self._capabilities.routed(event)

    def served(self, method: str, outcome: str) -> None:
        """Count a request by method (unknown ones as `other`) and outcome: `ok` or `error`."""
        self._requests.labels(method if method in METHODS else "other", outcome).inc()

    def decided(self, seconds: float) -> None:
        """Record how long a decision took, in seconds."""
        self._decisions.observe(seconds)

    def listed(self, listing: ToolsListed) -> None:
        """Record a tool list's size, and its fallback where a query did not narrow it."""
        decision = listing.decision
        n_permitted = len(decision.permitted)
        self._listed["permitted"].observe(n_permitted)
        self._listed["visible"].observe(len(decision.visible))
        self._listed["denied"].observe(len(decision.catalog) - n_permitted)
        preferences = decision.preferences
        if preferences.query is not None:
            self._queries.labels(decision.status).inc()
        if preferences.query is not None and decision.status not in ANSWERED:
            cause = preferences.resolution.cause if decision.status == "unavailable" else ""
            self._fallbacks.labels(cause or decision.status).inc()

    def searched(self, event: SearchEvent) -> None:
        """Count what tool search did."""
        self._search.searched(event)

    def text(self, *, tells_denied: bool) -> bytes:
        """Return the exposition in Prometheus' text format.

        Args:
            tells_denied: whether with the counts of denied tools, which are not everybody's to know.
        """
        return generate_latest(self._registry) + (generate_latest(self._of_denied) if tells_denied else b"")

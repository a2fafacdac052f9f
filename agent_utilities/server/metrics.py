"""Counts and times for Prometheus. Every label has a fixed set of values, so no caller can grow the series."""

from __future__ import annotations

import asyncio
from collections import Counter as Counted
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from opentelemetry.metrics import Observation, get_meter
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from agent_utilities.policy.decision import Decision
from agent_utilities.runtime.waiting import in_turns, left_out
from agent_utilities.seam.events import Decided, Event, RequestRefused, RequestServed
from agent_utilities.seam.request import ToolsListed
from agent_utilities.selection.model import ANSWERED

if TYPE_CHECKING:
    from agent_utilities.server.agent_server import AgentServer

METHODS = frozenset(
    "completion/complete initialize ping prompts/get prompts/list resources/list resources/read "
    "resources/templates/list server/discover subscriptions/listen tools/call tools/list".split()
)
_COUNTS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
_SECONDS = (1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 0.1)


_N_LISTS = 256
"""The most distinct lists that wait to be weighed; tokens of further ones are not counted."""
_WEIGH_S = 1.0
"""Seconds after which waiting lists are weighed together, so that a list itself pays only for the note."""


class _Lists(Collector):
    """Counts the tokens of all lists in prompts, and of the same lists with every permitted tool, by server."""

    def __init__(self, server: AgentServer) -> None:
        self._server, self._waiting, self._is_weighing = server, Counted[Decision](), False
        self._totals: dict[str, Counted[str]] = {"listed": Counted(), "unlisted": Counted()}
        meter = get_meter("agent_utilities")
        for kind in self._totals:
            meter.create_observable_counter(f"mcp.{kind}_tokens", [partial(self._observed, kind)], "{token}")

    def note(self, decision: Decision) -> None:
        """Schedule the weighing of a list, in turns with the event loop (law L7)."""
        if decision in self._waiting or len(self._waiting) < _N_LISTS:
            self._waiting[decision] += 1
        if not self._is_weighing:
            self._is_weighing = self._server.start(self._weigh_soon())

    async def _weigh_soon(self) -> None:
        try:
            await asyncio.sleep(_WEIGH_S)
            await self.weigh()
        finally:
            self._is_weighing = False

    async def weigh(self) -> None:
        """Add up the tokens of the lists that wait."""
        waiting, self._waiting = self._waiting, Counted()
        for decision, n in waiting.items():
            visible = decision.visible_places
            async for i in in_turns(decision.permitted):
                facts = self._server.tool_facts(decision.catalog, i)
                name = facts.server or self._server.name
                self._totals["listed"][name] += n * facts.tokens * (i in visible)
                self._totals["unlisted"][name] += n * facts.tokens

    def _observed(self, kind: str, _: object) -> Iterable[Observation]:
        return [Observation(n, {"server": name}) for name, n in list(self._totals[kind].items())]

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield the two counters."""
        texts = {"listed": "Tokens of all tools listed.", "unlisted": "Tokens had every list held all permitted tools."}
        for kind, by_server in self._totals.items():
            family = CounterMetricFamily(f"mcp_{kind}_tokens", texts[kind], labels=["server"])
            for name, n in by_server.items():
                family.add_metric([name], n)
            yield family


class _Registry(CollectorRegistry):
    """A registry in whose text a collector that fails is left out, with none of the others."""

    def __init__(self) -> None:
        super().__init__()
        self._collectors: dict[Collector, None] = {}

    def register(self, collector: Collector) -> None:
        super().register(collector)
        self._collectors[collector] = None

    def unregister(self, collector: Collector) -> None:
        super().unregister(collector)
        del self._collectors[collector]

    def text(self) -> bytes:
        """Return the exposition in Prometheus' text format."""
        parts: list[bytes] = []
        for each in self._collectors:
            with left_out(each):
                parts.append(generate_latest(each))
        return b"".join(parts)


class Metrics:
    """The metrics of one server, in two registries of its own: for everybody, and for counts of denied tools."""

    content_type = CONTENT_TYPE_LATEST
    hears = (RequestServed, RequestRefused, Decided, ToolsListed)

    def __init__(self, server: AgentServer) -> None:
        self._registry, self._of_denied = _Registry(), _Registry()
        counter = partial(Counter, registry=self._registry)
        self._requests = counter("mcp_requests", "MCP requests served.", ["method", "outcome"])
        self._refused = counter("mcp_refused_requests", "HTTP requests refused unserved.", ["status"])
        self._queries = counter("mcp_queried_lists", "Lists with a query, by how it was answered.", ["status"])
        self._fallbacks = counter("mcp_fallbacks", "Queried lists that showed all permitted tools.", ["cause"])
        text = "Time to decide on a catalog, where no memo held the decision."
        self._decisions = Histogram("mcp_decision_seconds", text, buckets=_SECONDS, registry=self._registry)
        self._listed = {
            name: Histogram(f"mcp_listed_tools_{name}", f"Tools {name}, a list.", buckets=_COUNTS, registry=registry)
            for registry, names in ((self._registry, ("permitted", "visible")), (self._of_denied, ("denied",)))
            for name in names
        }
        text = "Names in the operator's bounds that have fitted no component since the start."
        unfit = Gauge("mcp_operator_names_unfit", text, ["bound"], registry=self._registry)
        unfit.labels("deny").set_function(partial(server.operator_bounds.n_unfit, denies=True))
        unfit.labels("allow").set_function(partial(server.operator_bounds.n_unfit, denies=False))
        self._lists = _Lists(server)
        self.weigh = self._lists.weigh
        """Adds up the tokens of the lists that wait."""
        self._registry.register(self._lists)
        server.features.register_metrics(self._registry)

    def __call__(self, event: Event) -> None:
        """Count an event."""
        match event:
            case RequestServed(method, outcome):
                self._requests.labels(method if method in METHODS else "other", outcome).inc()
            case RequestRefused(status):
                self._refused.labels(str(status)).inc()
            case Decided(seconds):
                self._decisions.observe(seconds)
            case ToolsListed():
                self._listed_tools(event.decision)

    def _listed_tools(self, decision: Decision) -> None:
        n_permitted = len(decision.permitted)
        self._lists.note(decision)
        self._listed["permitted"].observe(n_permitted)
        self._listed["visible"].observe(len(decision.visible))
        self._listed["denied"].observe(len(decision.catalog) - n_permitted)
        preferences = decision.preferences
        if preferences.query is not None:
            self._queries.labels(decision.status).inc()
        if preferences.query is not None and decision.status not in ANSWERED:
            cause = preferences.resolution.cause if decision.status == "unavailable" else ""
            self._fallbacks.labels(cause or decision.status).inc()

    def text(self, *, tells_denied: bool) -> bytes:
        """Return the exposition in Prometheus' text format, with counts of denied tools only if `tells_denied`."""
        return self._registry.text() + (self._of_denied.text() if tells_denied else b"")

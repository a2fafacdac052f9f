"""Prometheus metrics of a gateway's upstreams: totals alone, since an upstream's name may be hidden."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agent_utilities.gateway.upstreams.errors import StateName
from agent_utilities.gateway.upstreams.supervision.upstream import Upstream


class UpstreamCollector(Collector):
    """Reads states and counts when metrics are scraped."""

    def __init__(self, upstreams: Iterable[Upstream]) -> None:
        self._upstreams = upstreams

    def collect(self) -> Iterator[Metric]:
        upstreams = list(self._upstreams)
        states = Counter(each.state.name for each in upstreams)
        by_state = GaugeMetricFamily("mcp_upstreams", "Upstreams, by state.", labels=["state"])
        for state in get_args(StateName):
            by_state.add_metric([state], states[state])
        yield by_state
        n_calls = sum(each.counts.n_calls for each in upstreams)
        n_failed = sum(each.counts.n_failed_calls for each in upstreams)
        calls = CounterMetricFamily("mcp_upstream_calls", "Requests to upstreams, by outcome.", labels=["outcome"])
        calls.add_metric(["answered"], n_calls - n_failed)
        calls.add_metric(["failed"], n_failed)
        yield calls
        for name, text, value in (
            ("mcp_upstream_call_seconds", "Seconds that requests to upstreams took.", "calls_s"),
            ("mcp_upstream_messages_dropped", "Messages of calls that callers read too slowly.", "n_untold"),
            ("mcp_upstream_starts", "Tries to reach an upstream.", "n_starts"),
            ("mcp_upstream_failures", "Tries that failed, and connections that ended by themselves.", "n_failures"),
        ):
            total = CounterMetricFamily(name, text)
            total.add_metric([], sum(getattr(each.counts, value) for each in upstreams))
            yield total

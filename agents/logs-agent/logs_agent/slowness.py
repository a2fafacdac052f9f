"""`find_slow_requests`: what took longest."""

from __future__ import annotations

import heapq
from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from logs_agent.durations import Spread, Timing, Unit, timing_of
from logs_agent.parameters import LogFormat, LogPath, Rotated, Since, Until, clip, format_asked, window_asked
from logs_agent.records import Record
from logs_agent.roots import Roots
from logs_agent.scan import Coverage, Scan
from logs_agent.templates import template_of
from logs_agent.timestamps import shown

MAX_ROUTES = 200
_MAX_CHARS = 300


class SlowRequest(TypedDict):
    """One slow request."""

    duration_ms: float
    request: str
    status: NotRequired[int]
    time: str | None
    file: str
    line: int


class Latency(TypedDict):
    """A spread of durations; percentiles are within 1 %."""

    count: int
    mean_ms: float
    p50_ms: float
    p90_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float


class Route(TypedDict):
    """Requests of one method and path, ids taken out and query string dropped."""

    route: str
    latency: Latency


class SlowRequests(TypedDict):
    """The slowest requests, and the latency of all that bear a duration."""

    n_slow: int
    slowest: list[SlowRequest]
    latency: Latency | None
    routes: list[Route]
    truncated: bool
    read: Coverage


def find_slow_requests(
    path: LogPath,
    threshold_ms: Annotated[float, Field(description="Only requests at least this slow.", ge=0)] = 0,
    top: Annotated[int, Field(description="Most requests and routes to show.", ge=1, le=100)] = 20,
    unit: Annotated[
        Unit | Literal["auto"],
        Field(description="Unit of durations written without one; auto goes by format."),
    ] = "auto",
    since: Since = None,
    until: Until = None,
    include_rotated: Rotated = False,
    format: LogFormat = "auto",
) -> SlowRequests:
    """Find slow requests in an access log or any log with durations: slowest, latency percentiles, routes."""
    known = None if unit == "auto" else unit
    everything, routes = Spread(), dict[str, Spread]()
    slowest: list[tuple[float, int, SlowRequest]] = []
    n_slow = n_timed = 0
    with Scan(Roots.from_env(), path, format_asked(format), include_rotated, window_asked(since, until)) as scan:
        for record in scan:
            timing = None if record.continued else timing_of(record, known)
            if timing is None:
                continue
            n_timed += 1
            everything.add(timing.ms)
            route = template_of(timing.request.split("?", 1)[0])
            if route in routes or len(routes) < MAX_ROUTES:
                routes.setdefault(route, Spread()).add(timing.ms)
            if timing.ms < threshold_ms:
                continue
            n_slow += 1
            if len(slowest) < top:
                heapq.heappush(slowest, (timing.ms, -n_timed, _slow(record, timing)))
            elif timing.ms > slowest[0][0]:
                heapq.heapreplace(slowest, (timing.ms, -n_timed, _slow(record, timing)))
        if not n_timed:
            scan.notes.append("no record bears a duration")
        if len(routes) == MAX_ROUTES:
            scan.notes.append(f"only the first {MAX_ROUTES} routes are told apart")
        by_p95 = sorted(routes.items(), key=lambda item: -item[1].percentile(95))
        return SlowRequests(
            n_slow=n_slow,
            slowest=[request for _, _, request in sorted(slowest, key=lambda item: (-item[0], -item[1]))],
            latency=_latency(everything) if everything.count else None,
            routes=[Route(route=route, latency=_latency(spread)) for route, spread in by_p95[:top]],
            truncated=n_slow > top or len(routes) > top,
            read=scan.coverage(),
        )


def _slow(record: Record, timing: Timing) -> SlowRequest:
    slow = SlowRequest(
        duration_ms=round(timing.ms, 3),
        request=clip(timing.request, _MAX_CHARS),
        time=shown(record.time),
        file=record.file,
        line=record.line,
    )
    if timing.status is not None:
        slow["status"] = timing.status
    return slow


def _latency(spread: Spread) -> Latency:
    return Latency(
        count=spread.count,
        mean_ms=round(spread.total_ms / spread.count, 3),
        p50_ms=spread.percentile(50),
        p90_ms=spread.percentile(90),
        p95_ms=spread.percentile(95),
        p99_ms=spread.percentile(99),
        max_ms=round(spread.max_ms, 3),
    )

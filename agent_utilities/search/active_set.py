"""What a request permits and has active: its session's set or the one it brings, what a turn attaches, and events."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from opentelemetry import trace

from agent_utilities.policy.curation import Preferences
from agent_utilities.policy.decision import Decision, Permitted
from agent_utilities.policy.deferral import Change, is_new_turn, n_to_attach, touch
from agent_utilities.query.feature import Query
from agent_utilities.seam.events import Event
from agent_utilities.seam.host import Host
from agent_utilities.seam.request import Request
from agent_utilities.seam.session import Session
from agent_utilities.seam.verdict import UnderVerdict, Verdict
from agent_utilities.selection.active import NOTHING_ACTIVE, Active
from agent_utilities.selection.model import Resolution

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

EventName = Literal["tools_attached", "tool_search", "window_step", "ranker_fallback", "evicted"]
"""Events of tool search: tools were attached by a turn, or loaded by a call · a search was answered · a turn was
counted · a search or turn was answered by less than the ranker · loaded tools went out for others."""
SPAN_EVENT = "agent_utilities.tool_search"
"""The name of every event of tool search in a span; the attribute `agent_utilities.event` says which it is."""


@dataclass(frozen=True, slots=True)
class SearchEvent(Event):
    """A step of tool search, without any words of the user.

    Counts are of what the caller may use. A tool that becomes visible is counted as `added` of `tools_attached`, one
    that goes out as `evicted` of `evicted`. The `tool_search` that caused it has both too, as `loaded` and `evicted`.

    Args:
        name: what.
        counts: how much of what: `added`, `loaded`, `evicted`, `found`, `deferred`, `turn`, in the order in which they
            are logged; which there are depends on the event.
        cause: why, in words of ours; empty where there is nothing to explain.
        seconds: how long it took; None where that was not measured.
    """

    name: EventName
    counts: Mapping[str, int]
    cause: str = ""
    seconds: float | None = None

    def log(self) -> None:
        """Log its counts, its time, its cause."""
        words = [self.name, *(f"{key}={value}" for key, value in self.counts.items())]
        if self.seconds is not None:
            words.append(f"ms={1000 * self.seconds:.1f}")
        if self.cause:
            # What more than one word is, is quoted: whatever it holds, the line is one, and its keys are read as such.
            words.append(f"cause={self.cause if self.cause.isidentifier() else json.dumps(self.cause)}")
        logger.info("%s", " ".join(words))

    def span_event(self) -> tuple[str, Mapping[str, str | int | float]]:
        """Return its name, counts, seconds and cause as attributes."""
        optional = {"seconds": self.seconds, "cause": self.cause or None}
        known = {key: value for key, value in optional.items() if value is not None}
        return SPAN_EVENT, {"event": self.name, **self.counts, **known}


_CHANGES = ("added", "evicted")
_FOUND = (0, 1, 2, 3, 5, 10, 15, 25)
"""No search returns more than 25."""
_SECONDS = (5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1)


class SearchMetrics:
    """Counts events, and the tools that became visible or went out by them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter, Histogram

        self._events = Counter(
            "mcp_tool_search_events", "What tool search did, by event.", ["event"], registry=registry
        )
        for name in get_args(EventName):
            self._events.labels(name)
        self._tools = Counter(
            "mcp_tool_search_tools",
            "Deferred tools that were made visible (added), or went out for others (evicted).",
            ["change"],
            registry=registry,
        )
        for change in _CHANGES:
            self._tools.labels(change)
        self._found = Histogram(
            "mcp_tool_search_found", "Tools that a search found.", buckets=_FOUND, registry=registry
        )
        self._seconds = Histogram(
            "mcp_tool_search_seconds", "Time to answer a search.", buckets=_SECONDS, registry=registry
        )

    def count(self, event: SearchEvent) -> None:
        """Count an event; a tool's coming and going once each, though a search has both too."""
        self._events.labels(event.name).inc()
        if event.name == "tool_search":
            self._found.observe(event.counts["found"])
            if event.seconds is not None:
                self._seconds.observe(event.seconds)
        else:
            for change in _CHANGES:
                self._tools.labels(change).inc(event.counts.get(change, 0))


KEY = "tool_search"
"""The name under which a session has it."""


@dataclass(frozen=True, slots=True)
class SessionSearch:
    """What is active in one session.

    Args:
        active: the active set.
        n_evicted: how many loaded tools have gone out for others so far.
        brought: the set that its requests bring, mostly the same with each.
    """

    active: Active = NOTHING_ACTIVE
    n_evicted: int = 0
    brought: Active = NOTHING_ACTIVE

    def after(self, change: Change) -> SessionSearch:
        """Return the state after a step."""
        return replace(self, active=change.active, n_evicted=self.n_evicted + len(change.evicted))

    def adopting(self, brought: Active, permitted: Permitted) -> SessionSearch:
        """Take the set that a request brings: a session begins with it, one under way loads what is new in it."""
        if brought == self.brought:
            return self
        bounded = permitted.bounded(brought)
        if self.active == NOTHING_ACTIVE:
            return replace(self, brought=brought, active=bounded)
        new = [name for name in bounded.names if name not in self.active.names]
        return replace(self, brought=brought).after(permitted.load(self.active, new))


NO_SEARCH = SessionSearch()
"""The state at a session's start."""


def kept(session: Session) -> SessionSearch:
    """Return the state of a session."""
    return session.get(KEY, NO_SEARCH)


def changed(session: Session, make: Callable[[Active], Change]) -> Change:
    """Change what is active in a session, and return the change.

    Args:
        make: returns the change of an active set; called again where another request was faster.
    """
    made: list[Change] = []

    def step(kept: SessionSearch) -> SessionSearch:
        made[:] = [make(kept.active)]
        return kept.after(made[0])

    session.update(KEY, NO_SEARCH, step)
    return made[0]


TURN = "agent_utilities.turn"
"""The name of the span of a turn that is opened beside a request, which may have been answered before."""
NOT_RANKED = ("off", "unavailable")
"""Statuses of answers by which nothing is attached."""


logger = logging.getLogger("agent_utilities.wire")


async def permitted_of(host: Host, verdict: Verdict) -> Permitted:
    """Return what a verdict permits of what its caller was last listed."""
    decision = await host.decide("tool", replace(verdict, shapes_lists=False))
    return await permitted_by(host, verdict, decision)


async def permitted_by(host: Host, verdict: Verdict, decision: Decision) -> Permitted:
    """Return what a verdict permits, by a decision made under it."""
    digest = decision.catalog.digest
    if digest not in verdict.unlisted:
        verdict.unlisted[digest] = await _unlisted(host, replace(verdict, shapes_lists=False), decision)
    return Permitted(decision, verdict.preferences, verdict.unlisted[digest])


async def _unlisted(host: Host, bounds_alone: Verdict, decision: Decision) -> frozenset[str]:
    """Return the permitted names that the author's middleware keeps off lists; none while nothing is deferred."""
    if not bounds_alone.preferences.deferral.may_defer(len(decision.permitted)):
        return frozenset()
    try:
        with UnderVerdict(bounds_alone):
            listed = await host.listed_tools(where="cut")
    except Exception:
        # A call must not fail because a list would: then nothing is deferred.
        logger.warning("the author's middleware lists no tools; none is deferred for this request", exc_info=True)
        return decision.permitted_names
    return frozenset() if listed is None else decision.permitted_names.difference(tool.name for tool in listed)


class Turns:
    """Brings preferences up to date with the active set."""

    def __init__(self, host: Host, query: Query) -> None:
        self._host, self._query = host, query

    async def prefer(self, request: Request) -> Preferences:
        """Return preferences that know the active set and, where a turn is opened, the answer to its query."""
        permitted = await permitted_of(self._host, request.verdict)
        preferences, session = request.verdict.preferences, request.session
        if not permitted.may_defer:
            return preferences.undeferred
        brought = preferences.active
        if session is None:
            active = permitted.bounded(brought)
        else:
            active = session.update(KEY, NO_SEARCH, lambda kept: kept.adopting(brought, permitted)).active
        if preferences.active != active:
            preferences = replace(preferences, active=active)
        if permitted.deferral.only_unanswered or not request.lists_tools or preferences.query is None:
            return preferences
        return await self._turned(request.preferring(preferences), permitted)

    async def _turned(self, request: Request, permitted: Permitted) -> Preferences:
        """Answer a list's query; where it opens a turn, what answers it is attached."""
        preferences, deferral = request.verdict.preferences, permitted.deferral
        query, active = preferences.query or "", preferences.active
        is_new = is_new_turn(active, query, deferral)
        limit = n_to_attach(active, deferral, preferences.top_k) if is_new else deferral.search_k
        resolution = await self._query.resolution_of(request, limit)
        if is_new and (resolution.cause or resolution.status in NOT_RANKED):
            self._host.notify(SearchEvent("ranker_fallback", {}, resolution.cause or resolution.status))
        answered = replace(preferences, resolution=resolution)
        if not is_new or resolution.status in NOT_RANKED:
            return answered
        if request.session is None:
            # Nothing has changed for anybody: the same request is listed the same again.
            return replace(answered, n_attached=limit)
        answering = resolution.names if resolution.answered else ()
        if _is_provisional(resolution):
            # For this list; they may go out again, and the turn is made when something has ranked: `turn_later`.
            best = permitted.best(answering, limit)
            change = changed(request.session, lambda active: permitted.load(active, best))
        else:
            n_before = 0  # while the words were answered, other requests may have been turns of the session

            def opened(active: Active) -> Change:
                nonlocal n_before
                n_before = active.n_turns
                return permitted.turn(active, query, answering, preferences.top_k)

            change = changed(request.session, opened)
            if change.active.n_turns > n_before:
                counts = {"turn": change.active.n_turns, "turns": deferral.search_turns}
                self._host.notify(SearchEvent("window_step", counts))
            self._notify(change)
        return replace(answered, active=change.active)

    async def turn_later(self, request: Request) -> None:
        """Count words that no list has been turned by yet as a turn, and tell the client of its list.

        They came with a request that lists nothing, or before anything could rank tools for them.
        """
        if (session := request.session) is None or request.client is None:
            return
        with trace.get_tracer("agent_utilities").start_as_current_span(TURN):
            await self._query.wait_to_search()
            permitted = await permitted_of(self._host, request.verdict)
            before = kept(session).active
            preferences = replace(request.verdict.preferences, active=before)
            listing = request.under(replace(request.verdict, preferences=preferences, shapes_lists=True))
            if permitted.defers and is_new_turn(before, preferences.query, permitted.deferral):
                await self._turned(listing, permitted)
                if kept(session).active.names != before.names:
                    request.client.tell_later()

    async def used(self, request: Request, name: str, permitted: Permitted) -> None:
        """Note that a permitted tool is called: one that is deferred is activated by it, where there is a session."""
        if (session := request.session) is None or name not in permitted.not_pinned:
            return
        if name in kept(session).active.names:
            changed(session, lambda active: Change(touch(active, name)))
        elif permitted.defers:
            await self.loaded(request, [name], permitted)

    async def loaded(self, request: Request, names: Sequence[str], permitted: Permitted) -> Change:
        """Load tools for a request, and tell its client before anything else is answered.

        Into its session, or into the value that a caller without one may bring.
        """
        if request.session is None:
            return permitted.load(request.verdict.preferences.active, names)
        change = changed(request.session, lambda active: permitted.load(active, names))
        if change.added or change.evicted:
            self._notify(change)
            if request.client is not None:
                await request.client.tell_changed()
        return change

    def _notify(self, change: Change) -> None:
        if change.added:
            counts = {"added": len(change.added), "active": len(change.active.names)}
            self._host.notify(SearchEvent("tools_attached", counts))
        if change.evicted:
            self._host.notify(SearchEvent("evicted", {"evicted": len(change.evicted)}))


def _is_provisional(resolution: Resolution) -> bool:
    """Whether nothing has ranked the answer, and something may the next time: what it attaches would stay."""
    return resolution.is_temporary and all(tool.score is None for tool in resolution.tools)

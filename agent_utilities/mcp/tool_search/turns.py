"""What is active for a request: its session's set or the one it brings, with what a new turn attaches."""

from __future__ import annotations

from dataclasses import replace

from agent_utilities.activation.active import (
    Active,
    Change,
    bounded,
    is_new_turn,
    load,
    n_to_attach,
    touch,
    turn,
    within,
)
from agent_utilities.mcp.observers.base import SearchEvent
from agent_utilities.mcp.search_session import SessionView
from agent_utilities.mcp.surface.verdict import Verdict
from agent_utilities.mcp.tool_search.base import SearchHost
from agent_utilities.mcp.tool_search.permitted import Permitted, permitted_of
from agent_utilities.selection.resolution import Resolution

_NOT_RANKED = ("off", "unavailable")


class Turns:
    """Brings verdicts up to date with the active set.

    Args:
        host: the server.
    """

    def __init__(self, host: SearchHost) -> None:
        self._host = host

    async def prepared(self, verdict: Verdict, view: SessionView | None) -> Verdict:
        """Return a verdict whose preferences know the active set and, where it lists tools, the answer to its query.

        Args:
            verdict: of a request for which tools may be deferred.
            view: the session, or None where the request stands alone.
        """
        permitted = await permitted_of(self._host, verdict)
        if not permitted.may_defer:
            return await self._resolved(replace(verdict, preferences=verdict.preferences.undeferred))
        if view is None:
            active = bounded(
                within(verdict.preferences.active, permitted.not_pinned), permitted.deferral, permitted.room
            )
            verdict = _with_active(verdict, active)
        else:
            view.session.adopt(verdict.preferences.active, permitted.not_pinned, permitted.deferral, permitted.room)
            verdict = replace(_with_active(verdict, view.session.active), view=view)
        if permitted.deferral.only_unanswered:
            return await self._resolved(verdict)
        if not verdict.shapes_lists or verdict.preferences.query is None:
            return verdict
        return await self._turned(verdict, permitted)

    async def _resolved(self, verdict: Verdict) -> Verdict:
        """Resolve a list's query, which attaches nothing."""
        if not verdict.shapes_lists or verdict.preferences.query is None:
            return verdict
        resolution = await self._host.resolution_of(verdict, verdict.preferences.most_shown)
        return self._host.surface.resolved(verdict, resolution)

    async def _turned(self, verdict: Verdict, permitted: Permitted) -> Verdict:
        """Resolve a list's query; where it opens a turn, what answers it is attached."""
        preferences, deferral = verdict.preferences, permitted.deferral
        query, active = preferences.query or "", preferences.active
        is_new = is_new_turn(active, query, deferral)
        limit = n_to_attach(active, deferral, preferences.top_k) if is_new else deferral.search_k
        resolution = await self._host.resolution_of(verdict, limit)
        if is_new and (resolution.cause or resolution.status in _NOT_RANKED):
            self._tell(SearchEvent("ranker_fallback", {}, resolution.cause or resolution.status))
        answered = replace(preferences, resolution=resolution)
        if not is_new or resolution.status in _NOT_RANKED:
            return replace(verdict, preferences=answered)
        if verdict.view is None:
            # Nothing has changed for anybody: the same request is listed the same again.
            return replace(verdict, preferences=replace(answered, n_attached=limit))
        session = verdict.view.session
        if _is_provisional(resolution):
            # For this list; they may go out again, and the turn is made when something has ranked: `turn_later`.
            names = permitted.answering(resolution, limit)
            change = load(within(session.active, permitted.not_pinned), names, deferral, permitted.room)
            session.take(change)
            return replace(verdict, preferences=replace(answered, active=session.active))
        before = within(
            session.active, permitted.not_pinned
        )  # while the query was resolved, other requests may have been turns of the session
        limit = n_to_attach(before, deferral, preferences.top_k)
        change = turn(before, query, permitted.answering(resolution, limit), deferral, permitted.room)
        session.take(change)
        if change.active.n_turns > before.n_turns:
            counts = {"turn": change.active.n_turns, "turns": deferral.search_turns}
            self._tell(SearchEvent("window_step", counts))
        self._told(change)
        return replace(verdict, preferences=replace(answered, active=session.active))

    async def turn_later(self, verdict: Verdict) -> None:
        """Count words that no list has been turned by yet as a turn, and tell the client of its list.

        They came with a request that lists nothing, or before anything could rank tools for them.

        Args:
            verdict: a prepared one.
        """
        if (view := verdict.view) is None or verdict.preferences.query is None:
            return
        await self._host.wait_to_search()
        permitted = await permitted_of(self._host, verdict)
        before = view.session.active
        listing = replace(_with_active(verdict, before), shapes_lists=True)
        if permitted.defers and is_new_turn(before, verdict.preferences.query, permitted.deferral):
            await self._turned(listing, permitted)
            if view.session.active.names != before.names:
                await view.tell_changed()

    async def used(self, verdict: Verdict, name: str) -> None:
        """Note that a permitted tool is called: one that is deferred is activated by it, where there is a session."""
        if verdict.view is None:
            return
        permitted = await permitted_of(self._host, verdict)
        if not permitted.may_defer or name not in permitted.not_pinned:
            return
        session = verdict.view.session
        if name in session.active.names:
            session.active = touch(session.active, name)
        elif permitted.defers:
            await self.loaded(verdict.view, [name], permitted)

    async def loaded(self, view: SessionView, names: list[str], permitted: Permitted) -> Change:
        """Load tools into a session, and tell its client before anything else is answered."""
        wanted = [name for name in names if name in permitted.not_pinned]
        active = within(view.session.active, permitted.not_pinned)
        change = load(active, wanted, permitted.deferral, permitted.room)
        if view.session.take(change):
            self._told(change)
            await view.tell_changed()
        return change

    def _told(self, change: Change) -> None:
        """Tell observers what came of a step."""
        observers = self._host.surface.observers
        if change.added:
            observers.searched(
                SearchEvent("tools_attached", {"added": len(change.added), "active": len(change.active.names)})
            )
        if change.evicted:
            observers.searched(SearchEvent("evicted", {"evicted": len(change.evicted)}))

    def _tell(self, event: SearchEvent) -> None:
        self._host.surface.observers.searched(event)


def _with_active(verdict: Verdict, active: Active) -> Verdict:
    if verdict.preferences.active == active:
        return verdict
    return replace(verdict, preferences=replace(verdict.preferences, active=active))


def _is_provisional(resolution: Resolution) -> bool:
    """Whether nothing has ranked the answer, and something may the next time: what it attaches would stay."""
    return resolution.is_temporary and all(tool.score is None for tool in resolution.tools)

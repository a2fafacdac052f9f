"""What is active for one agent of a router, and the steps that change it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from agent_utilities.activation.active import (
    NOTHING_ACTIVE,
    Active,
    Change,
    is_frozen,
    is_new_turn,
    load,
    n_to_attach,
    turn,
)
from agent_utilities.catalog.found_tools import SearchResult
from agent_utilities.catalog.search_result import Select, Words, n_results, nearest_names, parse_query
from agent_utilities.router.finding import Found, by_name, by_words, places_of_server, search_result
from agent_utilities.router.known_tools import KnownTools
from agent_utilities.router.routed_tools import RoutedTools
from agent_utilities.router.settings import RouterSettings
from agent_utilities.router.shared_tools import SharedTools
from agent_utilities.router.tool_index import ToolIndex
from agent_utilities.router.turned import Turned
from agent_utilities.runtime.threads import in_daemon_thread


class ActiveTools:
    """What is active for one agent: a value that each step replaces at once, after whatever it waited for.

    So tasks may take steps side by side, and one that is cancelled has changed nothing.

    Args:
        shared: the tools to choose from.
        settings: how to choose.
        active: what to start with.
    """

    def __init__(self, shared: SharedTools, settings: RouterSettings, active: Active) -> None:
        self._shared, self._settings = shared, settings
        self._active = active
        self._routed: RoutedTools | None = None

    def copy(self, inherit: bool) -> ActiveTools:
        """Return another agent's, which starts with what is active here, or with nothing."""
        other = ActiveTools(self._shared, self._settings, self._active if inherit else NOTHING_ACTIVE)
        other._routed = self._routed
        return other

    @property
    def routed(self) -> RoutedTools:
        """The tools as they were last listed, under the settings."""
        known = self._shared.known
        if self._routed is None or self._routed.known is not known:
            self._routed = RoutedTools(known, self._settings)
        return self._routed

    @property
    def active(self) -> Active:
        """What is active, without tools that are no longer there: those that come back are active again."""
        return self.routed.active(self._active)

    def load(self, *names: str) -> Change:
        """Activate tools that are not pinned; active ones become the most recently used."""
        routed = self.routed
        wanted = [name for name in names if name in routed.not_pinned]
        if not routed.defers or not wanted:
            return Change(self.active)
        return self._take(load(self.active, wanted, self._settings.deferral, routed.room))

    async def _ready(self) -> tuple[KnownTools, ToolIndex]:
        """Return the tools and their index, once what takes long for many tools was made off the event loop."""
        known, index = await self._shared.searchable()
        routed = self.routed
        if "told" not in vars(routed):
            await in_daemon_thread(lambda: routed.told)
        return known, index

    async def turn(self, message: str) -> Turned:
        """Attach the tools that answer a message; nothing where it is blank, the last one, or the set is frozen."""
        query = message.strip()
        known, index = await self._ready()
        routed, deferral = self.routed, self._settings.deferral
        change, cause = Change(self.active), self._why_no_turn(query)
        if not cause:
            most = max(deferral.initial_k, deferral.search_k) + len(routed.pinned)
            ranking, cause = await index.rank(query, None, most)
            # Whatever was waited for, tools and set may have changed meanwhile.
            why_none = ranking.why_none or self._why_no_turn(query)
            answering = [known.names[place] for place in ranking.indexes[: ranking.n_claimed]]
            change = self._attach(query, answering)
            if not change.added:
                cause = ", ".join(filter(None, (cause, why_none or self._why_not_attached(answering))))
        active = change.active
        return Turned(change.added, change.evicted, active.n_turns, is_frozen(active, deferral), cause)

    def _why_no_turn(self, query: str) -> str:
        """Return why words open no turn; empty where they do."""
        active, deferral = self.active, self._settings.deferral
        if not self.routed.defers:
            return "nothing is deferred"
        if not query:
            return "no words"
        if is_frozen(active, deferral):
            return f"frozen after turn {active.n_turns}"
        return "" if is_new_turn(active, query, deferral) else "the words of the last turn"

    def _why_not_attached(self, answering: list[str]) -> str:
        """Return why nothing of what answers a turn was attached by it."""
        listed = frozenset(self.routed.listed(self.active))
        return "what answers is listed already" if listed.issuperset(answering) else "no room for what answers"

    def _attach(self, query: str, answering: list[str]) -> Change:
        routed, active, deferral = self.routed, self.active, self._settings.deferral
        best = [name for name in answering if name in routed.not_pinned][: n_to_attach(active, deferral)]
        # In catalog order, so that the same tools are the same bytes whatever they are ranked like.
        best.sort(key=routed.place_of)
        return self._take(turn(active, query, best, deferral, routed.room))

    async def search(self, query: str, max_results: int | None, server: str | None) -> SearchResult:
        """Return the tools that fit some words or were named, and activate those that come in full.

        Raises:
            InputError: the query is blank or too long, `max_results` out of bounds, or there is no such server.
        """
        asked, limit = parse_query(query), n_results(max_results)
        known, index = await self._ready()
        places = None if server is None else places_of_server(known, server)
        match asked:
            case Select(names):
                found = by_name(known, self.routed.legal, names, places)
            case Words(text):
                ranking, cause = await index.rank(text, places, limit)
                found = by_words(known, ranking, cause, max_results)
        nearest = await in_daemon_thread(partial(_nearest, found, query, places)) if found.misses else {}
        change = self.load(*found.full)
        return search_result(found, query, self.routed, change, nearest)

    def _take(self, change: Change) -> Change:
        self._active = change.active
        return change


def _nearest(found: Found, query: str, places: tuple[int, ...] | None) -> Mapping[str, tuple[str, ...]]:
    known: KnownTools = found.known
    names = known.names if places is None else [known.names[place] for place in places]
    return {name: nearest_names(name, names) for name in found.unknown or (query,)}

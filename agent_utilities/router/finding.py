"""What a search asks of a router's tools, and what came of it: pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from agent_utilities.activation.active import Change
from agent_utilities.activation.active_text import written
from agent_utilities.catalog.found_tools import SearchResult, found_tools
from agent_utilities.catalog.search_arguments import no_such_server
from agent_utilities.catalog.search_result import chosen
from agent_utilities.ranking.base import Ranking
from agent_utilities.router.formats import LegalNames
from agent_utilities.router.known_tools import KnownTools
from agent_utilities.router.routed_tools import RoutedTools
from agent_utilities.selection.resolution import RankedTool


@dataclass(frozen=True, slots=True)
class Found:
    """The tools that a search found.

    Args:
        known: the tools searched.
        full: names of those that come with their definitions, best first.
        more: names of further ones.
        ranked: what the ranker said of them.
        unknown: names asked for that no tool has.
        cause: why the ranking is less than it could be; empty where it isn't.
    """

    known: KnownTools
    full: tuple[str, ...]
    more: tuple[str, ...] = ()
    ranked: tuple[RankedTool, ...] = ()
    unknown: tuple[str, ...] = ()
    cause: str = ""

    @property
    def misses(self) -> bool:
        """Whether something was asked for that is not there."""
        return bool(self.unknown) or not self.full


def places_of_server(known: KnownTools, server: str) -> tuple[int, ...]:
    """Return the places of a server's tools.

    Raises:
        InputError: no tool is of such a server, or has such a tag.
    """
    if places := known.of_server(server):
        return places
    tags = {tag for entry in known.entries for tag in entry.tags}
    raise no_such_server(server, {*known.servers, *tags} - {""})


def by_name(known: KnownTools, legal: LegalNames, names: Collection[str], places: Collection[int] | None) -> Found:
    """Return the tools that were named, under their own or their legal names."""
    own = {name: legal.original(name) for name in names}
    permitted = frozenset(known.names) if places is None else frozenset(known.names[place] for place in places)
    full = tuple(dict.fromkeys(name for name in own.values() if name in permitted))
    return Found(known, full, unknown=tuple(name for name in names if own[name] not in permitted))


def by_words(known: KnownTools, ranking: Ranking, cause: str, max_results: int | None) -> Found:
    """Return the best tools of a ranking, whether or not they are said to answer."""
    ranked = tuple(
        RankedTool(known.names[place], score, words)
        for place, score, words in zip(ranking.indexes, ranking.scores, ranking.matched, strict=True)
    )
    full, more = chosen(ranked, known.definitions, max_results)
    return Found(known, full, more, ranked, cause=cause)


def search_result(
    found: Found, query: str, routed: RoutedTools, change: Change, nearest: Mapping[str, tuple[str, ...]]
) -> SearchResult:
    """Return what a search came to.

    Args:
        found: the tools found.
        query: what was asked for.
        routed: the router's tools.
        change: what was activated and evicted.
        nearest: for each name that no tool has, or for words that found nothing, the names nearest to them.
    """
    definitions = found.known.definitions
    return SearchResult(
        query=query,
        tools=found_tools(found.full, definitions, is_full=True, ranked=found.ranked),
        more=found_tools(found.more, definitions, is_full=False, ranked=found.ranked),
        activated=change.added,
        evicted=change.evicted,
        n_deferred=routed.n_deferred(change.active),
        active=written(change.active),
        unknown={name: nearest[name] for name in found.unknown},
        nearest=() if found.unknown or found.full else nearest.get(query, ()),
        call=routed.entry.call,
        cause=found.cause,
    )

"""Deferral: when a list defers tools, and what each turn or load adds to the active set.

The active set is one value of a header, a URL or `_meta`, which a stateless caller sends back, or hands on: plain
names, such as `git_log,git_diff`, are loaded tools, a `+` marks attached ones, `;turns=2;of=1f2e3d4c` is the number of
turns and the digest of the last one's words, and `;used=1.0` the order of use where it is not that of activation.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from agent_utilities.selection.active import Active, without

ANY = sys.maxsize
"""No limit."""
N_ENTRY_TOOLS = 2
"""`tool_search` and `call_tool`, which are listed while any tool is deferred."""


@dataclass(frozen=True, slots=True)
class Deferral:
    """One caller's settings of tool search; `Deferral()` defers nothing.

    Args:
        over: tools are deferred where more than this many are permitted; None for never.
        initial_k: the most tools that the first turn attaches.
        search_k: the most that each later turn attaches.
        search_turns: turns after which the set is frozen: only search, load and calls add to it. 0 defers nothing.
        max_active: the most loaded tools; 0 for no limit.
        max_tools: the most tools in a list, entry tools and pins counted; None for no limit.
        only_unanswered: whether only lists whose query could not be answered defer tools.
    """

    over: int | None = None
    initial_k: int = 30
    search_k: int = 10
    search_turns: int = 7
    max_active: int = 24
    max_tools: int | None = None
    only_unanswered: bool = False

    def defers(self, n_permitted: int, *, is_unanswered: bool = False) -> bool:
        """Whether a list of a caller with so many permitted tools defers any."""
        return (is_unanswered or not self.only_unanswered) and self.may_defer(n_permitted)

    def may_defer(self, n_permitted: int) -> bool:
        """Whether any list of such a caller defers tools, so that entry tools answer on every request."""
        if self.over is None or self.search_turns == 0:
            return False
        return n_permitted > (self.over if self.max_tools is None else min(self.over, self.max_tools))

    def room(self, n_pins: int) -> int:
        """Return the most tools that a list may have beside entry tools and pins."""
        return ANY if self.max_tools is None else max(0, self.max_tools - N_ENTRY_TOOLS - n_pins)

    def room_to_attach(self, room: int) -> int:
        """Return how much of a list's room turns may fill, so that loads still have some."""
        return room - min(self.max_active or room, (room + 1) // 2)


NO_DEFERRAL = Deferral()


@dataclass(frozen=True, slots=True)
class Change:
    """The active set after one turn or load, with the names that were added and evicted."""

    active: Active
    added: tuple[str, ...] = ()
    evicted: tuple[str, ...] = ()


def digest_of_words(query: str) -> str:
    """Return a digest, 8 hex digits, that distinguishes one turn's words from another's without revealing them."""
    return blake2b(query.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


def within(active: Active, permitted: Container[str]) -> Active:
    """Return an active set without names that are not permitted (any more): a deny beats an activation at once."""
    if all(name in permitted for name in active.names):
        return active
    names, loaded = ([name for name in each if name in permitted] for each in (active.names, active.loaded))
    return replace(active, names=tuple(names), loaded=tuple(loaded))


def touch(active: Active, name: str) -> Active:
    """Return an active set in which a loaded name is the most recently used."""
    if name not in active.loaded or active.loaded[-1] == name:
        return active
    return replace(active, loaded=(*without(active.loaded, (name,)), name))


def load(active: Active, names: Iterable[str], deferral: Deferral, room: int = ANY) -> Change:
    """Load tools that a search returned, a load named or a call used; the least recently used are evicted for them."""
    attached = active.attached
    most = _most_loaded(deferral, len(attached), room)
    taken = without(dict.fromkeys(names), attached)[:most]
    # The best counts as used last, so it stays the longest.
    loaded = (*without(active.loaded, taken), *reversed(taken))
    grown = replace(active, names=tuple(dict.fromkeys(active.names + taken)), loaded=loaded)
    return _change(active, _cut(grown, ANY, most))


def is_frozen(active: Active, deferral: Deferral) -> bool:
    """Whether turns no longer add to an active set."""
    return deferral.only_unanswered or active.n_turns >= deferral.search_turns


def is_new_turn(active: Active, query: str | None, deferral: Deferral) -> bool:
    """Whether a query opens a turn: its words are not the last turn's, and the active set is not frozen."""
    return query is not None and not is_frozen(active, deferral) and digest_of_words(query) != active.words


def n_to_attach(active: Active, deferral: Deferral, top_k: int | None = None) -> int:
    """Return the most tools that the next turn may attach."""
    if is_frozen(active, deferral):
        return 0
    most = deferral.search_k if active.n_turns else deferral.initial_k
    return most if top_k is None else min(most, top_k)


def turn(active: Active, query: str, names: Sequence[str], deferral: Deferral, room: int = ANY) -> Change:
    """Attach the tools that answer a query, if it opens a turn.

    Where a list has no room for both, loaded tools are evicted, the least recently used first.
    """
    if not is_new_turn(active, query, deferral):
        return Change(active)
    attached = active.attached
    taken = without(dict.fromkeys(names), attached)[: max(0, deferral.room_to_attach(room) - len(attached))]
    # A loaded tool keeps its place, and can't be evicted from now on.
    grown = Active(
        names=tuple(dict.fromkeys(active.names + taken)),
        loaded=without(active.loaded, taken),
        n_turns=active.n_turns + 1,
        words=digest_of_words(query),
    )
    return _change(active, _cut(grown, ANY, _most_loaded(deferral, len(attached) + len(taken), room)))


def fitting(active: Active, room: int, max_active: int = 0) -> tuple[str, ...]:
    """Return the active names that fit a list, in order of activation.

    A caller may send more than was ever handed out. The most recently used of the loaded ones are shown, and the first
    of the attached ones.
    """
    n_loaded = min(len(active.loaded), room, max_active or room)
    return _cut(active, room - n_loaded, n_loaded).names


def bounded(active: Active, deferral: Deferral, room: int = ANY) -> Active:
    """Cut an active set that a caller sent to what turns and loads could have made of it.

    The first attached names stay, and the most recently used of the loaded ones.
    """
    made = deferral.initial_k + deferral.search_k * max(0, deferral.search_turns - 1)
    most = min(made, deferral.room_to_attach(room))
    return _cut(active, most, _most_loaded(deferral, min(most, len(active.attached)), room))


def _change(before: Active, active: Active) -> Change:
    return Change(active, without(active.names, before.names), without(before.names, active.names))


def _cut(active: Active, n_attached: int, n_loaded: int) -> Active:
    """Return the first attached names, and the most recently used of the loaded ones."""
    loaded = active.loaded[max(0, len(active.loaded) - n_loaded) :]
    kept = frozenset((*active.attached[:n_attached], *loaded))
    if len(kept) == len(active.names):
        return active
    return replace(active, names=tuple(name for name in active.names if name in kept), loaded=loaded)


def _most_loaded(deferral: Deferral, n_attached: int, room: int) -> int:
    return min(deferral.max_active or ANY, max(0, room - n_attached))

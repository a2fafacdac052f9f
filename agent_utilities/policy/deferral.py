"""Deferred tools: when a list defers any, which are visible, what each turn or load adds, and all that as a text.

The active set is one value of a header, a URL or `_meta`, which a stateless caller brings back, or hands on:
`git_log,git_diff` by itself names loaded tools. A `+` marks those that turns attached; `;turns=2;of=1f2e3d4c` says how
many turns there were, and which words the last one had; `;used=1.0` in which order the loaded ones were used, where
that is not the order in which they came.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from agent_utilities.selection.active import Active, without

ANY = sys.maxsize
"""As many as there are."""
N_ENTRY_TOOLS = 2
"""`tool_search` and `call_tool`, which are listed beside the tools while any is deferred."""


@dataclass(frozen=True, slots=True)
class Deferral:
    """What holds of tool search for one caller; `Deferral()` defers nothing.

    Args:
        over: tools are deferred where more than this many are permitted; None for never.
        initial_k: the most tools that the first turn attaches.
        search_k: the most that each later turn adds.
        search_turns: turns after which the set is frozen: only search, load and calls add to it. 0 defers nothing.
        max_active: the most tools that search, load and calls keep active; 0 for no cap.
        max_tools: the most tools that a list may have, entry tools and pins counted; None for no limit.
        only_unanswered: whether tools are deferred in those lists alone whose query could not be answered.
    """

    over: int | None = None
    initial_k: int = 30
    search_k: int = 10
    search_turns: int = 7
    max_active: int = 24
    max_tools: int | None = None
    only_unanswered: bool = False

    def defers(self, n_permitted: int, *, is_unanswered: bool = False) -> bool:
        """Whether tools are deferred in a list of a caller to whom so many are permitted."""
        return (is_unanswered or not self.only_unanswered) and self.may_defer(n_permitted)

    def may_defer(self, n_permitted: int) -> bool:
        """Whether tools are deferred in any list of such a caller, so that entry tools answer on every request."""
        if self.over is None or self.search_turns == 0:
            return False
        return n_permitted > (self.over if self.max_tools is None else min(self.over, self.max_tools))

    def room(self, n_pins: int) -> int:
        """Return how many tools a list has room for beside entry tools and pins."""
        return ANY if self.max_tools is None else max(0, self.max_tools - N_ENTRY_TOOLS - n_pins)

    def room_to_attach(self, room: int) -> int:
        """Return how much of a list's room turns may fill, so that search still has some."""
        return room - min(self.max_active or room, (room + 1) // 2)


NO_DEFERRAL = Deferral()
"""Defers nothing."""


@dataclass(frozen=True, slots=True)
class Change:
    """What came of one step."""

    active: Active
    added: tuple[str, ...] = ()
    evicted: tuple[str, ...] = ()


def digest_of_words(query: str) -> str:
    """Return 8 hex digits that tell one turn's words from another's, and nobody what they were."""
    return blake2b(query.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


def within(active: Active, permitted: Container[str]) -> Active:
    """Return a set without names that are not permitted (any more): a deny beats an activation at once."""
    if all(name in permitted for name in active.names):
        return active
    names, loaded = ([name for name in each if name in permitted] for each in (active.names, active.loaded))
    return replace(active, names=tuple(names), loaded=tuple(loaded))


def touch(active: Active, name: str) -> Active:
    """Return a set in which a name is the most recently used of what was loaded."""
    if name not in active.loaded or active.loaded[-1] == name:
        return active
    return replace(active, loaded=(*without(active.loaded, (name,)), name))


def load(active: Active, names: Iterable[str], deferral: Deferral, room: int = ANY) -> Change:
    """Make tools visible that a search found, a load named or a call used; the least recently used go out for them."""
    attached = active.attached
    most = _most_loaded(deferral, len(attached), room)
    taken = without(dict.fromkeys(names), attached)[:most]
    # The best is used last, so that it stays the longest.
    loaded = (*without(active.loaded, taken), *reversed(taken))
    grown = replace(active, names=tuple(dict.fromkeys(active.names + taken)), loaded=loaded)
    return _change(active, _cut(grown, ANY, most))


def is_frozen(active: Active, deferral: Deferral) -> bool:
    """Whether turns add nothing to a set any more."""
    return deferral.only_unanswered or active.n_turns >= deferral.search_turns


def is_new_turn(active: Active, query: str | None, deferral: Deferral) -> bool:
    """Whether words open a turn that may add to a set: they are not the last turn's, and it is not frozen."""
    return query is not None and not is_frozen(active, deferral) and digest_of_words(query) != active.words


def n_to_attach(active: Active, deferral: Deferral, top_k: int | None = None) -> int:
    """Return the most tools that the next turn may attach."""
    if is_frozen(active, deferral):
        return 0
    most = deferral.search_k if active.n_turns else deferral.initial_k
    return most if top_k is None else min(most, top_k)


def turn(active: Active, query: str, names: Sequence[str], deferral: Deferral, room: int = ANY) -> Change:
    """Attach what answers a turn's words; nothing where the words are the last turn's, or the set is frozen.

    Where a list has no room for both, what was loaded goes out for it, the least recently used first.
    """
    if not is_new_turn(active, query, deferral):
        return Change(active)
    attached = active.attached
    taken = without(dict.fromkeys(names), attached)[: max(0, deferral.room_to_attach(room) - len(attached))]
    # What was loaded already stays where it is, and may not be evicted from now on.
    grown = Active(
        names=tuple(dict.fromkeys(active.names + taken)),
        loaded=without(active.loaded, taken),
        n_turns=active.n_turns + 1,
        words=digest_of_words(query),
    )
    return _change(active, _cut(grown, ANY, _most_loaded(deferral, len(attached) + len(taken), room)))


def fitting(active: Active, room: int, max_active: int = 0) -> tuple[str, ...]:
    """Return the names that a list may show, in the order they came.

    A caller who brings a set may bring more than was ever handed out. Of what is loaded the most recently used are
    shown; of what turns attached the last go first.
    """
    n_loaded = min(len(active.loaded), room, max_active or room)
    return _cut(active, room - n_loaded, n_loaded).names


def bounded(active: Active, deferral: Deferral, room: int = ANY) -> Active:
    """Return what of a set that a caller brought may be: no more than turns and loads could have made of it.

    The first that turns attached stay, and the most recently used of what was loaded.
    """
    made = deferral.initial_k + deferral.search_k * max(0, deferral.search_turns - 1)
    most = min(made, deferral.room_to_attach(room))
    return _cut(active, most, _most_loaded(deferral, min(most, len(active.attached)), room))


def _change(before: Active, active: Active) -> Change:
    return Change(active, without(active.names, before.names), without(before.names, active.names))


def _cut(active: Active, n_attached: int, n_loaded: int) -> Active:
    """Return the first of what turns attached, and the most recently used of what was loaded."""
    loaded = active.loaded[max(0, len(active.loaded) - n_loaded) :]
    kept = frozenset((*active.attached[:n_attached], *loaded))
    if len(kept) == len(active.names):
        return active
    return replace(active, names=tuple(name for name in active.names if name in kept), loaded=loaded)


def _most_loaded(deferral: Deferral, n_attached: int, room: int) -> int:
    return min(deferral.max_active or ANY, max(0, room - n_attached))

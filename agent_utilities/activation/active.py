"""The active set: which deferred tools are visible, and what a turn, a search, a load or a call makes of that."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from agent_utilities.activation.deferral import Deferral


@dataclass(frozen=True, slots=True)
class Active:
    """Deferred tools that were made visible.

    Args:
        names: all of them, in the order they came: a list grows at its end, for prompt caches.
        loaded: those that search, load or a call activated, least recently used first; the others, which turns
            attached, are never evicted.
        n_turns: how many turns there were.
        words: digest of the last turn's words, see `digest_of_words`; empty before the first.
    """

    names: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    n_turns: int = 0
    words: str = ""

    @property
    def attached(self) -> tuple[str, ...]:
        """The names that turns attached, in the order they came."""
        loaded = frozenset(self.loaded)
        return tuple(name for name in self.names if name not in loaded)


NOTHING_ACTIVE = Active()
"""Where every session, and every request that brings nothing, starts."""


@dataclass(frozen=True, slots=True)
class Change:
    """What came of one step.

    Args:
        active: the set after it.
        added: names that it made visible, in order.
        evicted: names that it took out, in the order they were.
    """

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
    names = tuple(name for name in active.names if name in permitted)
    return replace(active, names=names, loaded=tuple(name for name in active.loaded if name in permitted))


def touch(active: Active, name: str) -> Active:
    """Return a set in which a name is the most recently used of what was loaded."""
    if name not in active.loaded or active.loaded[-1] == name:
        return active
    return replace(active, loaded=(*(each for each in active.loaded if each != name), name))


def load(active: Active, names: Iterable[str], deferral: Deferral, room: int | None = None) -> Change:
    """Make tools visible that a search found, a load named or a call used; the least recently used go out for them.

    Args:
        active: the set before.
        names: permitted tools that are not pinned, the most important first; where they are more than may be active
            the last of them are left out.
        deferral: holds `max_active`.
        room: the most names that the set may have; None for any number.
    """
    wanted = tuple(dict.fromkeys(names))
    attached = frozenset(active.attached)
    most = _most_loaded(deferral, len(attached), room)
    taken = [name for name in wanted if name not in attached][:most]
    # The best is used last, so that it stays the longest.
    loaded = (*(name for name in active.loaded if name not in taken), *reversed(taken))
    kept, evicted = _kept_and_evicted(active, loaded, most)
    added = tuple(name for name in taken if name not in active.names)
    stays = tuple(name for name in active.names if name not in evicted)
    return Change(replace(active, names=(*stays, *added), loaded=kept), added, evicted)


def is_frozen(active: Active, deferral: Deferral) -> bool:
    """Whether turns add nothing to a set any more."""
    return active.n_turns >= deferral.search_turns


def is_new_turn(active: Active, query: str | None, deferral: Deferral) -> bool:
    """Whether words open a turn that may add to a set: they are not the last turn's, and it is not frozen."""
    return query is not None and not is_frozen(active, deferral) and digest_of_words(query) != active.words


def n_to_attach(active: Active, deferral: Deferral, top_k: int | None = None) -> int:
    """Return the most tools that the next turn may attach."""
    if is_frozen(active, deferral):
        return 0
    most = deferral.search_k if active.n_turns else deferral.initial_k
    return most if top_k is None else min(most, top_k)


def turn(active: Active, query: str, names: Sequence[str], deferral: Deferral, room: int | None = None) -> Change:
    """Attach what answers a turn's words; nothing where the words are the last turn's, or the set is frozen.

    Where a list has no room for both, what was loaded goes out for it, the least recently used first.

    Args:
        active: the set before.
        query: the turn's words.
        names: permitted tools that are not pinned and answer them, in the order in which they are to be listed.
        deferral: holds `search_turns`.
        room: the most names that the set may have; None for any number.
    """
    if not is_new_turn(active, query, deferral):
        return Change(active)
    wanted = dict.fromkeys(names)
    most = deferral.room_to_attach(room)
    free = len(wanted) if most is None else max(0, most - len(active.attached))
    # What was loaded already stays where it is, and may not be evicted from now on.
    taken = [name for name in wanted if name not in active.names or name in active.loaded][:free]
    added = tuple(name for name in taken if name not in active.names)
    loaded = tuple(name for name in active.loaded if name not in taken)
    n_attached = len(active.names) + len(added) - len(loaded)
    kept, evicted = _kept_and_evicted(active, loaded, _most_loaded(deferral, n_attached, room))
    names = (*(name for name in active.names if name not in evicted), *added)
    return Change(Active(names, kept, active.n_turns + 1, digest_of_words(query)), added, evicted)


def fitting(active: Active, room: int | None) -> tuple[str, ...]:
    """Return the names that a list has room for, in the order they came: the last that turns attached go first."""
    if room is None or len(active.names) <= room:
        return active.names
    loaded = active.loaded[max(0, len(active.loaded) - room) :]
    kept = frozenset((*loaded, *active.attached[: room - len(loaded)]))
    return tuple(name for name in active.names if name in kept)


def bounded(active: Active, deferral: Deferral, room: int | None = None) -> Active:
    """Return what of a set that a caller brought may be: no more than turns and loads could have made of it.

    The first that turns attached stay, and the most recently used of what was loaded.
    """
    most = deferral.initial_k + deferral.search_k * max(0, deferral.search_turns - 1)
    if (room_to_attach := deferral.room_to_attach(room)) is not None:
        most = min(most, room_to_attach)
    attached = active.attached[:most]
    n_loaded = _most_loaded(deferral, len(attached), room)
    loaded = active.loaded if n_loaded is None else active.loaded[max(0, len(active.loaded) - n_loaded) :]
    if len(attached) + len(loaded) < len(active.names):
        kept = frozenset((*attached, *loaded))
        active = replace(active, names=tuple(name for name in active.names if name in kept), loaded=loaded)
    return active


def _kept_and_evicted(
    active: Active, loaded: Sequence[str], most: int | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the most recently used of what is loaded, and of the names before those that go out for them."""
    kept = tuple(loaded if most is None else loaded[max(0, len(loaded) - most) :])
    gone = frozenset(loaded) - frozenset(kept)
    return kept, tuple(name for name in active.names if name in gone)


def _most_loaded(deferral: Deferral, n_attached: int, room: int | None) -> int | None:
    most = deferral.max_active or None
    if room is None:
        return most
    free = max(0, room - n_attached)
    return free if most is None else min(most, free)

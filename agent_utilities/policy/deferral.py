"""Deferred tools: when a list defers any, which are visible, what each turn or load adds, and all that as a text.

The active set is one value of a header, a URL or `_meta`, which a stateless caller brings back, or hands on:
`git_log,git_diff` by itself names loaded tools. A `+` marks those that turns attached; `;turns=2;of=1f2e3d4c` says how
many turns there were, and which words the last one had; `;used=1.0` in which order the loaded ones were used, where
that is not the order in which they came.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from agent_utilities.errors import SelectionError

MAX_ACTIVE_NAMES = 512
MAX_NAME = 256
_MOST_BYTES = 6000
"""What is written at most: less than is read, so that other values of the same channel have room beside it."""
_PARTS = {
    "turns": re.compile(r"[0-9]{1,6}"),
    "of": re.compile(r"[0-9a-f]{8}"),
    "used": re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){0,511}"),
}
_HINT = "give names, such as git_log,git_diff, or the value of active as a result told it"


def read_active(text: str, source: str) -> Active:
    """Return the active set in a value; `SelectionError` where it is malformed, or names too many tools."""
    listed, *parts = text.split(";")
    given = _names(listed, source)
    loaded = tuple(name for name, is_attached in given.items() if not is_attached)
    told: dict[str, str] = {}
    for part in parts:
        key, _, value = part.strip().partition("=")
        if key in told:
            raise SelectionError("a part of an active value given twice", part, source, _HINT)
        if key not in _PARTS or not _PARTS[key].fullmatch(value):
            raise SelectionError("not a part of an active value", part, source, _HINT)
        told[key] = value
    if "used" in told:
        loaded = _in_order(loaded, told["used"], source)
    return Active(tuple(given), loaded, int(told.get("turns", 0)), told.get("of", ""))


def check_active_count(n_names: int, source: str) -> None:
    """Refuse more names than one channel may make active; `SelectionError` where there are more."""
    if n_names > MAX_ACTIVE_NAMES:
        raise SelectionError("too many active tools", f"{n_names} names", source, f"give at most {MAX_ACTIVE_NAMES}")


def _names(listed: str, source: str) -> dict[str, bool]:
    """Return the names in a list, in their order, each with whether a turn attached it."""
    check_active_count(listed.count(",") + 1, source)
    given: dict[str, bool] = {}
    for each in listed.split(","):
        is_attached = each.strip().startswith("+")
        if name := each.strip().removeprefix("+").strip():
            if len(name) > MAX_NAME:
                raise SelectionError("too long for a tool's name", name[:MAX_NAME], source, _HINT)
            given[name] = given.get(name, False) or is_attached
    return given


def _in_order(loaded: tuple[str, ...], used: str, source: str) -> tuple[str, ...]:
    places = [int(place) for place in used.split(".")]
    if sorted(places) != list(range(len(loaded))):
        raise SelectionError("not an order of the loaded tools", used, source, _HINT)
    return tuple(loaded[place] for place in places)


def written(active: Active) -> str:
    """Return the value that `read_active` reads; empty for an empty set.

    Where the names take too many bytes those that came first are left out.
    """
    loaded = {name: place for place, name in enumerate(active.loaded)}
    kept: list[str] = []
    n_bytes = 0
    for name in reversed(active.names):
        if not _can_be_written(name):
            continue
        n_bytes += 6 + (len(name) if name.isascii() else 3 * len(name.encode()))
        if n_bytes > _MOST_BYTES or len(kept) == MAX_ACTIVE_NAMES:
            break
        kept.append(name)
    kept.reverse()
    parts = [",".join(name if name in loaded else f"+{name}" for name in kept)]
    came = [name for name in kept if name in loaded]
    used = sorted(range(len(came)), key=lambda place: loaded[came[place]])
    if used != sorted(used):
        parts.append(f"used={'.'.join(map(str, used))}")
    if active.n_turns:
        parts.append(f"turns={active.n_turns}")
    if active.words:
        parts.append(f"of={active.words}")
    return ";".join(parts) if any(parts) else ""


def _can_be_written(name: str) -> bool:
    """Whether a name is read back as it is."""
    return (
        0 < len(name) <= MAX_NAME
        and name == name.strip()
        and not name.startswith("+")
        and not {",", ";"} & set(name)
        and name.isprintable()
    )


def united(*given: Active) -> Active:
    """Return what all of some values of one channel name; turns and words are the first's that has any."""
    names = dict.fromkeys(name for active in given for name in active.names)
    attached = {name for active in given for name in active.attached}
    loaded = dict.fromkeys(name for active in given for name in active.loaded if name not in attached)
    teller = next((active for active in given if active.n_turns or active.words), given[0])
    return Active(tuple(names), tuple(loaded), teller.n_turns, teller.words)


ANY = sys.maxsize
"""As many as there are."""
AUTO_OVER = 50
"""More permitted tools than this are deferred where nobody says how many."""
N_ENTRY_TOOLS = 2
"""`tool_search` and `call_tool`, which are listed beside the tools while any is deferred."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A value of `tool_search`: tools are deferred where more than `over` are permitted, or never where it is None."""

    over: int | None = None

    @property
    def spelled(self) -> str:
        """The value as channels spell it."""
        return {None: "off", 0: "on", AUTO_OVER: "auto"}.get(self.over, f"auto:{self.over}")


OFF = Threshold()
ON = Threshold(0)
AUTO = Threshold(AUTO_OVER)


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
class Active:
    """Deferred tools that were made visible.

    Args:
        names: all of them, in the order they came: a list grows at its end, for prompt caches.
        loaded: those that search, load or a call activated, least recently used first; the others, which turns
            attached, are never evicted.
        words: digest of the last turn's words, see `digest_of_words`; empty before the first.
    """

    names: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    n_turns: int = 0
    words: str = ""

    @property
    def attached(self) -> tuple[str, ...]:
        """The names that turns attached, in the order they came."""
        return _without(self.names, self.loaded)


NOTHING_ACTIVE = Active()
"""Where every session, and every request that brings nothing, starts."""


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
    return replace(active, loaded=(*_without(active.loaded, (name,)), name))


def load(active: Active, names: Iterable[str], deferral: Deferral, room: int = ANY) -> Change:
    """Make tools visible that a search found, a load named or a call used; the least recently used go out for them."""
    attached = active.attached
    most = _most_loaded(deferral, len(attached), room)
    taken = _without(dict.fromkeys(names), attached)[:most]
    # The best is used last, so that it stays the longest.
    loaded = (*_without(active.loaded, taken), *reversed(taken))
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
    taken = _without(dict.fromkeys(names), attached)[: max(0, deferral.room_to_attach(room) - len(attached))]
    # What was loaded already stays where it is, and may not be evicted from now on.
    grown = Active(
        names=tuple(dict.fromkeys(active.names + taken)),
        loaded=_without(active.loaded, taken),
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
    return Change(active, _without(active.names, before.names), _without(before.names, active.names))


def _cut(active: Active, n_attached: int, n_loaded: int) -> Active:
    """Return the first of what turns attached, and the most recently used of what was loaded."""
    loaded = active.loaded[max(0, len(active.loaded) - n_loaded) :]
    kept = frozenset((*active.attached[:n_attached], *loaded))
    if len(kept) == len(active.names):
        return active
    return replace(active, names=tuple(name for name in active.names if name in kept), loaded=loaded)


def _without(names: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    gone = frozenset(others)
    return tuple(name for name in names if name not in gone)


def _most_loaded(deferral: Deferral, n_attached: int, room: int) -> int:
    return min(deferral.max_active or ANY, max(0, room - n_attached))

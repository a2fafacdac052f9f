"""Generated active sets and the steps that they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from agent_utilities.policy.deferral import ANY, Change, Deferral, load, touch, turn, within
from agent_utilities.selection.active import NOTHING_ACTIVE, Active

TOOLS = tuple("abcdefghijkl")
tools = st.sampled_from(TOOLS)
names = st.lists(tools, max_size=6).map(tuple)
rooms = st.just(ANY) | st.integers(0, 8)
deferrals = st.builds(
    Deferral,
    over=st.just(0),
    search_turns=st.integers(0, 4),
    max_active=st.integers(0, 4),
)


@dataclass(frozen=True)
class Step:
    """One thing that happens to a set: a turn, a load, a touch, or a change of what is permitted."""

    kind: str
    names: tuple[str, ...]
    words: str = ""

    def taken(self, active: Active, deferral: Deferral, room: int) -> Change:
        """Return what comes of it."""
        match self.kind:
            case "turn":
                return turn(active, self.words, self.names, deferral, room)
            case "load":
                return load(active, self.names, deferral, room)
            case "touch":
                return Change(touch(active, self.names[0])) if self.names else Change(active)
            case _:
                left = within(active, frozenset(TOOLS) - frozenset(self.names))
                return Change(left, (), tuple(name for name in active.names if name not in left.names))


steps = st.builds(
    Step, st.sampled_from(["turn", "load", "touch", "deny"]), names, st.sampled_from(["one", "two", "three", "four"])
)


def after(given: Sequence[Step], deferral: Deferral, room: int) -> Active:
    """Return the set that some steps come to."""
    active = NOTHING_ACTIVE
    for step in given:
        active = step.taken(active, deferral, room).active
    return active


@st.composite
def any_actives(draw: st.DrawFn, texts: st.SearchStrategy[str] = tools) -> Active:
    """A set such as a caller may bring, whether or not steps could come to it."""
    found = tuple(draw(st.lists(texts, max_size=12, unique=True)))
    loaded = draw(st.permutations([name for name in found if draw(st.booleans())]))
    words = draw(st.sampled_from(["", "0123abcd"]))
    return Active(found, tuple(loaded), draw(st.integers(0, 999_999)), words)

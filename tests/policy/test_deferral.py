"""The laws of the active set: it grows at its end, its cap holds, and what turns attached stays."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.policy.deferral import (
    ANY,
    Deferral,
    bounded,
    digest_of_words,
    fitting,
    is_frozen,
    is_new_turn,
    load,
    n_to_attach,
    touch,
    turn,
    within,
)
from agent_utilities.selection.active import NOTHING_ACTIVE, Active
from tests.policy.given import TOOLS, Step, after, any_actives, deferrals, names, rooms, steps

UNCAPPED = Deferral(over=0, max_active=0)
histories = st.lists(steps, max_size=8)


class TestEveryStep:
    @given(histories, steps, deferrals, rooms)
    def test_adds_at_the_end_and_moves_nothing_that_stays(
        self, past: list[Step], step: Step, deferral: Deferral, room: int
    ):
        before = after(past, deferral, room)
        change = step.taken(before, deferral, room)
        stay = tuple(name for name in before.names if name not in change.evicted)
        assert change.active.names == stay + change.added

    @given(histories, steps, deferrals, rooms)
    def test_tells_exactly_what_came_and_what_went(self, past: list[Step], step: Step, deferral: Deferral, room: int):
        before = after(past, deferral, room)
        change = step.taken(before, deferral, room)
        kept, now = set(before.names), set(change.active.names)
        assert (set(change.added), set(change.evicted)) == (now - kept, kept - now)

    @given(histories, deferrals, rooms)
    def test_names_each_tool_once_and_the_loaded_ones_among_all(self, past: list[Step], deferral: Deferral, room: int):
        active = after(past, deferral, room)
        assert len(active.names) == len(set(active.names))
        assert len(active.loaded) == len(set(active.loaded))
        assert sorted((*active.attached, *active.loaded)) == sorted(active.names)

    @given(histories, deferrals, rooms)
    def test_keeps_no_more_loaded_than_the_cap(self, past: list[Step], deferral: Deferral, room: int):
        active = after(past, deferral, room)
        assert not deferral.max_active or len(active.loaded) <= deferral.max_active

    @given(histories, deferrals, st.integers(0, 8))
    def test_keeps_no_more_than_there_is_room_for(self, past: list[Step], deferral: Deferral, room: int):
        assert len(after(past, deferral, room).names) <= room

    @given(histories, steps, deferrals, rooms)
    def test_leaves_what_a_turn_attached_out_of_what_is_ever_evicted(
        self, past: list[Step], step: Step, deferral: Deferral, room: int
    ):
        before = after(past, deferral, room)
        change = step.taken(before, deferral, room)
        assert step.kind == "deny" or set(before.attached) <= set(change.active.attached)

    @given(histories, steps, deferrals, rooms)
    def test_evicts_the_least_recently_used_first(self, past: list[Step], step: Step, deferral: Deferral, room: int):
        before = after(past, deferral, room)
        change = step.taken(before, deferral, room)
        unused = [name for name in before.loaded if name not in step.names]
        gone = [name for name in unused if name in change.evicted]
        assert step.kind == "deny" or gone == unused[: len(gone)]

    @given(histories, deferrals, rooms)
    def test_is_the_same_for_the_same_inputs(self, past: list[Step], deferral: Deferral, room: int):
        assert after(past, deferral, room) == after(past, deferral, room)

    @given(histories, deferrals, rooms)
    def test_loads_no_more_of_turns_once_the_set_is_frozen(self, past: list[Step], deferral: Deferral, room: int):
        active = after(past, deferral, room)
        assert active.n_turns <= deferral.search_turns
        if is_frozen(active, deferral):
            assert turn(active, "words never said", tuple("xyz"), deferral, room).active is active
            assert n_to_attach(active, deferral) == 0

    @pytest.mark.outside
    def test_does_not_depend_on_the_seed_of_hashes(self):
        program = (
            "from agent_utilities.policy.deferral import *;"
            "from agent_utilities.selection.active import NOTHING_ACTIVE, written; d = Deferral(0, max_active=3);"
            "a = turn(NOTHING_ACTIVE, 'words', list('abc'), d).active;"
            "a = load(a, list('defgh'), d).active; a = load(touch(a, 'e'), list('ij'), d, 5).active; print(written(a))"
        )
        told = {
            subprocess.run(
                [sys.executable, "-c", program],
                env={"PYTHONHASHSEED": seed},
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            for seed in ("1", "2", "3")
        }
        assert len(told) == 1


class TestLoad:
    @given(histories, names, deferrals, rooms)
    def test_again_changes_nothing(self, past: list[Step], wanted: tuple[str, ...], deferral: Deferral, room: int):
        once = load(after(past, deferral, room), wanted, deferral, room).active
        again = load(once, wanted, deferral, room)
        assert (again.active, again.added, again.evicted) == (once, (), ())

    @given(histories, deferrals, rooms, st.data())
    def test_of_what_is_loaded_only_changes_how_recently_it_was_used(
        self, past: list[Step], deferral: Deferral, room: int, data: st.DataObject
    ):
        before = after(past, deferral, room)
        wanted = data.draw(st.lists(st.sampled_from(before.loaded), unique=True) if before.loaded else st.just([]))
        change = load(before, wanted, deferral, room)
        assert (change.active.names, set(change.active.loaded)) == (before.names, set(before.loaded))
        assert change.active.loaded[len(before.loaded) - len(wanted) :] == tuple(reversed(wanted))

    @given(histories, names, rooms)
    def test_of_more_than_fit_keeps_the_first(self, past: list[Step], wanted: tuple[str, ...], room: int):
        deferral = Deferral(over=0, max_active=2)
        before = after(past, deferral, room)
        news = [name for name in dict.fromkeys(wanted) if name not in before.attached]
        loaded = load(before, wanted, deferral, room).active.loaded
        n_kept = min(2, room - len(before.attached))
        assert set(news[:n_kept]) <= set(loaded)
        assert set(news[n_kept:]).isdisjoint(set(loaded) - set(before.loaded))

    def test_tells_the_names_that_went_in_the_order_they_came(self):
        before = Active(("a", "b", "c"), ("b", "a", "c"))
        assert load(before, "xy", Deferral(over=0, max_active=3)).evicted == ("a", "b")

    def test_puts_the_best_where_it_stays_the_longest(self):
        active = load(NOTHING_ACTIVE, ["best", "second"], Deferral(over=0, max_active=2)).active
        assert load(active, ["new"], Deferral(over=0, max_active=2)).evicted == ("second",)

    def test_has_no_cap_where_it_is_zero(self):
        many = [f"tool_{i}" for i in range(300)]
        assert load(NOTHING_ACTIVE, many, UNCAPPED).active.names == tuple(many)

    def test_leaves_turns_and_words_as_they_were(self):
        before = turn(NOTHING_ACTIVE, "words", ["a"], UNCAPPED).active
        after_load = load(before, ["b"], UNCAPPED).active
        assert (after_load.n_turns, after_load.words) == (1, digest_of_words("words"))


class TestTouch:
    @given(any_actives(), st.sampled_from("abcxyz"))
    def test_changes_no_name_and_no_place(self, active: Active, name: str):
        touched = touch(active, name)
        assert (touched.names, touched.attached) == (active.names, active.attached)
        assert touched.loaded[-1:] == ((name,) if name in active.loaded else active.loaded[-1:])

    def test_saves_a_tool_from_being_evicted_next(self):
        active = load(NOTHING_ACTIVE, ["b", "a"], Deferral(over=0, max_active=2)).active
        assert load(touch(active, "a"), ["c"], Deferral(over=0, max_active=2)).evicted == ("b",)


class TestTurn:
    @given(histories, names, deferrals, rooms)
    def test_with_the_same_words_changes_nothing(
        self, past: list[Step], wanted: tuple[str, ...], deferral: Deferral, room: int
    ):
        once = turn(after(past, deferral, room), "words", ["a", "b"], deferral, room).active
        assert turn(once, "words", wanted, deferral, room).active is once or is_frozen(once, deferral)
        assert turn(once, "words", wanted, deferral, room).added == ()

    @given(histories, names, deferrals)
    def test_attaches_all_that_it_is_given_where_there_is_room(
        self, past: list[Step], wanted: tuple[str, ...], deferral: Deferral
    ):
        before = after(past, deferral, ANY)
        now = turn(before, "new words", wanted, deferral).active
        assert is_frozen(before, deferral) or set(wanted) <= set(now.attached)

    @given(histories, names, deferrals, st.integers(1, 8))
    def test_leaves_room_for_search(self, past: list[Step], wanted: tuple[str, ...], deferral: Deferral, room: int):
        now = turn(after(past, deferral, room), "new words", wanted, deferral, room).active
        assert is_frozen(now, deferral) or load(now, ["x"], deferral, room).active.names[-1] == "x"

    def test_keeps_what_was_loaded_already_in_its_place_for_good(self):
        before = load(NOTHING_ACTIVE, ["a", "b"], Deferral(over=0)).active
        change = turn(before, "words", ["c", "b"], Deferral(over=0))
        assert (change.active.names, change.active.loaded, change.added) == (("a", "b", "c"), ("a",), ("c",))

    def test_is_not_opened_by_no_words(self):
        assert not is_new_turn(NOTHING_ACTIVE, None, Deferral(over=0))

    def test_attaches_up_to_initial_k_first_and_search_k_from_then_on(self):
        deferral = Deferral(over=0, initial_k=30, search_k=10, search_turns=2)
        ns = [n_to_attach(Active(n_turns=n), deferral) for n in range(4)]
        assert ns == [30, 10, 0, 0]

    def test_attaches_no_more_than_the_caller_asks_for(self):
        assert [n_to_attach(NOTHING_ACTIVE, Deferral(over=0), top_k) for top_k in (3, 99)] == [3, 30]

    def test_of_zero_turns_is_never_one(self):
        assert turn(NOTHING_ACTIVE, "words", ["a"], Deferral(over=0, search_turns=0)).active == NOTHING_ACTIVE

    def test_tells_words_apart_and_not_what_they_were(self):
        digests = {digest_of_words(words) for words in ("delete the log", "delete the logs", "", "\ud800")}
        assert {len(digest) for digest in digests} == {8}
        assert len(digests) == 4

    def test_attaches_nothing_where_tools_are_deferred_in_unanswered_lists_alone(self):
        deferral = Deferral(over=50, only_unanswered=True)
        assert turn(NOTHING_ACTIVE, "words", ["a"], deferral).active == NOTHING_ACTIVE


class TestWithin:
    @given(any_actives(), st.frozensets(st.sampled_from("abcdefghijkl")))
    def test_leaves_what_is_permitted_as_it_was_and_nothing_else(self, active: Active, permitted: frozenset[str]):
        left = within(active, permitted)
        assert left.names == tuple(name for name in active.names if name in permitted)
        assert left.loaded == tuple(name for name in active.loaded if name in permitted)
        assert (left.n_turns, left.words) == (active.n_turns, active.words)


class TestBounded:
    @given(any_actives(), deferrals, rooms)
    def test_is_no_more_than_steps_could_make_of_a_set(self, active: Active, deferral: Deferral, room: int):
        brought = bounded(active, deferral, room)
        assert brought.names == tuple(name for name in active.names if name in brought.names)
        assert brought.loaded == active.loaded[len(active.loaded) - len(brought.loaded) :]
        assert brought.attached == active.attached[: len(brought.attached)]
        assert not deferral.max_active or len(brought.loaded) <= deferral.max_active
        assert len(brought.names) <= room

    def test_holds_what_all_turns_may_attach_and_no_more(self):
        deferral = Deferral(over=0, initial_k=3, search_k=2, search_turns=3)
        assert bounded(Active(TOOLS), deferral).names == TOOLS[:7]

    @given(histories, deferrals, rooms)
    def test_leaves_a_set_that_steps_came_to_as_it_was(self, past: list[Step], deferral: Deferral, room: int):
        active = after(past, deferral, room)
        assert bounded(active, deferral, room) == active


class TestFitting:
    @given(any_actives(), rooms, st.integers(0, 4))
    def test_keeps_order_room_and_cap(self, active: Active, room: int, max_active: int):
        shown = fitting(active, room, max_active)
        n_loaded = sum(name in active.loaded for name in shown)
        assert shown == tuple(name for name in active.names if name in shown)
        assert len(shown) <= room
        assert not max_active or n_loaded <= max_active

    @given(any_actives(), rooms, st.integers(0, 4))
    def test_leaves_out_no_more_than_it_must(self, active: Active, room: int, max_active: int):
        n_loaded = min(len(active.loaded), max_active or len(active.loaded))
        most = n_loaded + len(active.attached)
        assert len(fitting(active, room, max_active)) == min(most, room)

    def test_keeps_the_most_recently_used_and_then_what_was_attached_first(self):
        active = Active(("a", "b", "c", "d", "e"), ("c", "a", "e"))
        assert fitting(active, 3, 2) == ("a", "b", "e")

    @given(histories, deferrals, rooms)
    def test_shows_all_of_a_set_that_steps_came_to(self, past: list[Step], deferral: Deferral, room: int):
        active = after(past, deferral, room)
        assert fitting(active, room, deferral.max_active) == active.names

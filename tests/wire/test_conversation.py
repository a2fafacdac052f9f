"""Nine turns that move from topic to topic, on three wires: what is listed after each step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise

import pytest

from agent_utilities.selection.active import read_active
from tests.every import every, every_of
from tests.wire.conversation import (
    ENTRY,
    INITIAL_K,
    MAX_ACTIVE,
    SCRIPT,
    SEARCH_K,
    TURNS,
    WIRES,
    Asking,
    Host,
    Shown,
    Step,
    Wire,
    asking,
    conversation,
)

pytestmark = [pytest.mark.outside, pytest.mark.timeout(600)]

ADDED = [
    ["log", "diff", "commit", "stash", "blame"],
    ["send_mail", "reply_mail"],
    ["branch", "merge"],
    ["sunrise"],
    ["find_slot"],
    ["book_room", "book_hotel"],
    ["forecast", "current_weather"],
    ["rain_radar", "storm_warnings"],
    ["play_song", "follow_artist"],
    ["create_playlist", "add_to_playlist"],
    [],
    ["rent_car"],
    [],
]
"""What each step of the script adds to the list of a session, in order."""


@pytest.fixture(scope="module")
def played() -> Mapping[Wire, list[Shown]]:
    """What was shown on each wire."""
    return {wire: conversation(wire) for wire in WIRES}


def turns(shown: Sequence[Shown]) -> list[Shown]:
    """Return the steps at which the user said something."""
    return [each for each in shown if each.step.kind == "words"]


def added(shown: Sequence[Shown]) -> list[list[str]]:
    """Return what each step added to the list, the entry tools aside."""
    lists = [ENTRY, *(each.names for each in shown)]
    return [[name for name in after if name not in before] for before, after in pairwise(lists)]


class TestOfASession:
    @every("wire", ["stdio", "session"])
    def test_each_step_adds_what_the_words_or_the_model_asked_for(
        self, played: Mapping[Wire, list[Shown]], wire: Wire
    ) -> None:
        assert added(played[wire]) == ADDED

    def test_stdio_and_http_list_the_same(self, played: Mapping[Wire, list[Shown]]) -> None:
        assert played["stdio"] == played["session"]

    @every("wire", ["stdio", "session"])
    def test_a_tool_that_is_called_while_deferred_answers_and_is_listed_from_then_on(
        self, played: Mapping[Wire, list[Shown]], wire: Wire
    ) -> None:
        called = next(each for each in played[wire] if each.step.kind == "call")
        assert (called.answer, called.names[-1]) == ("sunrise here", "sunrise")


@every("wire", WIRES)
class TestOnEveryWire:
    def test_the_entry_tools_come_first(self, played: Mapping[Wire, list[Shown]], wire: Wire) -> None:
        assert [each.names[:2] for each in played[wire]] == [ENTRY] * len(SCRIPT)

    def test_the_first_turn_attaches_its_best_and_later_ones_add_a_few(
        self, played: Mapping[Wire, list[Shown]], wire: Wire
    ) -> None:
        by_words = [names for each, names in zip(played[wire], added(played[wire]), strict=True) if _is_words(each)]
        assert len(by_words[0]) == INITIAL_K
        assert max(map(len, by_words[1:])) == SEARCH_K

    def test_a_list_grows_at_its_end_and_loses_only_what_was_told(
        self, played: Mapping[Wire, list[Shown]], wire: Wire
    ) -> None:
        for before, after in pairwise(played[wire]):
            stay = [name for name in before.names if name not in after.evicted]
            assert after.names[: len(stay)] == stay

    def test_each_eviction_is_told_once_by_the_search_that_needed_the_room(
        self, played: Mapping[Wire, list[Shown]], wire: Wire
    ) -> None:
        told = {each.step.text: list(each.evicted) for each in played[wire] if each.evicted}
        # A call activates where there is a session, and takes room of its own.
        at_the_search = {"weather forecast of a place": ["reply_mail"], "select:rent_car": ["send_mail"]}
        assert told == ({"select:rent_car": ["reply_mail"]} if wire == "stateless" else at_the_search)
        assert [name for names in told.values() for name in names] == _gone(played[wire])

    def test_words_add_nothing_after_the_seventh_turn(self, played: Mapping[Wire, list[Shown]], wire: Wire) -> None:
        frozen = turns(played[wire])[TURNS - 1].names
        assert [set(each.names) - {"rent_car"} - set(frozen) for each in turns(played[wire])[TURNS:]] == [set(), set()]

    def test_search_adds_after_it(self, played: Mapping[Wire, list[Shown]], wire: Wire) -> None:
        assert played[wire][-1].names[-1] == "rent_car"

    def test_no_more_is_loaded_than_the_cap(self, played: Mapping[Wire, list[Shown]], wire: Wire) -> None:
        loaded = [len(read_active(each.active, "it").loaded) for each in played[wire]]
        assert max(loaded) == MAX_ACTIVE

    def test_what_is_told_as_active_is_what_is_listed(self, played: Mapping[Wire, list[Shown]], wire: Wire) -> None:
        assert [list(read_active(each.active, "it").names) for each in played[wire]] == [
            list(each.names[2:]) for each in played[wire]
        ]


class TestStateless:
    def test_another_replica_lists_the_same(self, played: Mapping[Wire, list[Shown]]) -> None:
        assert [each.other for each in played["stateless"]] == [each.names for each in played["stateless"]]

    def test_words_and_searches_add_what_they_do_in_a_session(self, played: Mapping[Wire, list[Shown]]) -> None:
        names = [[] if each == ["sunrise"] else each for each in ADDED]
        assert added(played["stateless"]) == names

    def test_a_tool_that_is_called_while_deferred_answers(self, played: Mapping[Wire, list[Shown]]) -> None:
        assert next(each.answer for each in played["stateless"] if each.step.kind == "call") == "sunrise here"


@pytest.fixture(scope="module")
def parents() -> Iterator[Mapping[Wire, tuple[Host, Asking]]]:
    """Hosts in the midst of a conversation, each with another way into the same server."""
    wires: tuple[Wire, ...] = ("session", "stateless")
    with ExitStack() as stack:
        yield {wire: in_the_midst(wire, stack.enter_context(asking(wire))) for wire in wires}


def in_the_midst(wire: Wire, callers: Sequence[Asking]) -> tuple[Host, Asking]:
    host = Host(wire, callers)
    for step in SCRIPT[:3]:
        host.take(step)
    return host, callers[0].fresh()


@every_of("parent", "parents")
class TestChildren:
    def test_one_that_is_handed_the_value_starts_with_the_parents_tools(self, parent: tuple[Host, Asking]) -> None:
        host, child = parent
        assert _names(child, active=host.shown[-1].active) == host.shown[-1].names

    def test_one_that_is_handed_nothing_starts_fresh(self, parent: tuple[Host, Asking]) -> None:
        assert _names(parent[1].fresh()) == ENTRY

    def test_what_a_child_loads_is_not_its_parents(self, parent: tuple[Host, Asking]) -> None:
        host, child = parent
        given = {"active": host.shown[-1].active}
        child.ask("tools/call", {"name": "tool_search", "arguments": {"query": "select:tides"}}, given)
        host.take(Step("call", "diff"))
        assert host.shown[-1].names == host.shown[-2].names


def _names(asking: Asking, **given: str) -> list[str]:
    return [tool["name"] for tool in asking.ask("tools/list", {}, given)["tools"]]


def _is_words(shown: Shown) -> bool:
    return shown.step.kind == "words"


def _gone(shown: Sequence[Shown]) -> list[str]:
    return [name for before, after in pairwise(shown) for name in before.names if name not in after.names]

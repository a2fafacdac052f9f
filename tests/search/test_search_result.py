"""What a search asks for, and what of the tools found comes in full."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.catalog.context import n_tokens
from agent_utilities.errors import InputError
from agent_utilities.search.entry_tools import DEFAULT_RESULTS, MAX_RESULTS
from agent_utilities.search.search_result import (
    FULL_TOKENS,
    LONG_TOKENS,
    N_LONG,
    nearest_names,
    search_result,
    selected_names,
)
from agent_utilities.selection.model import RankedTool
from tests.every import every


def definition(name: str, n_characters: int = 100) -> dict[str, Any]:
    return {"name": name, "description": "x" * n_characters, "inputSchema": {"type": "object"}}


def catalog(n_tools: int, n_characters: int = 100) -> dict[str, dict[str, Any]]:
    return {f"tool_{i}": definition(f"tool_{i}", n_characters) for i in range(n_tools)}


class TestQuery:
    @every(
        ("query", "named"),
        [
            pytest.param("  read a file\n", (), id="words"),
            pytest.param("select: b, a,b ,", ("b", "a"), id="in the order given, each once"),
            pytest.param("Select:A", ("A",), id="in any case"),
            pytest.param("how to select: rows", (), id="within words it is a word"),
            pytest.param("\ud800", (), id="half a surrogate"),
        ],
    )
    def test_names_tools_after_select_and_none_otherwise(self, query: str, named: tuple[str, ...]) -> None:
        assert selected_names(query) == named

    def test_what_asks_for_nothing_is_refused_with_what_would_do(self) -> None:
        for query in ["", " \n", "select:", "select: , ,"]:
            with pytest.raises(InputError, match=r"from tool_search: query\); (say in a few words|name tools)"):
                selected_names(query)

    def test_25_names_are_loaded_at_once_and_no_more(self) -> None:
        names = [f"t{i}" for i in range(MAX_RESULTS)]
        assert selected_names("select:" + ",".join(names)) == tuple(names)
        with pytest.raises(InputError, match=r"'26 names'.*at most 25"):
            selected_names("select:" + ",".join([*names, "one_more"]))

    def test_8_kib_are_read_and_no_more(self) -> None:
        assert selected_names("é" * 4096) == ()
        with pytest.raises(InputError, match="too long"):
            selected_names("é" * 4096 + "e")


def chosen(
    names: list[str], definitions: dict[str, Any], max_results: int | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the tools that come in full, and of those that are only named."""
    result = search_result("q", [RankedTool(name) for name in names], definitions, (), max_results=max_results)
    return tuple(tool.name for tool in result.tools), tuple(tool.name for tool in result.more)


class TestChosen:
    def test_a_number_asked_for_comes_in_full_whatever_it_costs(self) -> None:
        definitions = catalog(12, 4000)
        assert chosen([*definitions], definitions, 12) == (tuple(definitions), ())

    def test_without_a_number_the_best_come_in_full_and_the_rest_of_ten_by_name(self) -> None:
        for n_characters, n_full in [(100, 10), (450, 5), (1200, 5), (1800, 4), (40_000, 1)]:
            definitions = catalog(12, n_characters)
            full, more = chosen([*definitions], definitions)
            assert full + more == tuple(definitions)[:DEFAULT_RESULTS]
            assert len(full) == n_full

    def test_what_follows_five_short_ones_has_the_room_of_short_ones(self) -> None:
        definitions = catalog(5) | {"long": definition("long", 2200)}
        assert chosen([*definitions], definitions) == (tuple(catalog(5)), ("long",))

    def test_of_long_ones_two_come_and_those_that_the_best_is_hardly_ahead_of(self) -> None:
        definitions = catalog(5, 1200)
        for scores, n_full in [((1, 0.9, 0.8, 0.7, 0.69), 4), ((1, 0.1, 0.1, 0.1, 0.1), 2), ((1, 0.1, 0.9, 0, -1), 3)]:
            ranked = [RankedTool(name, score) for name, score in zip(definitions, scores, strict=True)]
            assert len(search_result("q", ranked, definitions, ()).tools) == n_full

    def test_a_small_one_behind_a_big_one_is_not_preferred_to_it(self) -> None:
        definitions = {"a": definition("a"), "big": definition("big", 40_000), "c": definition("c")}
        assert chosen(["a", "big", "c"], definitions) == (("a",), ("big", "c"))

    def test_what_has_no_definition_is_left_out_and_what_is_found_twice_comes_once(self) -> None:
        definitions = catalog(3)
        assert chosen(["denied", "tool_0", *definitions], definitions, 3) == (tuple(definitions), ())

    def test_a_number_out_of_bounds_is_refused(self) -> None:
        for max_results in [0, -1, 26]:
            with pytest.raises(InputError, match="from 1 to 25"):
                chosen([], {}, max_results)

    @given(st.lists(st.integers(0, 5000), max_size=30))
    def test_what_comes_in_full_is_the_longest_beginning_within_the_tokens_or_one(self, sizes: list[int]) -> None:
        definitions = {f"t{i}": definition(f"t{i}", size) for i, size in enumerate(sizes)}
        full, more = chosen([*definitions], definitions)
        spent = sum(n_tokens(definitions[name]) for name in full)
        assert spent <= (LONG_TOKENS if len(full) <= N_LONG else FULL_TOKENS) or len(full) <= 1
        if more:
            room = LONG_TOKENS if len(full) < N_LONG else FULL_TOKENS
            assert spent + n_tokens(definitions[more[0]]) > room


def with_parameters(name: str, /, **parameters: str) -> dict[str, Any]:
    properties = {each: {"type": "string", "description": told} for each, told in parameters.items()}
    return {"name": name, "description": "Does it.", "inputSchema": {"type": "object", "properties": properties}}


class TestParameters:
    """What several tools take, word for word, is described with the first of them alone."""

    def shown(self, *definitions: dict[str, Any]) -> list[dict[str, Any]]:
        by_name = {each["name"]: each for each in definitions}
        result = search_result("q", [RankedTool(name) for name in by_name], by_name, (), max_results=len(by_name))
        return [tool["inputSchema"]["properties"] for tool in result.as_dict()["tools"]]

    def test_that_tools_share_are_described_once_and_keep_their_types(self) -> None:
        both = with_parameters("b", tenant="Whose.", key="K.")
        first, second = self.shown(with_parameters("a", tenant="Whose."), both)
        assert first["tenant"] == {"type": "string", "description": "Whose."}
        assert second == {"tenant": {"type": "string"}, "key": {"type": "string", "description": "K."}}

    def test_that_mean_another_thing_under_the_same_name_are_described_each_time(self) -> None:
        _, second = self.shown(with_parameters("a", name="Of the key."), with_parameters("b", name="Of the store."))
        assert second["name"]["description"] == "Of the store."

    def test_of_definitions_themselves_are_left_as_they_are(self) -> None:
        definitions = [with_parameters("a", tenant="Whose."), with_parameters("b", tenant="Whose.")]
        self.shown(*definitions)
        assert definitions[1] == with_parameters("b", tenant="Whose.")

    def test_that_are_written_as_no_object_are_given_as_they_are(self) -> None:
        odd = [{"name": name, "inputSchema": {"properties": {"a": True, "b": {}}}} for name in "xy"]
        assert self.shown(*odd) == [{"a": True, "b": {}}] * 2


class TestNearest:
    NAMES = ("git_log", "git_diff", "zone_read", "zone_write", "git_log_graph", "send_mail")

    def test_a_misspelt_name_has_the_name_meant_first(self) -> None:
        assert nearest_names("git_lgo", self.NAMES)[0] == "git_log"

    def test_a_name_but_for_a_letter_comes_before_what_has_a_part_in_common(self) -> None:
        names = ("server3_create_1", "server3_create_2", "server3_create_3", "server3_read_7")
        assert nearest_names("server3_raed_7", names)[0] == "server3_read_7"

    def test_words_have_the_names_that_bear_them(self) -> None:
        assert set(nearest_names("Zone", self.NAMES)) == {"zone_read", "zone_write"}

    def test_there_are_at_most_three(self) -> None:
        assert len(nearest_names("tool", [f"tool_{i}" for i in range(9)])) == 3

    def test_ties_come_in_alphabetical_order_whatever_order_the_names_have(self) -> None:
        names = [f"tool_{i}" for i in range(9)]
        assert nearest_names("tool", reversed(names)) == nearest_names("tool", names) == ("tool_0", "tool_1", "tool_2")

    @every("name", ["qqqqqqqq", "***"])
    def test_nothing_near_is_nothing(self, name: str) -> None:
        assert nearest_names(name, self.NAMES) == ()

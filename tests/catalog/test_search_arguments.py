"""What models write to `tool_search` and `call_tool`, and why a call failed."""

from __future__ import annotations

from typing import Any

import pytest

from agent_utilities.catalog.argument_fit import explained, misfit
from agent_utilities.catalog.search_arguments import SearchArguments, call_arguments, search_arguments
from agent_utilities.errors import InputError

SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"], "additionalProperties": False}


class TestSearchArguments:
    @pytest.mark.parametrize(
        ("given", "read"),
        [
            ({"query": "song"}, SearchArguments("song")),
            ({"query": "song", "max_results": 5, "server": "music"}, SearchArguments("song", 5, "music")),
            ({"query": "song", "max_results": "5"}, SearchArguments("song", 5)),
            ({"query": "song", "max_results": None, "server": ""}, SearchArguments("song")),
            ({"names": ["a", "b"]}, SearchArguments("select:a,b")),
            ({"query": "song", "tools": ["a"]}, SearchArguments("song")),
        ],
    )
    def test_are_read_as_they_are_meant(self, given: dict[str, Any], read: SearchArguments) -> None:
        assert search_arguments(given) == read

    @pytest.mark.parametrize(
        "given",
        [
            {},
            {"query": None},
            {"query": ["song"]},
            {"query": "song", "max_results": 26},
            {"query": "song", "max_results": "9" * 5000},
            {"query": "song", "max_results": "five"},
            {"query": "song", "max_results": 5.0},
            {"query": "song", "max_results": False},
            {"query": "song", "server": 5},
            {"query": "song", "top_k": 5},
            {"tool_names": ["a", 5]},
        ],
    )
    def test_are_refused_where_they_cannot_be(self, given: dict[str, Any]) -> None:
        with pytest.raises(InputError):
            search_arguments(given)


class TestCallArguments:
    @pytest.mark.parametrize(
        ("given", "read"),
        [
            ({"id": "7"}, {"id": "7"}),
            ('{"id": "7"}', {"id": "7"}),
            ("", {}),
            (None, {}),
        ],
    )
    def test_are_read_as_an_object_or_as_its_text(self, given: object, read: dict[str, str]) -> None:
        assert call_arguments({"name": "song_show", "arguments": given}) == ("song_show", read)

    @pytest.mark.parametrize("given", [5, [], "five", "[5]", "{", "[" * 100_000])
    def test_that_are_no_object_are_refused(self, given: object) -> None:
        with pytest.raises(InputError, match="not an object"):
            call_arguments({"name": "song_show", "arguments": given})

    @pytest.mark.parametrize("given", [{}, {"name": ""}, {"name": 5}])
    def test_of_no_tool_are_refused(self, given: dict[str, Any]) -> None:
        with pytest.raises(InputError, match="no tool's name"):
            call_arguments(given)


class TestMisfit:
    def test_arguments_that_fit_are_none(self) -> None:
        assert misfit({"id": "7"}, SCHEMA) is None

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ({}, "wrong arguments: 'id' is a required property"),
            ({"id": 7}, "wrong arguments: id: 7 is not of type 'string'"),
            ({"id": "7", "song": 1}, "wrong arguments: Additional properties are not allowed"),
        ],
    )
    def test_others_are_told(self, arguments: dict[str, Any], said: str) -> None:
        assert str(misfit(arguments, SCHEMA)).startswith(said)

    def test_what_is_long_is_cut(self) -> None:
        assert len(str(misfit({"id": ["x" * 9999]}, SCHEMA))) < 300

    @pytest.mark.parametrize("schema", [{"type": 5}, {"properties": 5}, {"$ref": "#/nowhere"}])
    def test_a_schema_that_is_none_refuses_nothing(self, schema: dict[str, Any]) -> None:
        assert misfit({"id": "7"}, schema) is None

    def test_an_error_for_other_reasons_is_left_as_it_is(self) -> None:
        assert explained("song_show", "no such song", {"id": "7"}, SCHEMA) is None

    def test_one_that_says_what_is_wrong_gets_the_schema_alone(self) -> None:
        said = "wrong arguments for song_show: 'id' is 7, give text"
        assert str(explained("song_show", said, {"id": 7}, SCHEMA)).startswith('song_show takes: {"type":"object"')

    def test_one_that_does_not_gets_both(self) -> None:
        told = str(explained("song_show", "failed", {}, SCHEMA))
        assert told.startswith("wrong arguments: 'id' is a required property. song_show takes: {")

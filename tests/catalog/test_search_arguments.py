"""What models write to `tool_search` and `call_tool`."""

from __future__ import annotations

from typing import Any

import pytest

from agent_utilities.catalog.search_arguments import SearchArguments, call_arguments, search_arguments
from agent_utilities.errors import InputError


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
            {"query": "song \ud800"},
            {"query": "song", "server": "\udfff"},
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

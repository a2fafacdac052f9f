"""What models write to `tool_search` and `call_tool`."""

from __future__ import annotations

import pytest

from agent_utilities.errors import InputError
from agent_utilities.search.entry_tools import SearchArguments, call_arguments, search_arguments


class TestSearchArguments:
    def test_are_read_as_they_are_meant(self) -> None:
        for given, read in [
            ({"query": "song"}, SearchArguments("song")),
            ({"query": "song", "max_results": 5, "server": "music"}, SearchArguments("song", 5, "music")),
            ({"query": "song", "max_results": "5"}, SearchArguments("song", 5)),
            ({"query": "song", "max_results": None, "server": ""}, SearchArguments("song")),
            ({"names": ["a", "b"]}, SearchArguments("select:a,b")),
            ({"query": "song", "tools": ["a"]}, SearchArguments("song")),
        ]:
            assert search_arguments(given) == read

    def test_are_refused_where_they_cannot_be(self) -> None:
        for given in [
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
        ]:
            with pytest.raises(InputError):
                search_arguments(given)


class TestCallArguments:
    def test_are_read_as_an_object_or_as_its_text(self) -> None:
        for given, read in [
            ({"id": "7"}, {"id": "7"}),
            ('{"id": "7"}', {"id": "7"}),
            ("", {}),
            (" \n", {}),
            (None, {}),
        ]:
            assert call_arguments({"name": "song_show", "arguments": given}) == ("song_show", read)

    def test_that_are_no_object_are_refused(self) -> None:
        for given in [5, [], "five", "[5]", "{", "[" * 100_000]:
            with pytest.raises(InputError, match="not an object"):
                call_arguments({"name": "song_show", "arguments": given})

    def test_of_no_tool_are_refused(self) -> None:
        for given in [{}, {"name": ""}, {"name": 5}]:
            with pytest.raises(InputError, match="no tool's name"):
                call_arguments(given)

    def test_beside_which_anything_else_is_given_are_refused(self) -> None:
        for key in ["args", "parameters", "params", "input", "tool_name", "Arguments", "days"]:
            for value in [{"days": 30}, None]:
                with pytest.raises(InputError, match=r"no such argument.*in `arguments`"):
                    call_arguments({"name": "purge", key: value})

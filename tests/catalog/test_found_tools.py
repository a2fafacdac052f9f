"""What a model reads of a search."""

from __future__ import annotations

import json
from typing import Any

from agent_utilities.catalog.found_tools import FoundTool, SearchResult, found_tools
from agent_utilities.selection.resolution import RankedTool

SONG: dict[str, Any] = {
    "name": "song_show",
    "title": "Song",
    "description": "Shows a song. With its text.",
    "inputSchema": {"type": "object"},
    "_meta": {"fastmcp": {"tags": ["song"]}},
}


def test_a_tool_in_full_has_what_hosts_hand_to_a_model_and_its_score() -> None:
    assert FoundTool(SONG, True, 1.23456).as_dict() == {
        "name": "song_show",
        "description": "Shows a song. With its text.",
        "inputSchema": {"type": "object"},
        "score": 1.235,
    }


def test_one_by_name_has_its_first_sentence_and_no_more_than_200_characters_of_it() -> None:
    assert FoundTool(SONG, False).as_dict() == {"name": "song_show", "description": "Shows a song."}
    wordy = {**SONG, "description": "x" * 999}
    assert FoundTool(wordy, False).as_dict()["description"] == "x" * 200


def test_one_without_a_description_is_told_all_the_same() -> None:
    assert FoundTool({"name": "a"}, False).as_dict() == {"name": "a", "description": ""}
    assert FoundTool({"name": "a", "description": None}, False).as_dict() == {"name": "a", "description": ""}


def test_what_there_is_nothing_of_is_left_out_but_the_tools_and_how_many_are_deferred() -> None:
    assert SearchResult("song").as_dict() == {"tools": [], "deferred": 0}


def test_all_of_it_is_json() -> None:
    result = SearchResult(
        "select:song_show,song_shwo",
        tools=found_tools(["song_show"], {"song_show": SONG}, is_full=True),
        more=found_tools(["song_show"], {"song_show": SONG}, is_full=False, ranked=[RankedTool("song_show", 1.0)]),
        activated=("song_show",),
        evicted=("photo_show",),
        n_deferred=7,
        unknown={"song_shwo": ("song_show",)},
        note="Go on.",
    )
    assert json.loads(result.text) == result.as_dict()
    assert json.loads(result.text)["more"][0]["score"] == 1.0
    assert json.loads(result.text)["unknown"] == {"song_shwo": ["song_show"]}
    assert result.names == ("song_show", "song_show")


def test_scores_and_words_are_those_of_each_tool() -> None:
    ranked = [RankedTool("b", 2.0, ("show",)), RankedTool("a", 1.0)]
    found = found_tools(["a", "b"], {"a": {"name": "a"}, "b": {"name": "b"}}, is_full=True, ranked=ranked)
    assert [(tool.name, tool.score, tool.words) for tool in found] == [("a", 1.0, ()), ("b", 2.0, ("show",))]

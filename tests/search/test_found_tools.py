"""What a model reads of a search."""

from __future__ import annotations

import json
from typing import Any

from agent_utilities.search.search_result import FoundTool, SearchResult, search_result
from agent_utilities.selection.model import RankedTool

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


def test_one_by_name_has_its_first_sentence_and_no_more_than_100_characters_of_it() -> None:
    assert FoundTool(SONG, False).as_dict() == {"name": "song_show", "description": "Shows a song."}
    wordy = {**SONG, "description": "x" * 999}
    assert FoundTool(wordy, False).as_dict()["description"] == "x" * 99 + "…"


def test_a_sentence_over_two_lines_is_one_and_a_heading_is_one_without_a_full_stop() -> None:
    texts = {"Shows a song\n    of the album. More.": "Shows a song of the album.", "Song\n\nShows it.": "Song"}
    assert {text: FoundTool({**SONG, "description": text}, False).as_dict()["description"] for text in texts} == texts


def test_a_schema_that_says_nothing_is_told_all_the_same() -> None:
    assert FoundTool({"name": "a", "inputSchema": {}}, True).as_dict() == {"name": "a", "inputSchema": {}}


def test_one_without_a_description_is_told_all_the_same() -> None:
    assert FoundTool({"name": "a"}, False).as_dict() == {"name": "a"}
    assert FoundTool({"name": "a", "description": None}, False).as_dict() == {"name": "a"}
    assert FoundTool({"name": "a", "description": None}, True).as_dict() == {"name": "a"}


def test_what_there_is_nothing_of_is_left_out() -> None:
    assert set(json.loads(SearchResult("song").text)) == {"tools", "deferred", "next"}


WHOLE = SearchResult(
    "select:song_show,song_shwo",
    tools=(FoundTool(SONG, True),),
    more=(FoundTool(SONG, False, 1.0),),
    activated=("song_show",),
    evicted=("photo_show",),
    n_deferred=7,
    active="3:song_show",
    unknown={"song_shwo": ("song_show",)},
    cause="ranked by words alone",
    call="call_tool",
)


def test_a_model_reads_json_of_what_was_found_what_went_out_and_what_to_do() -> None:
    told = json.loads(WHOLE.text)
    assert list(told) == ["tools", "more", "unknown", "evicted", "cause", "deferred", "next"]
    assert told["more"] == [{"name": "song_show", "description": "Shows a song."}]
    assert (told["unknown"], told["evicted"], told["deferred"]) == ({"song_shwo": ["song_show"]}, ["photo_show"], 7)


def test_a_program_is_told_what_was_activated_too() -> None:
    assert WHOLE.as_dict() == {
        **json.loads(WHOLE.text),
        "activated": ["song_show"],
        "evicted": ["photo_show"],
        "active": "3:song_show",
    }


def test_what_to_do_depends_on_what_was_found() -> None:
    for result, said in [
        (WHOLE, "call_tool(name, arguments) where they are not in your list; load those in more"),
        (SearchResult("song", tools=WHOLE.tools), "Call them by name."),
        (SearchResult("select:x", unknown={"x": ()}), "No tool of that name;"),
        (SearchResult("xyz"), "Nothing found; try other words."),
        (SearchResult("xyz", nearest=("xyza",)), "or load one of the nearest by select:NAME."),
    ]:
        assert said in result.as_dict()["next"]


def test_scores_and_words_are_those_of_each_tool() -> None:
    ranked = [RankedTool("b", 2.0, ("show",)), RankedTool("a", 1.0)]
    found = search_result("show", ranked, {"a": {"name": "a"}, "b": {"name": "b"}}, ()).tools
    assert [(tool.name, tool.score, tool.words) for tool in found] == [("b", 2.0, ("show",)), ("a", 1.0, ())]

"""Tools by the words that they share with a query."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.catalog.words import STOPWORDS, words
from agent_utilities.query.ranking.base import plain_matches
from tests.every import every
from tests.query.ranking.strategies import texts

ROWS = (
    ("git_log", "", "List commits, newest first."),
    ("git_status", "Working tree", "Show what changed."),
    ("readFile", "", "Return the text of a file."),
    ("delete_folder", "", "Remove a directory, and each file of the LOG in it."),
    ("查询天气", "", "查询一个城市的天气预报"),
)


def names(query: str, limit: int = 10) -> list[str]:
    return [name for name, _ in plain_matches(query, ROWS, limit)]


class TestOrder:
    def test_a_tool_named_by_the_whole_query_comes_first_though_others_share_more(self) -> None:
        rows = (("list_log_files", "", "all"), ("log_files", "", ""), ("LOG_FILES_OLD", "", "list log files"))
        assert plain_matches(" Log_Files ", rows, 10)[0] == ("log_files", 1.0)


class TestWords:
    @every(
        ("query", "found"),
        [
            pytest.param("file", ["readFile", "delete_folder"], id="names are made of words"),
            pytest.param("城市天气", ["查询天气"], id="scripts without spaces are read in pairs"),
            pytest.param("what is in a commit of the", [], id="stopwords find nothing beside other words"),
        ],
    )
    def test_find_what_bears_them(self, query: str, found: list[str]) -> None:
        assert names(query) == found

    def test_words_that_say_nothing_are_searched_for_where_there_are_no_others(self) -> None:
        assert plain_matches("who am i", (("who_am_i", "", ""), ("ls", "", "")), 5) == (("who_am_i", 1.0),)


class TestScores:
    def test_a_score_is_the_share_of_the_words_that_stand_in_the_tool(self) -> None:
        assert plain_matches("git commits tomorrow", ROWS, 1) == (("git_log", round(2 / 3, 6)),)

    @every("query", ["book a flight", " \t"])
    def test_nothing_shared_finds_nothing(self, query: str) -> None:
        assert plain_matches(query, ROWS, 5) == ()

    @given(st.lists(st.tuples(texts, texts), max_size=12), texts)
    def test_tools_that_are_not_given_move_nothing(self, rows: list[tuple[str, str]], query: str) -> None:
        every = [(f"git_{place}", title, description) for place, (title, description) in enumerate(rows)]
        given_rows = every[::2]
        found = [match for match in plain_matches(query, every, 12) if int(match[0].removeprefix("git_")) % 2 == 0]
        assert list(plain_matches(query, given_rows, 12)) == found

    @given(st.lists(st.tuples(texts, texts, texts), max_size=12), texts, st.integers(0, 13))
    def test_the_best_are_those_of_counting_the_words_of_all(
        self, rows: list[tuple[str, str, str]], query: str, limit: int
    ) -> None:
        wanted = set(words(query)) - STOPWORDS or set(words(query))

        def key(row: tuple[str, str, str]) -> tuple[bool, int, int]:
            in_name, in_text = wanted.intersection(words(row[0])), wanted.intersection(words(" ".join(row[1:])))
            return row[0].casefold() == query.casefold(), len(in_name | in_text), len(in_name)

        ordered = [row[0] for row in sorted(rows, key=key, reverse=True) if wanted and (key(row)[0] or key(row)[1])]
        assert [name for name, _ in plain_matches(query, rows, limit)] == ordered[:limit]

    def test_a_word_that_holds_the_one_sought_is_not_it(self) -> None:
        assert plain_matches("log", (("catalog", "", "Blogs and logins"), ("say", "", "a log")), 5) == (("say", 1.0),)

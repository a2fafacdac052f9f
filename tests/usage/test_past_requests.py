"""Few requests of a tool are kept, the newest that differ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.usage.learning import LONGEST_REQUEST, MOST_OF_A_TOOL, different_requests
from tests.every import every

REQUESTS = st.lists(st.text("ab cd é1", max_size=12) | st.text(max_size=30), max_size=40)


class TestKept:
    @every(
        ("requests", "kept"),
        [
            pytest.param(["show the log", "find a file"], ("find a file", "show the log"), id="oldest first"),
            pytest.param(["", "  \n", "ok", "42 17", "?!", "log"], ("log",), id="no blank or hardly any words"),
            pytest.param(["word " * 1_000], (("word " * 100).strip(),), id="a long one is cut"),
            pytest.param(
                ["最近の天気を教えて", "メールを送って"], ("メールを送って", "最近の天気を教えて"), id="no spaces"
            ),
        ],
    )
    def test_are_those_that_say_something(self, requests, kept):
        assert different_requests(requests) == kept

    def test_at_most_twenty(self):
        assert len(different_requests(f"word{i} other{i}" for i in range(1_000))) == MOST_OF_A_TOOL

    def test_of_two_that_say_the_same_the_newer_one(self):
        newer, older = "Show me the log of today, please", "please show me the log of today"
        assert different_requests([newer, older]) == (newer,)

    def test_the_newest_of_many(self):
        requests = [f"word{i} other{i}" for i in range(30)]
        assert different_requests(requests) == tuple(reversed(requests[:20]))


class TestLaws:
    @given(REQUESTS)
    def test_what_is_kept_was_asked_and_is_bounded(self, requests):
        kept = different_requests(requests)
        asked = {" ".join(request.split())[:LONGEST_REQUEST].rstrip() for request in requests}
        assert set(kept) <= asked
        assert len(kept) == len(set(kept)) <= MOST_OF_A_TOOL

    @given(REQUESTS)
    def test_keeping_again_keeps_all(self, requests):
        kept = different_requests(requests)
        assert different_requests(reversed(kept)) == kept

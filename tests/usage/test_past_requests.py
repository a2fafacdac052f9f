"""Few requests of a tool are kept, the newest that differ."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.usage.learning import LONGEST_REQUEST, MOST_OF_A_TOOL, different_requests

REQUESTS = st.lists(st.text("ab cd é1", max_size=12) | st.text(max_size=30), max_size=40)


class TestKept:
    def test_oldest_first(self):
        assert different_requests(["show the log", "find a file"]) == ("find a file", "show the log")

    def test_at_most_twenty(self):
        assert len(different_requests(f"word{i} other{i}" for i in range(1_000))) == MOST_OF_A_TOOL

    def test_of_two_that_say_the_same_the_newer_one(self):
        newer, older = "Show me the log of today, please", "please show me the log of today"
        assert different_requests([newer, older]) == (newer,)

    def test_the_newest_of_many(self):
        requests = [f"word{i} other{i}" for i in range(30)]
        assert different_requests(requests) == tuple(reversed(requests[:20]))

    def test_no_blank_or_hardly_any_words(self):
        assert different_requests(["", "  \n", "ok", "42 17", "?!", "log"]) == ("log",)

    def test_a_long_one_is_cut(self):
        assert different_requests(["word " * 1_000]) == (("word " * 100).strip(),)

    def test_languages_without_spaces(self):
        assert different_requests(["最近の天気を教えて", "メールを送って"]) == ("メールを送って", "最近の天気を教えて")


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

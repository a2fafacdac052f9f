"""What of a message its user wrote."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.capabilities.intent import intent_text


class TestBlocks:
    @pytest.mark.parametrize(
        ("message", "words"),
        [
            ("<log>\nkubectl refused\n</log>\nwhy?", "why?"),
            ("<skill name=\"a > b\" kind='x'>deploy</skill> hello", "hello"),
            ("<a><a>inner</a>outer</a> words", "words"),
            ("<log>half <div> open</log> words", "words"),
            ("before <log>x</log> after", "before\nafter"),
            ("<LOG>x</log> words", "words"),
            ("<ns:log>x</ns:log> words", "words"),
            ("<log it's>x</log> words", "words"),
            ("words <log>x</log>", "words"),
            ("<log>all</log>", ""),
            ("<b>one</b> two <log>half <b>x</b> open</log> words", "two\nwords"),
            ("<log><img src='x'/><br></log> words", "words"),
        ],
    )
    def test_goes_with_what_is_in_it(self, message: str, words: str) -> None:
        assert intent_text(message) == words

    @pytest.mark.parametrize("message", ["<log>\nall that follows", "  <log>all", "<a>x</a>\n<log>\n<b>x</b> all"])
    def test_that_was_cut_off_takes_all_that_follows(self, message: str) -> None:
        assert intent_text(message) == ""

    def test_before_one_that_was_cut_off_words_stay(self) -> None:
        assert intent_text("list my pods\n<log>\nrefused") == "list my pods"


class TestProseAndCode:
    @pytest.mark.parametrize(
        "message",
        [
            "is a < b and c > d?",
            "why is List<int> no List<Object>",
            "Arc<Mutex<T>> or Rc<RefCell<T>>",
            "Map<int, string> x",
            "how do I centre a <div> here",
            "line one <br> line two",
            "mail <bob@example.org> or see <https://example.org>",
            "a </div> too many",
            "x<<1 <> <3",
            "",
            "  spaces stay ",
            "  beside a <b> too ",
        ],
    )
    def test_stays_as_it_is(self, message: str) -> None:
        assert intent_text(message) == message

    @pytest.mark.parametrize("element", ["<br>", "<log/>", "<br/>"])
    def test_after_an_element_that_holds_nothing_words_stay(self, element: str) -> None:
        assert intent_text(f"{element}\nwords after it") == "words after it"


class TestPastes:
    def test_go_beside_blocks(self) -> None:
        assert intent_text("<log>refused</log> why?\nKeyError: 'id'\nopen an issue") == "why?\nopen an issue"


class TestLaws:
    @given(st.text(alphabet="<>/ab \n\"'="))
    def test_nothing_is_made_up(self, message: str) -> None:
        rest = iter(message)
        assert all(letter in rest for letter in intent_text(message).replace("\n", ""))

    @given(st.text(alphabet="<>/ab \n\"'="), st.text(alphabet="xy \n"))
    def test_what_is_in_a_block_never_stays(self, before: str, block: str) -> None:
        assert "SECRET" not in intent_text(f"{before}\n<log>{block}SECRET{block}</log>")

    @pytest.mark.parametrize(
        "part", ["<a>", "<a ", '<a "', "<a x='", "<a></a>", "<a><b></a>", "<", "</a>", "\n <a>", "<a:", "<a/", " "]
    )
    def test_time_grows_with_the_length_alone(self, part: str) -> None:
        def took_s(n: int) -> float:
            started = time.process_time()
            intent_text(f"<x>{part * n}</x")
            return time.process_time() - started

        took_s(1000)
        assert took_s(100_000) < 1  # a quadratic time would be minutes

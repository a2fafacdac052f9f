"""Selections as calling agents send them: what is sent is what is read."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_utilities import SelectionError, selection_headers, selection_url
from agent_utilities.policy.curation import preferences_of
from agent_utilities.selection.merge import effective
from agent_utilities.selection.model import NameSet, Selection, fold
from agent_utilities.selection.parse import read_request

ASKED = {
    "tools": ["git_log", "git_diff"],
    "disabled_tools": ["git_push"],
    "tags": ["read"],
    "disabled_tags": ["write", "delete"],
    "read_only": True,
    "query": "what changed?",
    "top_k": 5,
}


def read_headers(headers: dict[str, str]) -> Selection:
    return read_request(b"", tuple((key.encode(), value.encode()) for key, value in headers.items()))


class TestHeaders:
    def test_are_read_as_they_were_meant(self):
        held = effective(read_headers(selection_headers(**ASKED)))
        assert [s.value for s in held.allow_tools] == [NameSet(frozenset({"git_log", "git_diff"}))]
        assert (held.query_text, held.top_k.value, held.read_only.value) == ("what changed?", 5, True)

    def test_name_a_profile(self):
        for name in ["review", "Straße", "日本"]:
            held = read_headers(selection_headers(profile=name)).get("profile", "header")
            assert held.value == (fold(name),)

    def test_name_one_profile(self):
        with pytest.raises(SelectionError, match="not a profile's name"):
            selection_headers(profile="a,b")

    def test_an_empty_grant_is_no_tool_at_all(self):
        assert selection_headers(tools=[]) == {"x-mcp-enabled-tools": "none"}

    def test_text_that_is_not_ascii_is_encoded(self):
        for query in ["don’t show deletions", "журнал", "UTF-8''%41", "100% of %41", "\U0001f600"]:
            headers = selection_headers(query=query, disabled_toolsets=["größe", "日本"])
            assert all(value.isascii() for value in headers.values())
            held = effective(read_headers(headers))
            assert (held.query_text, held.deny_tools[0].value.toolsets) == (query, {"grösse", "日本"})

    @given(st.text())
    def test_hold_every_text_that_a_url_holds(self, text):
        try:
            meant = read_request(urlencode({"q": text}).encode("utf-8"), ()).get("query", "query")
        except (SelectionError, UnicodeEncodeError):
            return
        assert selection_headers(query=text)["x-mcp-query"].isascii()
        read = read_headers(selection_headers(query=text)).get("query", "header")
        assert (read and read.value) == (meant and meant.value)

    def test_text_that_is_badly_encoded_is_refused(self):
        for value in ["UTF-8''%zz", "utf-8'en'a b", "UTF-8''%ff"]:
            with pytest.raises(SelectionError):
                read_headers({"x-mcp-query": value})


class TestUrl:
    def test_is_read_as_it_was_meant(self):
        url = selection_url("http://127.0.0.1:8001/sse", **ASKED)
        sent = read_request(url.partition("?")[2].encode(), ())
        meant = effective(read_headers(selection_headers(**ASKED)))
        assert (effective(sent).bounds_digest, preferences_of(effective(sent))) == (
            meant.bounds_digest,
            preferences_of(meant),
        )

    def test_takes_text_that_is_not_ascii(self):
        url = selection_url("http://127.0.0.1:8001/mcp", query="журнал ошибок")
        assert effective(read_request(url.partition("?")[2].encode(), ())).query_text == "журнал ошибок"

    def test_keeps_a_flag_that_has_no_value(self):
        assert selection_url("http://x/mcp?read_only", tools=["a"]) == "http://x/mcp?read_only=true&tools=a"

    def test_keeps_other_keys_and_replaces_its_own(self):
        url = selection_url("http://h/mcp?token=t&tools=old&toolsets=older", tools=["new"])
        assert url == "http://h/mcp?token=t&tools=new"


class TestRefused:
    def test_what_would_be_misread(self):
        for asked in [{"tools": ["a,b"]}, {"tools": [" "]}, {"top_k": 0}, {"query": "a\x00b"}, {"toolz": ["a"]}]:
            for make in [selection_headers, lambda **kw: selection_url("http://h/mcp", **kw)]:
                with pytest.raises(SelectionError):
                    make(**asked)

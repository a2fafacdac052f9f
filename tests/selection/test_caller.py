"""Selections as calling agents send them: what is sent is what is read."""

from __future__ import annotations

import pytest

from agent_utilities import SelectionError, selection_headers, selection_url
from agent_utilities.selection.merge import effective
from agent_utilities.selection.model import NameSet, Selection
from agent_utilities.selection.parse import read_request
from agent_utilities.visibility.preferences import preferences_of

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

    def test_an_empty_grant_is_no_tool_at_all(self):
        assert selection_headers(tools=[]) == {"x-mcp-enabled-tools": "none"}

    def test_text_that_is_not_ascii_is_refused_with_the_way_out(self):
        with pytest.raises(SelectionError, match="use selection_url"):
            selection_headers(query="журнал")


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

    def test_keeps_other_keys_and_replaces_its_own(self):
        url = selection_url("http://h/mcp?token=t&tools=old&toolsets=older", tools=["new"])
        assert url == "http://h/mcp?token=t&tools=new"


class TestRefused:
    @pytest.mark.parametrize("make", [selection_headers, lambda **kw: selection_url("http://h/mcp", **kw)])
    @pytest.mark.parametrize(
        "asked", [{"tools": ["a,b"]}, {"tools": [" "]}, {"top_k": 0}, {"query": "a\x00b"}, {"toolz": ["a"]}]
    )
    def test_what_would_be_misread(self, make, asked):
        with pytest.raises(SelectionError):
            make(**asked)

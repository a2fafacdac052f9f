"""A tool's document: what of its definition a ranker reads."""

from __future__ import annotations

from agent_utilities.catalog.document import ToolDocument, ToolServer, document, split_identifier

DEFINITION = {
    "name": "clone_repo",
    "title": "Clone",
    "description": "Copy a repository. It needs git.",
    "inputSchema": {"type": "object", "properties": {"url": {"description": "Where it is"}, "depth": {}}},
    "_meta": {"fastmcp": {"tags": ["write", "git"]}, "anthropic/searchHint": "checkout"},
}


class TestDocument:
    def test_it_reads_every_field_of_a_definition(self):
        assert document(DEFINITION, server="git") == ToolDocument(
            name="clone_repo",
            title="Clone",
            description="Copy a repository. It needs git.",
            parameters=(("url", "Where it is"), ("depth", "")),
            tags=("git", "write"),
            server="git",
            hints=("checkout",),
        )

    def test_it_reads_what_is_known_of_the_server(self):
        git = ToolServer("git", "Git", "Work with repositories. Easy to install.")
        read = document({**DEFINITION, "name": "git_clone_repo"}, server=git, own_name="clone_repo")
        assert (read.name, read.own_name, read.read_name) == ("git_clone_repo", "clone_repo", "clone_repo")
        assert (read.server, read.server_text) == ("git", "Git\nWork with repositories.")
        assert read.aspects() == document(DEFINITION, server="git").aspects()

    def test_of_a_server_that_tells_much_a_thousand_characters_are_read(self):
        assert len(document({"name": "a"}, server=ToolServer("git", "", "x" * 9_000)).server_text) == 1_000

    def test_tags_that_are_none_are_none(self):
        for meta in [None, {"fastmcp": None}, {"fastmcp": {"tags": None}}, "text"]:
            assert document({"name": "a", "_meta": meta}).tags == ()

    def test_the_title_may_stand_in_the_annotations(self):
        assert document({"name": "a", "annotations": {"title": "First"}}).title == "First"

    def test_a_title_that_only_repeats_the_name_is_left_out(self):
        for name, title, read in [
            ("git_log", "Git Log", ""),
            ("analyzeEvidence", "Analyzeevidence", ""),
            ("police_analyzeEvidence", "Analyzeevidence", ""),
            ("analyzeevidence", "Analyze Evidence", "Analyze Evidence"),
            ("git_log", "Commit log", "Commit log"),
            ("blog", "Log", "Log"),
        ]:
            assert document({"name": name, "title": title}).title == read

    def test_what_is_no_text_is_left_out(self):
        assert document({"name": "a", "description": 3, "inputSchema": {"properties": []}}) == ToolDocument("a")

    def test_a_long_description_is_read_in_part(self):
        assert len(document({"name": "a", "description": "x" * 200_000}).description) == 20_000


class TestAspects:
    def test_they_are_the_whole_the_first_sentence_and_the_name(self):
        assert document(DEFINITION, server="gitAgent").aspects() == {
            "whole": "git Agent clone repo Clone: Copy a repository. It needs git.\ncheckout",
            "first_sentence": "clone repo Clone: Copy a repository.",
            "name": "clone repo Clone",
        }


class TestSplitIdentifier:
    def test_words_end_where_case_digits_or_punctuation_do(self):
        for name, words in [
            ("get_http_status", "get http status"),
            ("getHTTPStatus", "get HTTP Status"),
            ("logs.v2-tail", "logs v 2 tail"),
            ("查看日志", "查看日志"),
            ("", ""),
        ]:
            assert split_identifier(name) == words

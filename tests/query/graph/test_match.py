"""What a query finds: the same on both backends, and with the plain form of the match on Neo4j."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_utilities.query.graph import cypher
from agent_utilities.query.graph.base import ToolGraph, ToolRecord
from agent_utilities.query.graph.matching import Matches, names_of, normalise, terms
from agent_utilities.query.graph.sync import sync
from tests.query.graph.conftest import NewGraph
from tests.query.graph.neo4j_servers import Access
from tests.query.graph.records import MATCH, examples, matching_names, numbered, record, texts, toolsets, words

pytestmark = pytest.mark.anyio

MATCH_PLAIN = """
MATCH (s:Server)-[:PROVIDES]->(t:CallableResource)
WHERE (s.name = $server_name OR s.gateway = $server_name)
  AND (toLower(t.name) CONTAINS toLower($query) OR toLower(t.description) CONTAINS toLower($query)
       OR any(tag IN t.tags WHERE toLower(tag) CONTAINS toLower($query)))
RETURN t.name AS name, t.tags AS tags
"""
"""The same match with the parameter inside its predicates; Neo4j only, to show that both give the same."""

TOOLS = [
    record("dns_lookup", "Resolve a host's address.", ["network", "Read"]),
    record("git_log", "Show commits.", ["git", "read"]),
    record("git_push", "Send commits to a remote.", ["git", "write"]),
    record("tail_log", "Show the last lines of a file.", ["logs", "read"]),
    record("rotate", "Start a new FILE for the records of a service.", ["Logs", "write"]),
    record("bare"),
]

CASES = {
    "dns": {"dns_lookup"},
    "GIT": {"git_log", "git_push"},
    "git_": {"git_log", "git_push"},
    "log": {"git_log", "tail_log", "rotate"},
    "logs": {"tail_log", "rotate"},
    "LOGS": {"tail_log", "rotate"},
    "file": {"tail_log", "rotate"},
    "a new file": {"rotate"},
    "  a   NEW\tfile ": {"rotate"},
    "commits to": {"git_push"},
    "host's": {"dns_lookup"},
    "network": {"dns_lookup"},
    "write": {"git_push", "rotate"},
    "bare": {"bare"},
    "nonesuch": set(),
    "l": {"dns_lookup", "git_log", "tail_log", "rotate"},
}


class TestLiteral:
    async def test_finds_names_descriptions_and_tags_in_any_case(self, graph: ToolGraph) -> None:
        await sync(graph, "s", TOOLS, 1)
        answers = {query: set(await matching_names(graph, "s", normalise(query))) for query in CASES}
        assert answers == CASES

    async def test_asks_of_one_server_only(self, graph: ToolGraph) -> None:
        await sync(graph, "s", TOOLS, 1)
        await sync(graph, "other", [record("dns_other", "dns")], 1)
        assert await matching_names(graph, "s", "dns") == ("dns_lookup",)
        assert await matching_names(graph, "nobody", "dns") == ()

    async def test_finds_letters_beyond_ascii_in_any_form(self, graph: ToolGraph) -> None:
        cases = [
            ("Öffne die TÜR", "tür"),
            ("STRAßE", "straße"),
            ("日本の空", "本の"),
            ("emoji 🚀 launch", "🚀"),
            ("ΟΔΟΣ ΑΘΗΝΑ", "οδος"),
            ("ΟΔΟΣ ΑΘΗΝΑ", "ΟΔΟΣ"),
            ("cafe\u0301", "caf\u00e9"),
            ("lines\n  of logs", "lines of logs"),
        ]
        tools = [record(f"tool_{i}", text) for i, (text, _) in enumerate(cases)]
        await sync(graph, "s", [*tools, record("decoy", "of logs")], 1)
        expected = {
            query: tuple(f"tool_{i}" for i, (text, _) in enumerate(cases) if normalise(query) in normalise(text))
            for _, query in cases
        }
        assert all(expected.values())
        assert {query: await matching_names(graph, "s", normalise(query)) for _, query in cases} == expected


class TestTerms:
    async def test_rare_terms_count_more(self, graph: ToolGraph) -> None:
        await sync(graph, "s", TOOLS, 1)
        assert (await matching_names(graph, "s", normalise("show me the address")))[0] == "dns_lookup"
        assert (await matching_names(graph, "s", normalise("rotate logs")))[0] == "rotate"

    async def test_tools_far_behind_the_best_are_not_claimed(self, graph: ToolGraph) -> None:
        await sync(graph, "s", [*numbered(20, "common thing {}"), record("rare", "unicorn")], 1)
        assert await matching_names(graph, "s", normalise("unicorn or common")) == ("rare",)

    async def test_words_that_say_nothing_find_nothing(self, graph: ToolGraph) -> None:
        await sync(graph, "s", [record("the_tool", "a tool of and for the")], 1)
        assert await matching_names(graph, "s", normalise("what should I use?")) == ()

    @examples(5)
    @given(texts)
    def test_terms_are_few_and_never_empty(self, text: str) -> None:
        words = terms(normalise(text * 20))
        assert len(words) <= 16
        assert all(words)

    @examples(5)
    @given(texts)
    def test_normalising_twice_changes_nothing(self, text: str) -> None:
        once = normalise(text)
        assert normalise(once) == once


class TestPermitted:
    """What a caller may not use leaves no trace in what its query finds (law L1)."""

    def test_a_denied_tool_does_not_make_a_term_common(self) -> None:
        """Else `rare` would score a hundredth of `common`, and a caller could count the denied tools."""
        denied = tuple(f"denied_{i}" for i in range(99))
        matches = Matches(by_term=(("one", ("a", *denied)), ("two", ("b", "c"))))
        assert names_of(matches, frozenset({"a", "b", "c"})) == ("a", "b", "c")

    def test_a_denied_tool_does_not_set_the_mark_for_the_rest(self) -> None:
        matches = Matches(by_term=(("one", ("best",)), ("two", ("best",)), ("three", ("a", "b", "c", "d"))))
        assert names_of(matches, frozenset("abcd")) == ("a", "b", "c", "d")

    def test_a_literal_match_that_is_denied_hides_no_other_answer(self) -> None:
        matches = Matches(literal=("denied",), by_term=(("one", ("a",)),))
        assert names_of(matches, frozenset({"a"})) == ("a",)

    @examples(2)
    @given(
        st.lists(st.sampled_from("abcdefgh"), unique=True),
        st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), max_size=4),
        st.frozensets(st.sampled_from("abcdefgh")),
    )
    def test_scores_are_those_of_a_catalog_with_only_the_permitted(
        self, literal: list[str], bearing: list[list[str]], permitted: frozenset[str]
    ) -> None:
        def matches(names: frozenset[str]) -> Matches:
            by_term = [(str(i), tuple(name for name in tools if name in names)) for i, tools in enumerate(bearing)]
            return Matches(tuple(name for name in literal if name in names), tuple(by_term))

        assert names_of(matches(frozenset("abcdefgh")), permitted) == names_of(matches(permitted))


@st.composite
def asked(draw: st.DrawFn) -> tuple[list[ToolRecord], list[str]]:
    """Tools, and queries in normal form: any, and such as reach from a field of a tool into the next."""
    tools = draw(toolsets())
    queries = draw(st.lists(words | texts, min_size=1, max_size=4))
    for tool in tools:
        start, length = draw(st.integers(0, len(tool.text))), draw(st.integers(1, 8))
        queries.append(draw(st.sampled_from(("", " ", "\x1f"))).join(tool.text[start : start + length].split("\n")))
    return tools, [text for text in map(normalise, queries) if text]


def bearing(tools: list[ToolRecord], text: str) -> list[str]:
    """Return the names of the tools that contain a normalised query, by plain Python."""
    return sorted(
        tool.name for tool in tools if any(text in part.lower() for part in (tool.name, tool.description, *tool.tags))
    )


async def names_by(graph: ToolGraph, statement: str, text: str) -> list[str]:
    """Return what a form of the match finds."""
    rows = await graph.read(statement, {"query": text, "server_name": "s"})
    return sorted(name for row in rows for name in row.get("names") or [row["name"]])


class TestEveryQuery:
    def test_every_form_of_the_match_finds_exactly_what_contains_the_query(self, new_graph: NewGraph) -> None:
        """Checked against plain Python, on letters whose lower case is one letter everywhere."""
        with asyncio.Runner() as runner:
            graph = new_graph()
            runner.run(graph.open())
            forms = [MATCH, cypher.MATCH_TEXT, *([MATCH_PLAIN] if graph.backend == "neo4j" else [])]

            @examples(35)
            @given(asked())
            @example(([record("ab", "cd", ["ef", "gh"])], ["abcd", "ab cd", "d e", "f g", "fg", "d", "ef"]))
            def check(case: tuple[list[ToolRecord], list[str]]) -> None:
                async def ask() -> None:
                    tools, queries = case
                    await sync(graph, "s", tools, 1)
                    for text in queries:
                        expected = bearing(tools, text)
                        assert [await names_by(graph, form, text) for form in forms] == [expected] * len(forms)
                    rows = await graph.read(cypher.MATCH_TERMS, {"terms": sorted(set(queries)), "server_name": "s"})
                    told = sorted((row["term"], name) for row in rows for name in row["names"])
                    assert told == sorted((text, name) for text in set(queries) for name in bearing(tools, text))

                runner.run(ask())

            check()
            runner.run(graph.close())

    def test_the_plain_form_of_the_match_finds_the_same(self, neo4j_server: Access) -> None:
        with asyncio.Runner() as runner:
            graph = neo4j_server.graph()
            runner.run(graph.open())

            @examples(35)
            @given(toolsets(), st.lists(st.text(max_size=4) | words | texts, min_size=1, max_size=6))
            @example([record("\u0130stanbul", "ΟΔΟΣ")], ["\u0130", "ος", "οσ", "ΟΔΟΣ", "ΔΟ", ""])
            def check(tools: list[ToolRecord], queries: list[str]) -> None:
                async def ask() -> None:
                    await sync(graph, "s", tools, 1)
                    for query in queries:
                        plain = await names_by(graph, MATCH_PLAIN, query)
                        assert await names_by(graph, MATCH, query) == plain
                        if text := normalise(query):
                            plain = await names_by(graph, MATCH_PLAIN, text)
                            assert await names_by(graph, cypher.MATCH_TEXT, text) == plain

                runner.run(ask())

            check()
            runner.run(graph.close())

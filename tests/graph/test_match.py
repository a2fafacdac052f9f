"""What a query finds: the same on both backends, and with the plain form of the match on Neo4j."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_utilities.graph import cypher
from agent_utilities.graph.base import ToolGraph, ToolRecord
from agent_utilities.graph.matching import normalise, terms
from agent_utilities.graph.sync import sync
from tests.graph.conftest import NEO4J_AT_NIGHT, NewGraph
from tests.graph.neo4j_servers import Access
from tests.graph.records import examples, matching_names, numbered, record, texts, toolsets, words

pytestmark = pytest.mark.anyio

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
    @pytest.mark.parametrize("query", CASES)
    async def test_finds_names_descriptions_and_tags_in_any_case(self, graph: ToolGraph, query: str) -> None:
        await sync(graph, "s", TOOLS, 1)
        assert set(await matching_names(graph, "s", normalise(query))) == CASES[query]

    async def test_asks_of_one_server_only(self, graph: ToolGraph) -> None:
        await sync(graph, "s", TOOLS, 1)
        await sync(graph, "other", [record("dns_other", "dns")], 1)
        assert await matching_names(graph, "s", "dns") == ("dns_lookup",)
        assert await matching_names(graph, "nobody", "dns") == ()

    @pytest.mark.parametrize(
        ("text", "query"),
        [
            ("Öffne die TÜR", "tür"),
            ("STRAßE", "straße"),
            ("日本の空", "本の"),
            ("emoji 🚀 launch", "🚀"),
            ("ΟΔΟΣ ΑΘΗΝΑ", "οδος"),
            ("ΟΔΟΣ ΑΘΗΝΑ", "ΟΔΟΣ"),
            ("cafe\u0301", "caf\u00e9"),
            ("lines\n  of logs", "lines of logs"),
        ],
    )
    async def test_finds_letters_beyond_ascii_in_any_form(self, graph: ToolGraph, text: str, query: str) -> None:
        await sync(graph, "s", [record("it", text), record("decoy", "of logs")], 1)
        assert await matching_names(graph, "s", normalise(query)) == ("it",)


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

    @NEO4J_AT_NIGHT
    async def test_ten_thousand_tools(self, graph: ToolGraph) -> None:
        tools = [*numbered(9_999), record("rotate", "records of a service")]
        await sync(graph, "s", tools, 1)
        assert await matching_names(graph, "s", "number 4711") == ("tool_4711",)
        assert (await matching_names(graph, "s", "service 4711 records"))[0] == "rotate"

    @given(texts)
    def test_terms_are_few_and_never_empty(self, text: str) -> None:
        found = terms(normalise(text * 20))
        assert len(found) <= 16
        assert all(found)

    @given(texts)
    def test_normalising_twice_changes_nothing(self, text: str) -> None:
        once = normalise(text)
        assert normalise(once) == once


@st.composite
def asked(draw: st.DrawFn) -> tuple[list[ToolRecord], list[str]]:
    """Tools, and queries in normal form: any, and such as reach from a field of a tool into the next."""
    tools = draw(toolsets())
    queries = draw(st.lists(words | texts, min_size=1, max_size=4))
    for each in tools:
        start, length = draw(st.integers(0, len(each.text))), draw(st.integers(1, 8))
        queries.append(draw(st.sampled_from(("", " ", "\x1f"))).join(each.text[start : start + length].split("\n")))
    return tools, [text for text in map(normalise, queries) if text]


def bearing(tools: list[ToolRecord], text: str) -> list[str]:
    """Return the names of the tools that contain a normalised query, by plain Python."""
    return sorted(
        each.name for each in tools if any(text in part.lower() for part in (each.name, each.description, *each.tags))
    )


async def found(graph: ToolGraph, statement: str, text: str) -> list[str]:
    """Return what a form of the match finds."""
    rows = await graph.read(statement, {"query": text, "server_name": "s"})
    return sorted(name for row in rows for name in row.get("names") or [row["name"]])


class TestEveryQuery:
    def test_every_form_of_the_match_finds_exactly_what_contains_the_query(self, new_graph: NewGraph) -> None:
        """Checked against plain Python, on letters whose lower case is one letter everywhere."""
        with asyncio.Runner() as runner:
            graph = new_graph()
            runner.run(graph.open())
            forms = [cypher.MATCH, cypher.MATCH_TEXT, *([cypher.MATCH_PLAIN] if graph.backend == "neo4j" else [])]

            @examples(25)
            @given(asked())
            @example(([record("ab", "cd", ["ef", "gh"])], ["abcd", "ab cd", "d e", "f g", "fg", "d", "ef"]))
            def check(case: tuple[list[ToolRecord], list[str]]) -> None:
                async def ask() -> None:
                    tools, queries = case
                    await sync(graph, "s", tools, 1)
                    for text in queries:
                        expected = bearing(tools, text)
                        assert [await found(graph, form, text) for form in forms] == [expected] * len(forms)
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

            @examples(25)
            @given(toolsets(), st.lists(st.text(max_size=4) | words | texts, min_size=1, max_size=6))
            @example([record("\u0130stanbul", "ΟΔΟΣ")], ["\u0130", "ος", "οσ", "ΟΔΟΣ", "ΔΟ", ""])
            def check(tools: list[ToolRecord], queries: list[str]) -> None:
                async def ask() -> None:
                    await sync(graph, "s", tools, 1)
                    for query in queries:
                        plain = await found(graph, cypher.MATCH_PLAIN, query)
                        assert await found(graph, cypher.MATCH, query) == plain
                        if text := normalise(query):
                            plain = await found(graph, cypher.MATCH_PLAIN, text)
                            assert await found(graph, cypher.MATCH_TEXT, text) == plain

                runner.run(ask())

            check()
            runner.run(graph.close())

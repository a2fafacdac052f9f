"""Hostile queries: the right answer or a clear refusal, whatever the text, and nothing in the graph changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote_from_bytes

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_utilities.query.graph.backends import embedded_path
from agent_utilities.query.graph.base import ToolGraph
from agent_utilities.query.graph.matching import normalise
from agent_utilities.query.graph.sync import server_states, sync
from agent_utilities.selection.model import Resolution
from agent_utilities.settings import read_settings
from tests.query.graph.agents import PATIENT, PERMITTED, Agent, serving
from tests.query.graph.conftest import NewGraph
from tests.query.graph.records import examples, expected, held, record, texts
from tests.query.graph.wrapped import Live, patient, running
from tests.resolutions import answer_of

pytestmark = pytest.mark.anyio

HOSTILE = [
    "' OR 1=1 //",
    "') DETACH DELETE t //",
    "x' RETURN t UNION MATCH (n) DETACH DELETE n RETURN n AS name //",
    "\\' }) MATCH (n) DETACH DELETE n //",
    "$query",
    "$server_name",
    "{name: 'other'}",
    "`",
    '"',
    "\\",
    "\\u0027",
    "/* */",
    "// comment",
    ";MATCH (n) DETACH DELETE n;",
    "name:dns*",
    "dns~",
    "+dns -git",
    "dns AND git",
    "[a TO z]",
    "*",
    "?",
    "%",
    "_",
    ".*",
    "[a-z]",
    "**/*",
    "{{7*7}}",
    "\u202egol",
    "\u200fdns",
    "\u2066dns\u2069",
    "\ufeffdns",
    "dns\u0301" * 50,
    "null",
    "true",
    "x" * 8192,
    "dns " * 2000,
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
]
TOOLS = [
    record("dns_read", "Read what is in dns.", ["dns"]),
    record("odd", "100% of $query { 'quoted' } \\ ` [a-z] .* ~ + \u202egol", ["*", "?"]),
    record("other"),
]


def containing(query: str) -> set[str]:
    """Return the tools that contain a query literally."""
    text = normalise(query)
    return {
        tool.name for tool in TOOLS if any(text in part.lower() for part in (tool.name, tool.description, *tool.tags))
    }


async def check_unharmed(graph: ToolGraph) -> None:
    assert await held(graph, "s") == expected(TOOLS, "s")
    assert [state.name for state in await server_states(graph)] == ["another", "s"]


def check_answer(query: str, answer: Resolution) -> None:
    literal = containing(query)
    if not normalise(query):
        assert answer.status == "off", query
    elif literal:
        assert (answer.status, set(answer.names)) == ("fresh", literal), query
    else:
        assert answer.status in ("fresh", "no_match"), query
        assert set(answer.names) <= {tool.name for tool in TOOLS}


class TestResolve:
    async def test_hostile_text_is_text(self, graph: ToolGraph) -> None:
        await sync(graph, "another", [record(f"secret_{i}", query[:100]) for i, query in enumerate(HOSTILE)], 1)
        pipeline = patient(graph, Live(TOOLS))
        async with running(pipeline):
            for query in HOSTILE:
                check_answer(query, await pipeline.resolve(query))
                await check_unharmed(graph)

    async def test_nul_finds_nothing_and_harms_nothing(self, graph: ToolGraph) -> None:
        pipeline = patient(graph, Live(TOOLS))
        async with running(pipeline):
            for query in ("a\0b", "\0", "dns\0"):
                assert (await pipeline.resolve(query)).status in ("no_match", "fresh"), query
            assert await pipeline.resolve("dns") == answer_of("fresh", ("dns_read",))

    async def test_unpaired_surrogates_do_not_open_the_breaker(self, graph: ToolGraph) -> None:
        pipeline = patient(graph, Live(TOOLS))
        async with running(pipeline):
            for query in ("\ud800", "a\udfff", "\udc80\ud800", "dns \ud83d"):
                assert (await pipeline.resolve(query)).status in ("no_match", "fresh")
            assert await pipeline.resolve("dns") == answer_of("fresh", ("dns_read",))

    def test_any_text_is_answered_right(self, new_graph: NewGraph) -> None:
        with asyncio.Runner() as runner:
            graph = new_graph()

            async def check_all() -> None:
                await graph.open()
                await sync(graph, "another", [record("secret")], 1)
                pipeline = patient(graph, Live(TOOLS))
                async with running(pipeline):
                    loop = asyncio.get_running_loop()

                    @examples(5)
                    @given(texts | st.text(max_size=20) | st.sampled_from(HOSTILE))
                    @example("ǆ")
                    def check(query: str) -> None:
                        asked = asyncio.run_coroutine_threadsafe(pipeline.resolve(query), loop)
                        check_answer(query, asked.result(30))

                    await asyncio.to_thread(check)
                    await check_unharmed(graph)

            runner.run(check_all())


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """A server process on the embedded graph."""
    with serving({**PATIENT, "MCP_GRAPH_FOLDER": str(tmp_path_factory.mktemp("Mixed Case"))}) as server:
        server.until_ready()
        yield server


def check_http(agent: Agent, query_string: str) -> int:
    """Ask for a list; its answer is a list within what is permitted, or a 400 that says what is wrong."""
    answer = agent.web.get(f"/tools?{query_string}")
    if answer.status_code == 400:
        assert set(answer.json()["error"]) == {"what", "value", "source", "hint"}
    else:
        assert answer.status_code == 200, answer.text
        body = answer.json()
        names = {tool["name"] for tool in body["tools"]}
        assert names <= PERMITTED
        assert body["selection"]["status"] in ("off", "fresh", "no_match")
        assert names == PERMITTED or body["selection"]["status"] == "fresh"
    return answer.status_code


class TestHttp:
    def test_hostile_text_is_text(self, agent: Agent) -> None:
        for query in HOSTILE:
            status = check_http(agent, "q=" + quote_from_bytes(query.encode()))
            assert status == 200, query

    def test_broken_text_is_refused_clearly(self, agent: Agent) -> None:
        cases = {
            b"\0": 400,
            b"dns\0": 400,
            b"\xed\xa0\x80": 400,
            b"\xff": 400,
            b"\xc0\x80": 400,
            b"dns\r\nx": 200,
            b"x" * 8192: 200,
            b"x" * 8193: 200,
            "é".encode() * 4097: 200,
            "\u200fdns".encode(): 200,
        }
        assert {raw: check_http(agent, "q=" + quote_from_bytes(raw)) for raw in cases} == cases

    def test_any_bytes_are_answered(self, agent: Agent) -> None:
        @examples(5)
        @given(st.binary(max_size=24) | texts.map(str.encode) | st.text(max_size=16).map(str.encode), st.booleans())
        def check(raw: bytes, escaped: bool) -> None:
            safe = "" if escaped else "!$'()*,;:@/?"
            assert check_http(agent, "q=" + quote_from_bytes(raw, safe=safe)) in (200, 400)

        check()
        assert agent.tools("dns").names == ("dns_read", "dns_list", "dns_write")

    def test_bounds_hold_whatever_the_query_names(self, agent: Agent) -> None:
        for query in ("delete", "dns_delete", "delete what is in dns"):
            assert "delete" not in " ".join(agent.tools(query).names)

    def test_the_process_log_tells_of_no_error(self, agent: Agent) -> None:
        assert agent.said("") == []
        assert not any("Traceback" in line for line in agent.lines)


def test_a_graph_folder_is_taken_as_it_is_spelt(tmp_path: Path) -> None:
    folder = read_settings({"MCP_GRAPH_FOLDER": str(tmp_path / "Mixed Case")}).graph_folder
    assert embedded_path("Named So", folder) == tmp_path / "Mixed Case" / "Named_So.lbdb"

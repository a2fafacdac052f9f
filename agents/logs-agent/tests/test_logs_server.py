"""The server's surface: names, tags, hints, README, start-up."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from logs_agent.server import mcp
from tests.every import every

README = Path(__file__).parents[1] / "README.md"
READING = {
    "list_logs",
    "tail_log",
    "search_logs",
    "summarize_errors",
    "count_by_level",
    "log_histogram",
    "find_slow_requests",
    "compare_windows",
}
CHANGING = {"rotate_log", "delete_log"}


async def _list() -> list[Any]:
    async with Client(mcp) as client:
        return list(await client.list_tools())


@pytest.fixture(scope="module")
def tools() -> dict[str, Any]:
    return {tool.name: tool for tool in anyio.run(_list)}


def tags(tool: Any) -> set[str]:
    return set(tool.meta["fastmcp"]["tags"])


class TestTags:
    def test_the_ten_tools_are_there(self, tools: dict[str, Any]) -> None:
        assert set(tools) == READING | CHANGING

    def test_every_tool_bears_the_logs_tag(self, tools: dict[str, Any]) -> None:
        assert [name for name, tool in tools.items() if "logs" not in tags(tool)] == []

    def test_denying_write_and_delete_leaves_exactly_the_reading_tools(self, tools: dict[str, Any]) -> None:
        assert {name for name, tool in tools.items() if not tags(tool) & {"write", "delete"}} == READING

    def test_every_tool_bears_either_read_or_write(self, tools: dict[str, Any]) -> None:
        assert [name for name, tool in tools.items() if len(tags(tool) & {"read", "write"}) != 1] == []

    def test_only_deleting_bears_the_delete_tag(self, tools: dict[str, Any]) -> None:
        assert {name for name, tool in tools.items() if "delete" in tags(tool)} == {"delete_log"}


class TestHints:
    def test_exactly_the_reading_tools_are_hinted_read_only(self, tools: dict[str, Any]) -> None:
        assert {name for name, tool in tools.items() if tool.annotations.read_only_hint} == READING

    def test_every_tool_has_a_title_and_all_hints(self, tools: dict[str, Any]) -> None:
        for tool in tools.values():
            hints = tool.annotations
            given = (
                hints.read_only_hint,
                hints.destructive_hint,
                hints.idempotent_hint,
                hints.open_world_hint,
            )
            assert hints.title
            assert None not in given

    def test_every_parameter_is_described(self, tools: dict[str, Any]) -> None:
        bare = [
            (name, parameter)
            for name, tool in tools.items()
            for parameter, schema in tool.input_schema["properties"].items()
            if not schema.get("description")
        ]
        assert bare == []

    def test_descriptions_are_at_most_two_sentences_long(self, tools: dict[str, Any]) -> None:
        assert [name for name, tool in tools.items() if len(tool.description) > 220] == []


class TestRetrieval:
    @every(
        ("query", "name"),
        [
            ("slow requests", "find_slow_requests"),
            ("access log", "find_slow_requests"),
            ("errors", "summarize_errors"),
            ("exceptions", "summarize_errors"),
            ("search", "search_logs"),
            ("rotate", "rotate_log"),
            ("deploy", "compare_windows"),
            ("newest", "tail_log"),
        ],
    )
    def test_a_likely_query_stands_literally_in_the_description(
        self, tools: dict[str, Any], query: str, name: str
    ) -> None:
        assert query in tools[name].description.lower()

    def test_both_words_of_logs_analysis_stand_in_every_analysing_tool(self, tools: dict[str, Any]) -> None:
        texts = {name: f"{tool.description} {tags(tool)}" for name, tool in tools.items()}
        wanted = READING - {"tail_log"}
        assert {name for name, text in texts.items() if "logs" in text and "analysis" in text} == wanted


class TestReadme:
    def test_its_table_is_the_servers_tools(self, tools: dict[str, Any]) -> None:
        rows = re.findall(r"^\| `(\w+)` \| .+ \| ([\w, -]+) \| (yes|no) \|$", README.read_text(), re.MULTILINE)
        served = [
            (name, ", ".join(sorted(tags(tool))), "yes" if tool.annotations.read_only_hint else "no")
            for name, tool in tools.items()
        ]
        assert rows == served

    def test_it_names_every_setting_the_code_reads(self) -> None:
        sources = Path(__file__).parents[1].joinpath("logs_agent").glob("*.py")
        read = {name for source in sources for name in re.findall(r"LOGS_AGENT_[A-Z_]+", source.read_text())}
        assert read == set(re.findall(r"LOGS_AGENT_[A-Z_]+", README.read_text()))


class TestStartUp:
    @pytest.mark.outside
    def test_the_regular_expression_library_is_loaded_only_when_used(self) -> None:
        code = "import sys, logs_agent.server; print('re2' in sys.modules)"

        async def run() -> bytes:
            return (await anyio.run_process([sys.executable, "-c", code])).stdout

        assert anyio.run(run) == b"False\n"

    @pytest.mark.outside
    def test_a_real_process_answers_over_stdio(self, logs: Path) -> None:
        (logs / "app.log").write_text("2025-01-02T10:00:00Z ERROR disk full\n")
        start = "from logs_agent.server import mcp; mcp.run(transport='stdio', show_banner=False)"

        async def run() -> dict[str, Any]:
            transport = StdioTransport(
                sys.executable, ["-c", start], env={"LOGS_AGENT_ROOTS": str(logs)}, keep_alive=False
            )
            async with Client(transport) as client:
                result = await client.call_tool("count_by_level", {"path": "app.log"})
                return dict(result.structured_content or {})

        assert anyio.run(run)["counts"] == {"ERROR": 1}

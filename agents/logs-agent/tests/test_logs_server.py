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


class TestTools:
    def test_the_ten_are_tagged_so_that_denying_write_and_delete_leaves_those_that_read(
        self, tools: dict[str, Any]
    ) -> None:
        assert set(tools) == READING | CHANGING
        assert [name for name, tool in tools.items() if "logs" not in tags(tool)] == []
        assert {name for name, tool in tools.items() if not tags(tool) & {"write", "delete"}} == READING
        assert [name for name, tool in tools.items() if len(tags(tool) & {"read", "write"}) != 1] == []
        assert {name for name, tool in tools.items() if "delete" in tags(tool)} == {"delete_log"}

    @every("name", sorted(READING | CHANGING))
    def test_each_has_a_title_all_hints_described_parameters_and_a_short_description(
        self, tools: dict[str, Any], name: str
    ) -> None:
        tool, hints = tools[name], tools[name].annotations
        assert hints.title
        assert hints.read_only_hint is (name in READING)
        assert None not in (hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint)
        properties = tool.input_schema["properties"]
        assert [key for key, schema in properties.items() if not schema.get("description")] == []
        assert len(tool.description) <= 220

    def test_likely_queries_stand_literally_in_the_descriptions(self, tools: dict[str, Any]) -> None:
        for query, name in (
            ("slow requests", "find_slow_requests"),
            ("access log", "find_slow_requests"),
            ("errors", "summarize_errors"),
            ("exceptions", "summarize_errors"),
            ("search", "search_logs"),
            ("rotate", "rotate_log"),
            ("deploy", "compare_windows"),
            ("newest", "tail_log"),
        ):
            assert query in tools[name].description.lower(), name
        texts = {name: f"{tool.description} {tags(tool)}" for name, tool in tools.items()}
        analysing = {name for name, text in texts.items() if "logs" in text and "analysis" in text}
        assert analysing == READING - {"tail_log"}


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
    def test_a_real_process_answers_over_stdio_and_loads_no_expression_library_before_use(self, logs: Path) -> None:
        (logs / "app.log").write_text("2025-01-02T10:00:00Z ERROR disk full\n")
        start = (
            "import sys\nfrom logs_agent.server import mcp\nassert 're2' not in sys.modules\n"
            "mcp.run(transport='stdio', show_banner=False)"
        )

        async def run() -> dict[str, Any]:
            transport = StdioTransport(
                sys.executable, ["-c", start], env={"LOGS_AGENT_ROOTS": str(logs)}, keep_alive=False
            )
            async with Client(transport) as client:
                result = await client.call_tool("count_by_level", {"path": "app.log"})
                return dict(result.structured_content or {})

        assert anyio.run(run)["counts"] == {"ERROR": 1}

"""What a surface remembers, and for whom."""

from __future__ import annotations

import pytest
from fastmcp.tools.base import Tool

from agent_utilities import create_mcp_server
from agent_utilities.compat.fastmcp_server import as_over_stdio
from agent_utilities.seam.events import Pinned
from agent_utilities.selection.active import AUTO
from agent_utilities.selection.model import NOTHING, NameSet
from agent_utilities.selection.parse import read_cli, read_request
from agent_utilities.server.surface.operator import Operator
from agent_utilities.server.surface.surface import Surface
from tests.every import every

pytestmark = pytest.mark.anyio


def launch() -> str:
    return "gone"


class TestKnown:
    async def test_what_another_caller_is_admitted_to_is_not_told_of(self) -> None:
        server = create_mcp_server("s", environ={"MCP_GRAPH": "off"})
        server.add_tool(Tool.from_function(launch, name="secret_rocket", auth=lambda context: False))
        await server.list_tools()
        with as_over_stdio():
            await server.list_tools()
            assert server.surface.known("tool") == (frozenset({"secret_rocket"}), frozenset())
        assert server.surface.known("tool") == (frozenset(), frozenset())


class TestLaunch:
    def test_a_command_line_bounds_callers_who_were_seen_before_it(self) -> None:
        surface = Surface({})
        assert surface.verdict(NOTHING, shapes_lists=False).bounds.rules == ()
        surface.launch(read_cli([("--disabled-tools", "tail_log")]))
        (rule,) = surface.verdict(NOTHING, shapes_lists=False).bounds.rules
        assert rule.name == "denied_tool"

    def test_a_command_line_is_taken_after_the_environment_was_read(self) -> None:
        operator = Operator({"MCP_READ_ONLY": "true"})
        assert [slot for slot, _ in operator.selection.slots] == [("read_only", "env")]
        operator.launch(read_cli([("--top-k", "3")]))
        assert {slot for slot, _ in operator.selection.slots} == {("read_only", "env"), ("top_k", "cli")}


class TestWhoMayHaveToolsDeferred:
    @every("asked", [b"tool_search=on", b"max_tools=3"])
    def test_a_caller_whom_the_operators_allow_list_keeps_from_searching_does_not(self, asked: bytes) -> None:
        surface = Surface({"MCP_ENABLED_TOOLS": "git_*"})
        assert surface.merged(read_request(asked, ())).preferences.deferral.over is None

    @every("asked", [b"tool_search=on", b"max_tools=3"])
    def test_a_caller_whom_nothing_keeps_from_searching_does(self, asked: bytes) -> None:
        assert Surface({}).merged(read_request(asked, ())).preferences.deferral.defers(4)

    def test_a_limit_that_a_caller_gives_takes_nothing_of_what_the_operator_defers(self) -> None:
        surface = Surface({"MCP_ENABLED_TOOLS": "git_*"})
        surface.pin(Pinned(NameSet(), None, AUTO))
        assert surface.merged(read_request(b"max_tools=3", ())).preferences.deferral.defers(51)

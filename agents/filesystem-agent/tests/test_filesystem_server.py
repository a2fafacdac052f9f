"""The server as a client meets it: names, tags, hints, descriptions, and the real process over stdio."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError
from fastmcp.tools import Tool

from filesystem_agent.server import mcp
from filesystem_agent.settings import Settings
from tests.every import every

README = Path(__file__).parents[1] / "README.md"
NAMES = [
    "list_directories",
    "view_file",
    "edit_file",
    "write_file",
    "search_files",
    "find_files",
    "file_info",
    "move_file",
    "delete_file",
    "create_directory",
    "tail_file",
    "diff_files",
]
N_MOST_SCHEMA_CHARS = 12_000


@pytest.fixture(scope="module")
def tools() -> dict[str, Tool]:
    """The server's tools by name."""

    async def listed() -> dict[str, Tool]:
        return {tool.name: tool for tool in await mcp.list_tools()}

    return anyio.run(listed)


class TestSurface:
    def test_the_twelve_tools_are_tagged_with_domain_and_read_or_write_and_deleting_with_delete(
        self, tools: dict[str, Tool]
    ) -> None:
        assert list(tools) == NAMES
        assert [name for name, tool in tools.items() if "filesystem" not in tool.tags] == []
        assert [name for name, tool in tools.items() if len(tool.tags & {"read", "write"}) != 1] == []
        assert [name for name, tool in tools.items() if "delete" in tool.tags] == ["delete_file"]

    @every("name", NAMES)
    def test_the_hints_are_all_given_and_agree_with_the_tags(self, tools: dict[str, Tool], name: str) -> None:
        hints = tools[name].annotations
        assert hints is not None
        assert hints.title
        assert hints.read_only_hint is ("read" in tools[name].tags)
        assert None not in (hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint)
        assert not (hints.read_only_hint and hints.destructive_hint)

    @every("name", NAMES)
    def test_every_parameter_is_described_and_the_workspace_is_none(self, tools: dict[str, Tool], name: str) -> None:
        properties = tools[name].parameters["properties"]
        assert [key for key, schema in properties.items() if not schema.get("description")] == []
        assert "workspace" not in properties

    def test_the_surface_is_cheap_to_show_to_a_model(self, tools: dict[str, Tool]) -> None:
        shown = [{"n": tool.name, "d": tool.description, "p": tool.parameters} for tool in tools.values()]
        assert len(json.dumps(shown)) < N_MOST_SCHEMA_CHARS

    def test_an_unknown_argument_is_refused(self, call: Callable[..., Any]) -> None:
        with pytest.raises(ToolError, match=r"recursive"):
            call("delete_file", path="x", recursive=True)


class TestReadme:
    def test_its_table_is_the_servers_tools(self, tools: dict[str, Tool]) -> None:
        rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \| (yes|no) \|$", README.read_text(), re.MULTILINE)
        assert rows == [
            (
                name,
                tool.description,
                ", ".join(sorted(tool.tags)),
                "yes" if tool.annotations and tool.annotations.read_only_hint else "no",
            )
            for name, tool in tools.items()
        ]

    def test_its_settings_are_the_servers(self) -> None:
        rows = re.findall(r"^\| `FILESYSTEM_AGENT_(\w+)` \| (.*?) ?\| (.+?) \|$", README.read_text(), re.MULTILINE)
        assert rows == [
            (name.upper(), "" if field.default == () else str(field.default), field.description)
            for name, field in Settings.model_fields.items()
        ]


class TestProcess:
    @pytest.mark.outside
    def test_it_serves_over_stdio_and_needs_neither_root_nor_pattern_library_to_start(
        self, root: Path, outside: Path
    ) -> None:
        root.rmdir()
        script = (
            "import sys\nfrom filesystem_agent.__main__ import main\n"
            "import filesystem_agent.server\nassert 're2' not in sys.modules\nmain()"
        )

        async def session() -> list[str]:
            transport = StdioTransport(
                sys.executable, ["-c", script], env={**os.environ, "FILESYSTEM_AGENT_ROOTS": str(root)}
            )
            async with Client(transport) as client:
                await anyio.Path(root).mkdir()
                (root / "a.txt").write_text("one\n")
                edited = await client.call_tool("edit_file", {"path": "a.txt", "old_text": "one", "new_text": "two"})
                assert edited.structured_content is not None
                viewed = await client.call_tool("view_file", {"path": "a.txt"})
                assert viewed.structured_content is not None
                refused = await client.call_tool(
                    "view_file", {"path": str(outside / "secret.txt")}, raise_on_error=False
                )
                return [viewed.structured_content["text"], str(refused.is_error)]

        assert anyio.run(session) == ["two\n", "True"]

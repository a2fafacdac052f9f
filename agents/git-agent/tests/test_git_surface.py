"""What hosts and operators see: labels, schemas, the table in the README, a real process over stdio."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import anyio
import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from git_agent.server import mcp
from tests.every import every

README = Path(__file__).parents[1] / "README.md"
NAMES = [
    *("clone_repo", "git_status", "git_log", "git_diff", "git_show", "git_blame", "git_branches"),
    *("git_checkout", "git_add", "git_commit", "git_push", "git_stash"),
]


@pytest.fixture(scope="module")
def tools():
    async def listed():
        async with Client(mcp) as client:
            return {tool.name: tool for tool in await client.list_tools()}

    return anyio.run(listed)


def tags(tool) -> set[str]:
    return set(tool.meta["fastmcp"]["tags"])


class TestTools:
    def test_are_the_twelve_tagged_by_domain_and_by_what_they_do(self, tools):
        assert list(tools) == NAMES
        assert [name for name in NAMES if "git" not in tags(tools[name])] == []
        assert [name for name in NAMES if len(tags(tools[name]) & {"read", "write"}) != 1] == []
        read_only = [name for name in NAMES if tools[name].annotations.read_only_hint]
        assert read_only == [name for name in NAMES if "read" in tags(tools[name])]
        removing = [name for name in NAMES if "delete" in tags(tools[name])]
        assert (removing, tools["git_stash"].annotations.destructive_hint) == (["git_stash"], True)

    @every("name", NAMES)
    def test_are_described_in_two_sentences_with_every_hint_and_parameter(self, tools, name):
        tool = tools[name]
        assert 20 < len(tool.description) < 160
        assert None not in tool.annotations.model_dump().values()
        assert [key for key, p in tool.input_schema["properties"].items() if not p.get("description")] == []


class TestReadme:
    def test_table_is_what_the_server_has(self, tools):
        rows = [line for line in README.read_text().splitlines() if line.startswith("| `")]
        table = [row for row in rows if row.split("`")[1] in tools]
        assert table == [
            f"| `{name}` | {', '.join(sorted(tags(tool)))} | {'yes' if 'read' in tags(tool) else 'no'} "
            f"| {tool.annotations.title} |"
            for name, tool in tools.items()
        ]

    def test_names_every_setting(self):
        source = (README.parent / "git_agent" / "settings.py").read_text()
        names = set(re.findall("GIT_AGENT_[A-Z_]+", source))
        text = README.read_text()
        assert [name for name in sorted(names) if name not in text] == []


@pytest.mark.outside
class TestProcess:
    def test_serves_over_stdio_and_needs_neither_git_nor_root_to_start(self, repo, root, tmp_path):
        repo.commit()
        away, programs = tmp_path / "away", tmp_path / "programs"
        root.rename(away)
        programs.mkdir()

        async def once():
            transport = StdioTransport(
                sys.executable,
                ["-c", "import sys; sys.argv = ['git-agent-mcp']; from git_agent.__main__ import main; main()"],
                env={"PATH": str(programs), "GIT_AGENT_ROOTS": str(root), "HOME": os.environ["HOME"]},
            )
            async with Client(transport) as client:
                away.rename(root)
                (programs / "git").symlink_to(shutil.which("git"))
                await client.call_tool("git_commit", {"repo": "repo", "message": "m", "allow_empty": True})
                return (await client.call_tool("git_log", {"repo": "repo"})).structured_content

        assert [c["message"] for c in anyio.run(once)["commits"]] == ["m", "add"]

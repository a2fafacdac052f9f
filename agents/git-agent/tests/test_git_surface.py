"""What hosts and operators see: labels, schemas, the table in the README, a real process over stdio."""

from __future__ import annotations

import os
import re
import subprocess
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
    def test_are_those_of_the_contract(self, tools):
        assert list(tools) == NAMES

    @every("name", NAMES)
    def test_carry_the_domain_and_either_read_or_write(self, tools, name):
        assert ("git" in tags(tools[name]), len(tags(tools[name]) & {"read", "write"})) == (True, 1)

    @every("name", NAMES)
    def test_say_whether_they_only_read(self, tools, name):
        assert tools[name].annotations.read_only_hint is ("read" in tags(tools[name]))

    @every("name", NAMES)
    def test_have_every_hint_and_a_title(self, tools, name):
        assert None not in tools[name].annotations.model_dump().values()

    def test_that_remove_are_tagged_and_destructive(self, tools):
        removing = [n for n in NAMES if "delete" in tags(tools[n])]
        assert (removing, tools["git_stash"].annotations.destructive_hint) == (["git_stash"], True)

    @every("name", NAMES)
    def test_describe_every_parameter(self, tools, name):
        properties = tools[name].input_schema["properties"].values()
        assert [p for p in properties if not p.get("description")] == []

    @every("name", NAMES)
    def test_are_described_in_at_most_two_sentences(self, tools, name):
        assert 20 < len(tools[name].description) < 160


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
    def test_serves_over_stdio_without_git_eating_the_protocol(self, repo, root):
        repo.commit()

        async def once():
            transport = StdioTransport(
                sys.executable,
                ["-c", "import sys; sys.argv = ['git-agent-mcp']; from git_agent.__main__ import main; main()"],
                env={"PATH": os.environ["PATH"], "GIT_AGENT_ROOTS": str(root), "HOME": os.environ["HOME"]},
            )
            async with Client(transport) as client:
                await client.call_tool("git_commit", {"repo": "repo", "message": "m", "allow_empty": True})
                return (await client.call_tool("git_log", {"repo": "repo"})).structured_content

        assert [c["message"] for c in anyio.run(once)["commits"]] == ["m", "add"]

    def test_importing_the_server_needs_no_git_and_no_root(self, tmp_path):
        env = {"PATH": str(tmp_path), "GIT_AGENT_ROOTS": "/no/such/folder"}
        done = subprocess.run([sys.executable, "-c", "import git_agent.server"], env=env, timeout=60, check=False)
        assert done.returncode == 0

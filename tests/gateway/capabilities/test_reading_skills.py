"""A skill that a client reads through a gateway switches on the capabilities that it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from agent_utilities import AgentServer
from agent_utilities.cli.gateway_commands import skills_provider
from agent_utilities.selection.channels import META_KEY
from tests.gateway.capabilities.capable import LONG_S, gateway, listed, offer, seen, session

pytestmark = [pytest.mark.outside, pytest.mark.anyio]

SKILL = """---
name: release
description: How a release is made here.
capabilities: versioning files secret
---
# Making a release
"""


@pytest.fixture
def served(tmp_path: Path) -> AgentServer:
    folder = tmp_path / "skills" / "release"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    of = gateway(tmp_path / "state", offer(most=2, unavailable={"mail": "MAIL_KEY is not set"}))
    of.add_provider(skills_provider([folder.parent]))
    return of


async def test_in_a_session_what_it_names_is_on_from_then_on(served: AgentServer) -> None:
    async with session(served) as client:
        await client.read_resource("skill://release/SKILL.md")
        await seen(served, "versioning", "files")
        names, summary = await listed(client)
    assert summary["capabilities"]["active"] == ["versioning", "files"]
    assert {"versioning-server_git_log", "files-server_read_file"} <= set(names)


async def test_a_request_that_stands_alone_is_told_what_to_bring(served: AgentServer) -> None:
    async with Client(served, timeout=LONG_S) as client:
        result: Any = await client.read_resource_mcp("skill://release/SKILL.md")
        assert result.meta[META_KEY]["capabilities"]["value"] == "versioning,files"


async def test_what_bounds_deny_is_not_switched_on(tmp_path: Path, served: AgentServer) -> None:
    async with session(served) as client:
        _, summary = await listed(client, disabled_tags=["files"])
        params = {"agent-utilities/selection": {"disabled_tags": ["files"]}}
        await client.read_resource("skill://release/SKILL.md", meta=params)
        _, summary = await listed(client, disabled_tags=["files"])
    assert summary["capabilities"]["active"] == ["versioning"]

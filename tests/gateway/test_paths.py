"""A gateway's upstream can be named by a path before it was ever reached, unless its operator denies it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_utilities import create_gateway
from tests.server.in_process import ask, listed, web_of

pytestmark = [pytest.mark.anyio, pytest.mark.outside]

CONFIG = {
    "mcpServers": {
        "git": {"command": "agent-utilities-no-such-program", "tags": ["code"]},
        "notion": {"command": "agent-utilities-no-such-program"},
    }
}


async def test_an_upstream_that_was_never_reached_is_known_by_its_name_and_tags(tmp_path: Path) -> None:
    environ = {"MCP_GRAPH": "off", "MCP_DISABLED_TOOLSETS": "notion", "MCP_GATEWAY_FOLDER": str(tmp_path)}
    async with web_of(create_gateway(CONFIG, environ=environ)) as web:
        assert await listed(web, "/mcp/x/git") == []
        assert await listed(web, "/mcp/x/code,never/readonly") == []
        denied, never = [await ask(web, f"/mcp/x/{name}") for name in ("notion", "potion")]
        assert (denied.status_code, never.status_code) == (404, 404)
        assert denied.text.replace("notion", "potion") == never.text

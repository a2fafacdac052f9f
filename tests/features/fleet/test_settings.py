"""Settings of a fleet that are refused at the start: what is wrong with them, where from, and nothing secret."""

from __future__ import annotations

import pytest

from agent_utilities import create_mcp_server
from agent_utilities.errors import SettingsError
from agent_utilities.upstream.sealed_store import new_key

KEY = new_key()
REDIS = "redis://127.0.0.1:9/0"


@pytest.mark.parametrize(
    ("given", "told", "source"),
    [
        ({"MCP_STATE_URL": REDIS}, "no secret key to seal logins and shared state with", "MCP_SECRET_KEY"),
        ({"MCP_STATE_URL": REDIS, "MCP_SECRET_KEY": "short"}, "the secret key is no 32 bytes", "MCP_SECRET_KEY"),
        ({"MCP_STATE_URL": "http://u:secret@h", "MCP_SECRET_KEY": KEY}, "must specify one of", "MCP_STATE_URL"),
        ({"MCP_STATE_URL": "redis://u:secret@h:port/0", "MCP_SECRET_KEY": KEY}, "Port could not", "MCP_STATE_URL"),
        ({"MCP_STATE_URL": "redis://u:secret@h/0x", "MCP_SECRET_KEY": KEY}, "no number: '/0x'", "MCP_STATE_URL"),
    ],
)
def test_are_refused(given: dict[str, str], told: str, source: str) -> None:
    server = create_mcp_server("notes", environ={"MCP_GRAPH": "off", **given})
    with pytest.raises(SettingsError) as refused:
        server.features.complete(server)
    assert told in str(refused.value)
    assert source in str(refused.value)
    assert "secret@" not in str(refused.value)

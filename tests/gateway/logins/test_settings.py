"""What an operator must give for callers' own logins, and where there are none."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from agent_utilities import AgentServer
from agent_utilities.errors import SettingsError
from agent_utilities.gateway.logins.feature import Logins
from agent_utilities.seam.host import find
from tests.every import every
from tests.gateway.logins.gateways import KEY, gateway_at

COMMAND = str(Path(sys.executable).parent / "agent-utilities")


def check(gateway: AgentServer) -> None:
    for feature in gateway.features:
        feature.check()


@every(
    ("environ", "told"),
    [
        ({"MCP_SECRET_KEY": ""}, "no secret key to seal logins and shared state with"),
        ({"MCP_SECRET_KEY": "c2hvcnQ="}, "the secret key is no 32 bytes in URL-safe base64"),
        ({"MCP_AUTH_BASE_URL": ""}, "no address for the links of callers' logins"),
    ],
)
def test_what_is_missing_ends_the_launch(tmp_path: Path, environ: dict[str, str], told: str) -> None:
    (tmp_path / "tokens.json").touch(0o600)
    (tmp_path / "tokens.json").write_text('{"v": 1, "tokens": []}')
    gateway = gateway_at("https://gateway.example", "https://mail.example", tmp_path, environ)
    gateway.transport = "http"
    gateway.complete()
    with pytest.raises(SettingsError, match=told):
        check(gateway)
    logins = find(gateway, Logins)
    assert logins is not None
    assert list(logins.routes()) == []  # no page of theirs could be served
    gateway.transport = "stdio"
    check(gateway)


@pytest.mark.outside
@pytest.mark.anyio
async def test_over_stdio_the_user_is_the_caller_whose_login_is_the_gateways(tmp_path: Path) -> None:
    servers = {"mail": {"url": "http://127.0.0.1:9/mcp", "credentials": "caller"}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    environ = {"HOME": str(tmp_path), "MCP_GATEWAY_FOLDER": str(tmp_path / "kept"), "MCP_SECRET_KEY": KEY}
    log = tmp_path / "log"
    transport = StdioTransport(
        COMMAND, ["gateway", str(tmp_path / "mcp.json")], env={**environ, "MCP_GRAPH": "off"}, log_file=log
    )
    async with Client(transport) as client:
        listed = await client.list_tools_mcp()
        assert (listed.meta or {})["agent-utilities/selection"]["absent"] == ["mail"]
        assert listed.tools == []
    assert "it wants a login; run: agent-utilities gateway login mail" in log.read_text()

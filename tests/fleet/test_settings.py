"""Settings of a fleet that are refused at the start: what is wrong with them, where from, and nothing secret."""

from __future__ import annotations

import pytest

from agent_utilities import create_mcp_server
from agent_utilities.errors import SettingsError
from agent_utilities.gateway.upstreams.sealed_store import new_key
from agent_utilities.seam.host import SharedState, find
from tests.every import every

KEY = new_key()
REDIS = "redis://127.0.0.1:9/0"


@every(
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
        server.complete()
    assert told in str(refused.value)
    assert source in str(refused.value)
    assert "secret@" not in str(refused.value)


@every(
    "url",
    [
        "redis://u:pa/sSECRETss@h:6379/0",
        "redis://u:12/SECRET@h:6379/0",
        "redis://u:SECRET#x@h/0",
        "redis://u:12#SECRET@h/0",
        "redis://u:pa?SECRET@h/0",
        "redis://u:12?SECRET@h/0",
        "redis://u:12?SECRET=a@h/0?b=c",
        "redis://u:p[SECRET@h/0",
        "redis://u:S:SECRET@h:x/0",
        "redis://u:SECRET\u2100@h/0",
        "redis://u:SECRET@[::1/0",
        "redis://u:SECRET@::1:6379/0",
        "redis://u:SECRET@h:99999/0",
        "redis://u:pa/SECRET",
        "redis://12/SECRET",
        "u:SECRET@h/0",
        "redis:/u:SECRET@h/0",
        "redis//u:SECRET@h/0",
        "redis:u:SECRET@h/0",
        "https://u:SECRET@h/0",
        "SECRET://u:p@h/0",
        "redis://u:p@h/0?socket_timeout=SECRET",
        "redis://u:p@h/0?SECRET=1",
    ],
)
def test_tell_nothing_of_a_password_whose_url_can_not_be_read(url: str) -> None:
    server = create_mcp_server("notes", environ={"MCP_GRAPH": "off", "MCP_STATE_URL": url, "MCP_SECRET_KEY": KEY})
    with pytest.raises(SettingsError) as refused:
        server.complete()
    assert "SECRET@" not in str(refused.value)
    assert "SECRET" not in str(refused.value).replace("MCP_SECRET_KEY", "")
    assert "MCP_STATE_URL" in str(refused.value)


@every(
    "url",
    [
        "redis://h",
        "redis://h:6379/",
        "rediss://u:p%2F%3F%23%40%3A@h:6379/15?ssl_ca_certs=/etc/a@b.pem",
        "redis://u:p@ss@h/0",
        "redis://[::1]:6379/0",
        "redis://h?db=3&password=a@b",
        "unix:///run/a@b.sock?db=1",
        "unix://u:p@/run/redis.sock",
    ],
)
def test_of_any_form_that_redis_py_has_are_taken(url: str) -> None:
    server = create_mcp_server("notes", environ={"MCP_GRAPH": "off", "MCP_STATE_URL": url, "MCP_SECRET_KEY": KEY})
    server.complete()
    assert find(server, SharedState) is not None

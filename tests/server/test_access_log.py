"""No line of a web server's log has a code, a state, a key or a token that was sent in a URL."""

from __future__ import annotations

import logging
import socket
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from agent_utilities.server.access_log import masked
from tests.every import every
from tests.page.serving import REQUESTS, server


class TestUrl:
    @every(("url", "shown"), [
        ("/mcp", "/mcp"),
        ("/mcp?tools=a,b&q=merge&readonly", "/mcp?tools=a,b&q=merge&readonly"),
        ("/page/usage?days=7&format=csv", "/page/usage?days=7&format=csv"),
        ("/logins/callback?code=SECRET&state=SECRET", "/logins/callback?code=...&state=..."),
        ("/tools?access_token=SECRET", "/tools?access_token=..."),
        ("/tools?Access_Token=SECRET&tools=a", "/tools?Access_Token=...&tools=a"),
        ("/tools?access_token=x&access_token=SECRET", "/tools?access_token=...&access_token=..."),
        ("/tools?%61ccess%5Ftoken=SECRET", "/tools?%61ccess%5Ftoken=..."),
        ("/tools?tools=a;access_token=SECRET", "/tools?tools=..."),
        ("/tools?tools=a%26token%3DSECRET", "/tools?tools=..."),
        ("/tools?tools=a?token=SECRET", "/tools?tools=..."),
        ("/tools?SECRET", "/tools?..."), ("/tools?SECRET=", "/tools?..."),
        ("/tools?tools=a#access_token=SECRET", "/tools?tools=..."),
        ("/tools#access_token=SECRET", "/tools#..."), ("/tools%23access_token%3DSECRET", "/tools%23..."),
        ("/tools%3Faccess_token=SECRET", "/tools%3Faccess_token=..."),
        ("/logins/SECRET", "/logins/..."), ("/git/logins/SECRET?x=SECRET", "/git/logins/...?x=..."),
        ("/logins/callback2", "/logins/..."), ("/logins/callback", "/logins/callback"),
        ("https://up.example/mcp?api-key=SECRET", "https://up.example/mcp?api-key=..."),
    ])  # fmt: skip
    def test_shows_what_is_asked_for_and_nothing_else_of_the_query(self, url: str, shown: str) -> None:
        assert masked(url) == shown

    def test_that_we_ask_for_ourselves_is_masked_too(self, caplog: pytest.LogCaptureFixture) -> None:
        from agent_utilities import create_mcp_server

        create_mcp_server("notes", environ={}).http_app()
        with caplog.at_level(logging.INFO, "httpx2"):
            transport = httpx2.MockTransport(lambda _: httpx2.Response(200))
            with httpx2.Client(transport=transport) as web:
                web.get("https://up.example/mcp?token=SECRET")
        assert [("token=..." in line, "SECRET" in line) for line in caplog.messages] == [(True, False)]


@pytest.mark.outside
def test_nothing_secret_is_in_what_a_server_logs(tmp_path: Path) -> None:
    upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    upgrade += "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    with server(tmp_path, MCP_PAGE="off") as at:
        for n, (target, more) in enumerate([
            ("/logins/callback?code=SECRET&state=SECRET", ""), ("/page/login/issuer/back?code=SECRET", ""),
            ("/tools?access_token=SECRET", ""), ("/mcp?ACCESS_TOKEN=SECRET&tools=a", ""), ("/?SECRET", ""),
            ("/mcp#access_token=SECRET", ""), ("/mcp?access_token=SECRET", upgrade),
        ]):  # fmt: skip
            with socket.create_connection((urlsplit(at.url).hostname, urlsplit(at.url).port)) as web:
                head = f"GET {target} HTTP/1.1\r\nHost: {at.host}\r\nX-Number: {n}\r\n{more}"
                web.sendall(f"{head}{'' if more else 'Connection: close'}\r\n\r\n".encode())
                assert web.recv(100)
        assert httpx2.get(f"{at.url}/tools?tools=the-last").status_code == 200
    log = (tmp_path / REQUESTS).read_text() + at.process.log
    assert ("the-last" in log, "access_token=..." in log, "SECRET" in log) == (True, True, False)

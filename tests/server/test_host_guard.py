"""The guard of an application that its author serves, where no address is known; on real servers by `tests/wire`."""

from __future__ import annotations

import fastmcp
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from agent_utilities.errors import SettingsError
from agent_utilities.server.http.host_guard import accepted_on
from agent_utilities.settings import read_settings
from tests.every import every
from tests.server.servers import log_server

pytestmark = pytest.mark.anyio


async def codes(app, *hosts, origin=None, path="/health"):
    headers = {"origin": origin} if origin else {}
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app)) as web:
        return [(await web.get(f"http://{host}{path}", headers=headers)).status_code for host in hosts]


class TestAnAuthorsApplication:
    async def test_takes_loopback_names_and_no_others(self):
        assert await codes(log_server().http_app(), "localhost", "127.0.0.1:9", "testserver") == [200, 200, 421]

    async def test_takes_what_operator_and_author_name(self):
        app = log_server(environ={"MCP_ALLOWED_HOSTS": "a.example,*.lan:8001"}).http_app(allowed_hosts=["b.example"])
        assert await codes(app, "a.example", "b.example", "x.lan:8001") == [200, 200, 200]
        assert await codes(app, "x.lan", "evillan:8001", "lan:8001") == [421, 421, 421]

    async def test_takes_an_origin_with_its_own_port_alone(self):
        app = log_server(environ={"MCP_ALLOWED_ORIGINS": "https://a.example"}).http_app()
        assert await codes(app, "localhost", origin="https://a.example:443") == [200]
        assert await codes(app, "localhost", origin="https://a.example:8443") == [403]

    async def test_takes_what_fastmcps_own_settings_name(self, monkeypatch):
        monkeypatch.setattr(fastmcp.settings, "http_allowed_hosts", ["a.example"])
        assert await codes(log_server().http_app(), "a.example", "b.example") == [200, 421]

    async def test_takes_everything_where_the_author_says_so(self):
        assert await codes(log_server().http_app(host_origin_protection=False), "evil.example") == [200]

    async def test_is_guarded_within_another_application(self):
        app = Starlette(routes=[Mount("/logs", log_server().http_app())])
        assert await codes(app, "localhost", "evil.example", path="/logs/health") == [200, 421]

    async def test_a_wildcard_host_vouches_for_no_origin(self):
        app = log_server(environ={"MCP_ALLOWED_HOSTS": "*"}).http_app()
        assert await codes(app, "evil.example") == [200]
        assert await codes(app, "evil.example", origin="http://evil.example") == [403]

    def test_on_an_open_address_is_told(self):
        named = {
            "MCP_ALLOWED_HOSTS": "*.lan:8001,[::2]:80",
            "MCP_ALLOWED_ORIGINS": "https://a.example,null,http://b:81",
        }
        told = str(accepted_on("192.0.2.1", read_settings(named)))
        assert "for the hosts *.lan:8001, [::2]:80, 192.0.2.1, from browsers on https://a.example, null" in told
        assert "null, http://b:81, its own pages;" in told

    def test_guards_web_sockets_too(self):
        async def echo(socket: WebSocket) -> None:
            await socket.accept()
            await socket.close()

        app = log_server().http_app()
        app.router.routes.append(WebSocketRoute("/ws", echo))
        with TestClient(app, base_url="http://localhost") as web:
            with web.websocket_connect("ws://localhost/ws"):
                pass
            with pytest.raises(WebSocketDisconnect), web.websocket_connect("ws://evil/ws"):
                pass

    @every("value", ["http://a.example", "10.*", "a.example:70000", '["a.example"]', "b\u00fccher.example"])
    def test_a_host_that_cannot_be_read_is_refused_at_once(self, value):
        with pytest.raises(SettingsError, match=r"MCP_ALLOWED_HOSTS\); use a host such as"):
            log_server(environ={"MCP_ALLOWED_HOSTS": f"fine.example,{value}"}).http_app()

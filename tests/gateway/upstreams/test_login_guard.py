"""A login leads to no address but public ones and the server's own, whatever a server says of its login."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp.client.auth import OAuthRegistrationError
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from agent_utilities.gateway.upstreams.config import OAuthClient, UpstreamConfig
from agent_utilities.gateway.upstreams.http.authorization import Authorization
from agent_utilities.gateway.upstreams.http.http_client import OwnLoginError, bounded_client
from agent_utilities.gateway.upstreams.http.login import Login
from agent_utilities.gateway.upstreams.http.transports import HttpUpstream
from agent_utilities.gateway.upstreams.limits import Unfinished
from tests.every import every
from tests.gateway.logins.issuers import on_socket

pytestmark = [pytest.mark.anyio, pytest.mark.outside]
BACK = "http://127.0.0.1:1/back"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Saying:
    """A server that wants a login, and says of it what a test has it say; and another one, which notes who comes.

    Args:
        url, other: of both; the other one's has 127.0.0.2 for its host.
    """

    def __init__(self, url: str, other: str) -> None:
        self.url, self.other = url, other
        self.says: dict[str, Any] = {}
        self.seen: list[str] = []

    async def answer(self, request: Request) -> Response:
        """Answer as the server."""
        said = {
            "metadata": f"{self.url}/.well-known/oauth-protected-resource",
            "servers": [self.url],
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            **self.says,
        }
        match request.url.path:
            case "/mcp":
                return Response(status_code=401, headers={
                    "www-authenticate": f'Bearer resource_metadata="{said["metadata"]}"'
                })  # fmt: skip
            case "/.well-known/oauth-protected-resource":
                return JSONResponse({"resource": f"{self.url}/mcp", "authorization_servers": said["servers"]})
            case "/moved":
                return RedirectResponse(f"{self.other}/moved", 307)
            case "/register":
                return JSONResponse({**(await request.json()), "client_id": "registered"}, 201)
            case "/token":
                return JSONResponse({"access_token": "given", "token_type": "Bearer"})
        return JSONResponse({**said, "code_challenge_methods_supported": ["S256"]})

    async def note(self, request: Request) -> Response:
        """Answer as the other one."""
        self.seen.append(request.url.path)
        return JSONResponse({"resource": f"{self.url}/mcp", "authorization_servers": [self.other]})


@asynccontextmanager
async def saying() -> AsyncIterator[Saying]:
    """Serve both for a block."""
    async with AsyncExitStack() as stack:
        urls, apps = [], []
        for host in ("127.0.0.1", "127.0.0.2"):
            bound = socket.socket()
            bound.bind((host, 0))
            urls.append(f"http://{host}:{bound.getsockname()[1]}")
            app = Starlette()
            apps.append(app)
            await stack.enter_async_context(on_socket(app, bound))
        at = Saying(*urls)
        for app, answer in zip(apps, (at.answer, at.note), strict=True):
            app.router.routes.append(Route("/{path:path}", answer, methods=["GET", "POST"]))
        yield at


def resolving(monkeypatch: pytest.MonkeyPatch, *answers: str) -> None:
    """Have names of `.example` stand for addresses: the first is the answer to the first look-up, the last to all."""
    left, real = list(answers), socket.getaddrinfo

    def found(host: Any, *given: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name is not None and name.endswith(".example"):
            host = left.pop(0) if len(left) > 1 else left[0]
        return real(host, *given, **options)

    monkeypatch.setattr(socket, "getaddrinfo", found)


class TestOneAddress:
    HOSTS = (
        "127.0.0.2", "2130706434", "0x7f000002", "0177.2", "127.2", "[::ffff:127.0.0.2]", "[::ffff:7f00:2]",
        "169.254.169.254", "10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "0.0.0.0", "[::1]", "[::]",
        "[fe80::1]", "[fd00::1]", "[64:ff9b::7f00:2]",
    )  # fmt: skip

    async def test_that_is_not_public_is_not_reached_however_it_is_spelled(self) -> None:
        async with saying() as at, bounded_client(f"{at.url}/mcp") as web:
            for host in self.HOSTS:
                with pytest.raises(OwnLoginError, match="no public address"):
                    await web.get(f"http://{host}:{httpx2.URL(at.other).port}/admin")
            assert at.seen == []

    async def test_is_reached_that_is_the_servers_own_at_any_port(self, monkeypatch: pytest.MonkeyPatch) -> None:
        resolving(monkeypatch, "127.0.0.2")
        async with saying() as at:
            for own in ("http://127.0.0.2:1/mcp", "http://mcp.example:1/mcp"):
                async with bounded_client(own) as web:
                    assert (await web.get(f"{at.other}/login")).status_code == 200

    async def test_is_reached_that_the_operator_named(self) -> None:
        async with saying() as at:
            for hosts in (["127.0.0.2"], ["127.0.*"], ["*"]):
                async with bounded_client(f"{at.url}/mcp", hosts) as web:
                    assert (await web.get(f"{at.other}/login")).status_code == 200

    async def test_that_a_name_leads_to_is_judged(self, monkeypatch: pytest.MonkeyPatch) -> None:
        resolving(monkeypatch, "127.0.0.2")
        async with saying() as at:
            async with bounded_client(f"{at.url}/mcp") as web:
                with pytest.raises(OwnLoginError, match=r"evil\.example \(127\.0\.0\.2\)"):
                    await web.get(f"http://evil.example:{httpx2.URL(at.other).port}/admin")
            assert at.seen == []

    async def test_that_a_name_leads_to_at_last_is_judged(self, monkeypatch: pytest.MonkeyPatch) -> None:
        resolving(monkeypatch, "93.184.216.34", "127.0.0.2")
        async with saying() as at:
            async with bounded_client(f"{at.url}/mcp") as web:
                with pytest.raises(OwnLoginError, match=r"evil\.example \(127\.0\.0\.2\)"):
                    await web.get(f"http://evil.example:{httpx2.URL(at.other).port}/admin")
            assert at.seen == []

    async def test_of_a_servers_own_name_is_the_one_that_it_was_reached_at(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        resolving(monkeypatch, "127.0.0.1", "127.0.0.2")
        async with saying() as at:
            ports = [httpx2.URL(url).port for url in (at.url, at.other)]
            async with bounded_client(f"http://mcp.example:{ports[0]}/mcp") as web:
                await web.post(f"http://mcp.example:{ports[0]}/mcp")
                with pytest.raises(OwnLoginError, match="not its own"):
                    await web.get(f"http://mcp.example:{ports[1]}/admin")
            assert at.seen == []

    async def test_is_looked_up_by_the_proxy_that_the_operator_names(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async with saying() as at:
            monkeypatch.setenv("HTTP_PROXY", at.other)
            monkeypatch.setenv("NO_PROXY", "")
            async with bounded_client("http://mcp.example/mcp") as web:
                assert (await web.get("http://login.example/")).request.url.host == "login.example"
                with pytest.raises(OwnLoginError, match="no public address"):
                    await web.get("http://169.254.169.254/latest")


class TestWhatAServerSays:
    async def begun(self, at: Saying, client: OAuthClient | None = None) -> Authorization:
        return await Authorization.at(f"{at.url}/mcp", BACK, client or OAuthClient(), {})

    @every("says", ["metadata", "servers", "registration_endpoint"])
    async def test_leads_to_no_other_host(self, says: str) -> None:
        async with saying() as at:
            place = f"{at.other}/latest/meta-data?x=1"
            at.says[says] = [place] if says == "servers" else place
            with pytest.raises(OwnLoginError, match="no public address"):
                await self.begun(at)
            assert at.seen == []

    async def test_leads_a_code_to_no_other_host(self) -> None:
        async with saying() as at:
            at.says["token_endpoint"] = f"{at.other}/token"
            authorization = await self.begun(at)
            _, state, verifier = authorization.send()
            with pytest.raises(OwnLoginError, match="no public address"):
                await authorization.take(verifier, {"code": "x", "state": state})
            assert at.seen == []

    async def test_of_a_login_that_was_refused_is_told(self) -> None:
        async with saying() as at:
            authorization = await self.begun(at)
            for given, told in (({"error": "access_denied"}, "access_denied"), ({}, "no reason")):
                with pytest.raises(OwnLoginError, match=f"it was refused: {told}"):
                    await authorization.take("verifier", given)

    async def test_of_how_secrets_are_sent_is_heeded(self) -> None:
        client, sent_by = OAuthClient(client_id="ours", client_secret=SecretStr("x")), []
        async with saying() as at:
            for methods in (["client_secret_post"], ["client_secret_basic", "client_secret_post"]):
                at.says["token_endpoint_auth_methods_supported"] = methods
                about = (await self.begun(at, client)).context.client_info
                assert about is not None
                sent_by.append(about.token_endpoint_auth_method)
        assert sent_by == ["client_secret_post", "client_secret_basic"]

    @every("taken", [True, False, None])
    async def test_of_metadata_documents_has_one_be_the_client(self, taken: bool | None) -> None:
        ours = "https://gateway.example/client.json"
        async with saying() as at:
            at.says["client_id_metadata_document_supported"] = taken
            authorization = await self.begun(at, OAuthClient(client_metadata_url=ours))
            assert authorization.context.client_info.client_id == (ours if taken else "registered")

    async def test_redirects_to_no_other_host(self) -> None:
        async with saying() as at:
            at.says["registration_endpoint"] = f"{at.url}/moved"
            with pytest.raises(OAuthRegistrationError, match="307"):
                await self.begun(at)
            assert at.seen == []

    async def test_leads_to_its_own_host_and_to_those_that_the_operator_names(self) -> None:
        async with saying() as at:
            assert (await self.begun(at)).context.client_info.client_id == "registered"
            at.says["metadata"] = f"{at.other}/metadata"
            await self.begun(at, OAuthClient(hosts=("127.0.0.2",)))
            assert at.seen[0] == "/metadata"

    async def test_leads_the_gateways_own_login_to_no_other_host(self, tmp_path: Any) -> None:
        async with saying() as at:
            at.says["metadata"] = f"{at.other}/latest/meta-data"
            config = UpstreamConfig(name="up", source="", transport="http", url=SecretStr(f"{at.url}/mcp"))
            upstream = HttpUpstream(config, Login(config, str(tmp_path)), Unfinished())
            async with upstream._new_client() as client:
                answer = await client.post(f"{at.url}/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
            assert "no public address" in answer.text
            assert at.seen == []

"""A login at an upstream: made once, in a browser that the user waits for; used by every gateway from then on."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from fastmcp import Client
from fastmcp.client.auth import BearerAuth
from pydantic import SecretStr

from agent_utilities.cli.gateway_commands import login_at
from agent_utilities.errors import InputError
from agent_utilities.gateway.upstreams.config import GatewayConfig, OAuthClient, UpstreamConfig
from agent_utilities.gateway.upstreams.configuration.config_files import read_servers
from agent_utilities.gateway.upstreams.errors import UpstreamError
from agent_utilities.gateway.upstreams.http.login import DONE, Login, auth_of, tokens_of
from agent_utilities.gateway.upstreams.processes.process import ProcessGuard
from agent_utilities.gateway.upstreams.processes.stderr_log import StderrLog
from agent_utilities.gateway.upstreams.secrets import secrets_of
from agent_utilities.gateway.upstreams.supervision.backoff import Policy
from agent_utilities.gateway.upstreams.supervision.opening import Opener, Shared
from tests.every import every
from tests.gateway.upstreams.processes import Over
from tests.wire.processes import HttpProcess

COMMAND = Path(sys.executable).parent / "agent-utilities"


def upstream(url: str = "http://x.example/mcp", **more: object) -> UpstreamConfig:
    return UpstreamConfig.model_validate({"name": "a", "source": "", "transport": "http", "url": url} | more)


def over(config: UpstreamConfig, environ: Mapping[str, str]) -> Over:
    """Return the transport that a gateway reaches an upstream by."""
    shared = Shared(environ, ProcessGuard(), Policy(), asyncio.Semaphore())
    return Over(Opener(config, StderrLog(), shared).transport(config.transport))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


BROWSER = """
import socket, sys, time, urllib.parse, urllib.request
asked = urllib.parse.parse_qs(urllib.parse.urlsplit(sys.argv[1]).query)["redirect_uri"][0]
port = urllib.parse.urlsplit(asked).port
for _ in range(600):  # who waits for the browser listens only once that is open
    try:
        socket.create_connection(("localhost", port)).close()
        break
    except OSError:
        time.sleep(0.1)
urllib.request.urlopen(sys.argv[1]).read()
"""


def logged_in(config: UpstreamConfig, folder: Path) -> None:
    """Have it look as if a login had been made, whose tokens are gone."""
    (tokens := tokens_of(config, str(folder))).mkdir(parents=True)
    (tokens / DONE).touch()


@pytest.mark.outside  # FastMCP looks for a free port
def test_one_at_an_address_is_shown_to_no_other(tmp_path: Path) -> None:
    logged_in(upstream("http://x.example/mcp"), tmp_path)
    assert auth_of(upstream("http://x.example/mcp"), str(tmp_path)) is not None
    assert auth_of(upstream("http://evil.example/mcp"), str(tmp_path)) is None


class TestWhich:
    def test_is_none_where_the_config_has_another_credential(self, tmp_path: Path) -> None:
        assert isinstance(auth_of(upstream(auth="t0ken"), str(tmp_path)), BearerAuth)
        assert auth_of(upstream(headers={"authorization": "Basic x"}), str(tmp_path)) is None
        assert auth_of(upstream(), str(tmp_path)) is None

    def test_is_needed_where_the_config_says_oauth(self, tmp_path: Path) -> None:
        for config in (upstream(auth="oauth"), upstream(credentials="caller")):
            with pytest.raises(UpstreamError, match="refused: it wants a login; run: agent-utilities gateway login a"):
                auth_of(config, str(tmp_path))

    def test_is_by_the_client_that_is_registered_there(self, tmp_path: Path) -> None:
        client = OAuthClient(
            client_id="me", client_secret=SecretStr("cl1ent-s3cret"), scopes=("r",), callback_port=48123
        )
        config = upstream(auth="oauth", oauth=client)
        login = Login(config, str(tmp_path))
        assert (login._client_id, login._client_secret, login._scopes) == ("me", "cl1ent-s3cret", ["r"])
        assert login._callback_port == 48123
        assert "cl1ent-s3cret" in secrets_of(config)

    @pytest.mark.outside
    def test_is_by_the_document_that_the_operator_publishes(self, tmp_path: Path) -> None:
        told = {
            "type": "http",
            "url": "https://a.example/mcp",
            "oauth": {"clientMetadataUrl": "https://b.example/c.json"},
        }
        config = read_servers({"mcpServers": {"a": told}}, {}).upstreams[0]
        assert Login(config, str(tmp_path))._client_metadata_url == "https://b.example/c.json"

    def test_is_by_no_document_elsewhere_than_at_an_address(self) -> None:
        for wrong in ("http://b.example/c.json", "https://b.example", "https://b.example/", "c.json"):
            told = {"type": "http", "url": "https://a.example/mcp", "oauth": {"clientMetadataUrl": wrong}}
            read = read_servers({"mcpServers": {"a": told}}, {})
            assert (read.upstreams, len(read.problems)) == ((), 1)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A real server that wants a login."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    process = HttpProcess([sys.executable, "-m", "tests.gateway.upstreams.oauth_server", port], os.environ)
    try:
        process.wait()
        yield f"{process.url}/mcp"
    finally:
        process.stop()


@pytest.mark.anyio
@pytest.mark.outside
async def test_a_login_by_the_command_serves_gateways_from_then_on(tmp_path: Path, url: str) -> None:
    environ = {**os.environ, "HOME": str(tmp_path), "MCP_GATEWAY_FOLDER": str(tmp_path / "kept")}
    config = upstream(url, auth="oauth")
    with pytest.raises(Exception, match="it wants a login; run: agent-utilities gateway login a"):
        async with Client(over(config, environ)):
            pass
    browser = tmp_path / "browser.py"
    browser.write_text(BROWSER)
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"a": {"url": url, "auth": "oauth"}}}))
    done = await asyncio.create_subprocess_exec(
        COMMAND, "gateway", "login", "a", str(path),
        env={**environ, "BROWSER": f"{sys.executable} {browser} %s &"},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, told = await done.communicate()
    assert (out.decode(), done.returncode) == ("logged in at a\n", 0), told.decode()
    tokens = tokens_of(config, environ["MCP_GATEWAY_FOLDER"])
    assert stat.S_IMODE(tokens.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in tokens.rglob("*.json")} == {0o600}
    async with Client(over(config, environ)) as client:
        assert (await client.call_tool("secret")).data == "told"
    for of_user in (upstream(url), upstream(url, credentials="caller")):
        async with Client(over(of_user, environ)) as client:
            assert [tool.name for tool in await client.list_tools()] == ["secret"]


@pytest.mark.anyio
@pytest.mark.outside
async def test_nobody_is_asked_who_does_not_wait(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webbrowser.open", lambda _: pytest.fail("a browser was opened"))
    config = upstream(url, auth="oauth")
    environ = {"MCP_GATEWAY_FOLDER": str(tmp_path)}
    logged_in(config, tmp_path)
    with pytest.raises(BaseException, match="it wants a login") as caught:
        async with Client(over(config, environ)):
            pass
    assert "gateway login a" in str(caught.value)


@every(
    ("name", "told"),
    [
        ("nosion", "did you mean 'notion'? there are: a, notion"),
        ("local", "a stdio server has no login: 'local'"),
        ("elsewhere", "there are: a, notion"),
    ],
)
def test_a_name_that_nobody_logs_in_at_is_told_with_the_others(name: str, told: str) -> None:
    local = upstream().model_copy(update={"name": "local", "transport": "stdio"})
    with pytest.raises(InputError, match=re.escape(told)):
        login_at(name, GatewayConfig(upstreams=(upstream(), upstream(name="notion"), local)))

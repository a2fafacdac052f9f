"""Where the page is said to be: to who reads stderr, and to its user by a file that leads there while it is served."""

from __future__ import annotations

import html
import re
import stat
from pathlib import Path

import pytest

from agent_utilities import AgentServer
from agent_utilities.page.feature import keep_link, link_file
from tests.access.team import Team
from tests.every import every
from tests.page.looking import key_of
from tests.page.test_door import TEAM, notes
from tests.server.in_process import web_of

pytestmark = pytest.mark.anyio


def bound(server: AgentServer, address: str, port: int | None = 8123) -> AgentServer:
    """Return a server as it is when it has bound an address itself."""
    server.address, server.greeting.is_ours = (address, port), True
    return server


async def said(server: AgentServer, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what is said of the page while it is served."""
    async with web_of(server):
        await server.greeting.say()
    (line,) = re.findall(r"^page: .*$", capsys.readouterr().err, re.MULTILINE)
    return line


class TestOnALoopbackAddress:
    @every(
        ("address", "port", "where"),
        [
            ("127.0.0.1", 8123, "http://127.0.0.1:8123/"),
            ("::1", 8123, "http://[::1]:8123/"),
            ("localhost", 80, "http://localhost:80/"),
            ("127.0.0.1", None, "/"),
        ],
    )
    async def test_is_said_with_its_key(
        self, address: str, port: int | None, where: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        server = bound(notes(), address, port)
        assert await said(server, capsys) == f"page: {where}?key={key_of(server)}"

    async def test_is_in_a_file_of_its_users_alone_while_it_is_served(self, capsys: pytest.CaptureFixture[str]) -> None:
        server = bound(notes(), "127.0.0.1")
        file = link_file("8123")
        assert not file.exists()
        async with web_of(server):
            await server.greeting.say()
            text = file.read_text()
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        link = f"http://127.0.0.1:8123/?key={key_of(server)}"
        assert f'<a href="{html.escape(link)}">' in text
        assert f'content="0; url={html.escape(link)}"' in text
        assert not file.exists()

    async def test_is_said_all_the_same_where_no_file_can_be_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
        server = bound(notes(), "127.0.0.1")
        assert (await said(server, capsys)).endswith(key_of(server))


class TestWhereOthersReachIt:
    async def test_is_said_for_whom_where_people_log_in_and_has_no_key(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        team = Team(tmp_path, TEAM)
        team.token("ann")
        server = bound(team.server(), "127.0.0.1")
        told = await said(server, capsys)
        assert told == "page: http://127.0.0.1:8123/ for whom a rule of access gives the right page.read"
        assert not link_file("8123").exists()

    @every("address", ["0.0.0.0", None])
    async def test_is_not_said(self, address: str | None, capsys: pytest.CaptureFixture[str]) -> None:
        server = notes()
        server.address, server.greeting.is_ours = address and (address, 8123), True
        async with web_of(server) as web:
            await server.greeting.say()
            assert (await web.get("/health")).status_code == 200
        assert "page: " not in capsys.readouterr().err


def test_a_link_leads_to_an_address_and_to_nothing_else() -> None:
    file = keep_link("9", 'http://127.0.0.1/?key="><script>')
    assert "<script>" not in file.read_text()

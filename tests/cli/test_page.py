"""`agent-utilities page` opens a running server's page in the user's browser."""

from __future__ import annotations

import html
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.every import every
from tests.page.serving import server

pytestmark = pytest.mark.outside
KEYED = "http://127.0.0.1:8001/?key=abc"
COMMAND = Path(sys.executable).with_name("agent-utilities")


def opened(folder: Path, url: str, typed: str = "") -> tuple[int, str, str]:
    """Return the exit code, what was told on stderr, and which address a browser was given."""
    browser, given = folder / "browser", folder / "given"
    browser.write_text(f'#!/bin/sh\nprintf %s "$*" > {given}\n')
    browser.chmod(0o755)
    environ = {**os.environ, "BROWSER": f"{browser} %s", "XDG_STATE_HOME": str(folder / "kept" / "state")}
    command = [COMMAND, "page", url]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, input=typed)
    return done.returncode, done.stderr, given.read_text() if given.exists() else ""


def led_to(address: str) -> str:
    """Return where a file leads that its user alone can read."""
    file = Path(urlsplit(address).path)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent)] == [0o600, 0o700]
    found = re.search('http-equiv="refresh" content="0; url=([^"]+)"', file.read_text())
    assert found is not None
    return html.unescape(found[1])


@every(
    ("url", "address"),
    [
        ("http://127.0.0.1:8001/mcp", "http://127.0.0.1:8001/"),
        ("https://agent.example/git/mcp?tools=x", "https://agent.example/git/?tools=x"),
    ],
)
def test_opens_the_page_of_whichever_url_of_a_server(tmp_path: Path, url: str, address: str) -> None:
    assert opened(tmp_path, url) == (0, "", address)


@every(("argument", "typed"), [(KEYED, ""), ("-", f"{KEYED}\n")])
def test_shows_a_key_in_no_arguments_of_a_browser(tmp_path: Path, argument: str, typed: str) -> None:
    code, told, given = opened(tmp_path, argument, typed)
    assert (code, told, "abc" in given, urlsplit(given).scheme) == (0, "", False, "file")
    assert led_to(given) == KEYED


@every("host", ["127.0.0.1", "localhost"])
def test_needs_no_key_of_a_server_of_ones_own(tmp_path: Path, host: str) -> None:
    with server(tmp_path) as at:
        link = at.link
        code, told, given = opened(tmp_path, f"http://{host}:{urlsplit(at.url).port}")
        assert (code, told, led_to(given)) == (0, "", link)
    assert not Path(urlsplit(given).path).exists()


def test_serves_where_no_file_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder")
    with server(tmp_path, XDG_STATE_HOME=str(tmp_path / "state")) as at:
        assert httpx2.get(at.link).status_code == 303


def test_is_not_led_elsewhere_by_the_file_of_a_port(tmp_path: Path) -> None:
    with server(tmp_path) as at:
        elsewhere = f"http://agent.example:{urlsplit(at.url).port}"
        assert opened(tmp_path, elsewhere) == (0, "", f"{elsewhere}/")


def test_refuses_what_is_no_url_of_a_server(tmp_path: Path) -> None:
    code, told, given = opened(tmp_path, "127.0.0.1:8001")
    assert (code, given, told.count("\n")) == (2, "", 1)
    assert "not an HTTP URL" in told

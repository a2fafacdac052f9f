"""`agent-utilities page` opens a running server's page in the user's browser."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.outside
COMMAND = Path(sys.executable).with_name("agent-utilities")


def opened(folder: Path, url: str) -> tuple[int, str, str]:
    """Return the exit code, what was told on stderr, and which address a browser was given."""
    browser, given = folder / "browser", folder / "given"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {given}\n')
    browser.chmod(0o755)
    environ = {**os.environ, "BROWSER": f"{browser} %s"}
    done = subprocess.run([COMMAND, "page", url], env=environ, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr, given.read_text() if given.exists() else ""


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:8001/?key=abc", "http://127.0.0.1:8001/?key=abc"),
        ("http://127.0.0.1:8001/mcp", "http://127.0.0.1:8001/"),
        ("https://agent.example/git/mcp?tools=x", "https://agent.example/git/?tools=x"),
    ],
)
def test_opens_the_page_of_whichever_url_of_a_server(tmp_path: Path, url: str, address: str) -> None:
    assert opened(tmp_path, url) == (0, "", address)


def test_refuses_what_is_no_url_of_a_server(tmp_path: Path) -> None:
    code, told, given = opened(tmp_path, "127.0.0.1:8001")
    assert (code, given, told.count("\n")) == (2, "", 1)
    assert "not an HTTP URL" in told

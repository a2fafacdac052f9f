"""The demo, as its reader's shell runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).parent / "agent-utilities"


@pytest.mark.timeout(180)
def test_shows_four_tables_and_exits_0():
    done = subprocess.run([COMMAND, "demo"], capture_output=True, text=True, check=False, timeout=170)
    assert done.returncode == 0
    told = done.stderr.splitlines()
    assert [line.split("] ")[0] for line in told] == [f"[{n}/9" for n in range(1, 10)]
    assert told[0] == "[1/9] starting logs-agent over stdio: everything it has"
    for sentence in (
        "Four channels",
        "find_slow_requests",
        "no_match",
        "Unknown tool: 'delete_log'",
        "Unknown tool: 'no_such_tool'",
        "2026-07-28",
        "2025-11-25",
        "Everything that was started has been stopped.",
    ):
        assert sentence in done.stdout


def test_without_an_agent_it_says_what_would_do(tmp_path):
    program = (
        "import sys; sys.executable = '/nonexistent/python'; sys.argv = ['agent-utilities', 'demo'];"
        "from agent_utilities.cli.app import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: logs-agent-mcp is not installed here; install")

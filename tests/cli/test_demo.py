"""The demo, as its reader's shell runs it."""

from __future__ import annotations

import os
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


@pytest.mark.timeout(240)
def test_of_a_gateway_shows_that_a_killed_server_takes_nothing_along():
    done = subprocess.run(
        [COMMAND, "demo", "gateway"],
        capture_output=True,
        text=True,
        check=False,
        timeout=230,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split("│")[1:-1] for line in done.stdout.splitlines() if line.startswith("│")]
    seen = [
        (row[0].split(":")[0].split(",")[0].strip(), row[1].strip(), "answers" in row[3], "answers" in row[4])
        for row in rows
        if row[0].strip()
    ]
    assert seen[0] == ("the first start ever", "0", False, False)
    assert seen[1] == ("all are there", "34", True, True)
    assert seen[2] == ("'logs' is killed", "34", True, False)
    assert (seen[3][0].partition(" ")[2], *seen[3][1:]) == ("s later", "34", True, True)
    assert seen[4] == ("started again", "34", True, True)
    assert "upstream 'logs' died: it was ended by SIGKILL" in done.stdout
    assert "0 of 3 servers running" in done.stdout


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

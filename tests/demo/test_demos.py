"""The demos, as their reader's shell runs them, but for a process of their own: they start some twenty."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from demo.__main__ import DEMOS, main
from tests.cli.printed import table_rows
from tests.command_line import Done, run_command

ROOT = Path(__file__).parents[2]


@pytest.fixture
def demo(capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Run a demo, on a terminal that is wide enough for its tables."""
    return lambda *what: run_command(main, ["demo", *what], {**os.environ, "COLUMNS": "220"}, capfd)


@pytest.mark.timeout(180)
def test_shows_four_tables_and_exits_0(demo):
    done = demo()
    assert done.returncode == 0
    told = done.stderr.splitlines()
    assert [line.split("] ")[0] for line in told] == [f"[{n}/7" for n in range(1, 8)]
    assert told[0] == "[1/7] starting logs-agent over HTTP: everything it has"
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
def test_of_a_gateway_shows_that_a_killed_server_takes_nothing_along(demo):
    done = demo("gateway")
    assert done.returncode == 0, done.stderr
    rows = table_rows(done.stdout)
    seen = [
        (row[0].split(":")[0].split(",")[0].strip(), row[1].strip(), "answers" in row[3], "answers" in row[4])
        for row in rows
        if row[0].strip()
    ]
    assert seen[0] == ("the first start ever", "35", True, True)
    # Its own call starts it again and waits for it, or was under way when it died.
    assert seen[1][:3] == ("'logs' is killed", "35", True)
    assert (seen[2][0].partition(" ")[2], *seen[2][1:]) == ("s later", "35", True, True)
    assert seen[3] == ("started again", "35", True, True)
    assert "0 of 3 servers running" in done.stdout


@pytest.mark.outside
@pytest.mark.timeout(180)
def test_of_tool_search_shows_what_is_found_called_and_evicted_in_both_protocols(demo):
    done = demo("tool-search")
    assert done.returncode == 0, done.stderr
    off, on, *steps = table_rows(done.stdout)
    assert (off[0], off[2], on[0], on[1], on[2]) == ("off", "60", "on", "tool_search, call_tool", "2")
    assert int(on[3]) < int(off[3]) / 10
    connects, bills, invoice, ships, ticket, *alone = steps
    assert [row[2] for row in (connects, bills, invoice, ships, ticket)] == ["2", "4", "4", "5", "5"]
    assert [row[4] for row in (connects, bills, invoice, ships, ticket)] == ["0", "1", "1", "2", "3"]
    assert bills[1].startswith("loads ")
    assert "create_invoice" in bills[1]
    assert bills[1].endswith("; 58 deferred")
    assert "; out: " not in bills[1]
    assert "; out: " in ships[1]
    assert invoice[1] == "invoice A-17 made: Acme, amount 120 EUR"
    assert ticket[1] == "ticket A-17 deleted"
    finds, unlisted, brings = alone
    assert finds[1].startswith("finds ")
    assert (finds[2], unlisted[1:3], brings[2]) == ("2", ["invoice A-17 made: Acme, amount 120 EUR", "2"], "4")
    assert brings[1].startswith("tool_search, call_tool, ")
    assert "create_invoice" in brings[1]
    assert re.search(
        r"^GET /context: 0 of 60 attached, 2 of 3 active; MCP active: 2/3 \(.*create_invoice.*\)$", done.stdout, re.M
    )
    assert done.stdout.endswith("Everything that was started has been stopped.\n")


def test_without_an_agent_it_says_what_would_do():
    program = "import sys; sys.executable = '/nonexistent/python'; sys.argv = ['']; import demo.__main__ as d; d.main()"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "error: logs-agent-mcp is not in /nonexistent; run python3 tasks.py demo, which installs it\n"
    )


def test_of_what_there_is_none_it_names_those_that_there_are(demo):
    done = demo("gatway")
    assert done.returncode == 2
    assert all(repr(name) in done.stderr for name in ("gatway", "server", "gateway", "tool-search", "capabilities"))


def test_every_one_that_a_page_names_is_there():
    text = "".join(page.read_text(encoding="utf-8") for page in ROOT.glob("docs/**/*.md"))
    assert set(re.findall(r"tasks\.py demo ([\w-]+)", text)) == DEMOS.keys() - {"server"}


@pytest.mark.outside
@pytest.mark.timeout(180)
def test_of_capabilities_shows_one_that_comes_on_and_one_that_gives_way(demo):
    done = demo("capabilities")
    assert done.returncode == 0, done.stderr
    greets, bills, meets, calls, ships, bare, brings = table_rows(done.stdout)
    assert greets[2:5] == ["nothing", "", "1"]
    assert bills[2:5] == ["billing comes on", "billing", "8"]
    assert meets[2:5] == ["calendar comes on", "billing, calendar", "14"]
    assert calls[3:5] == ["calendar, billing", "14"]
    assert ships[2:5] == ["shipping comes on, calendar gives way", "billing, shipping", "14"]
    assert bare[1:3] == ["", "1"]
    assert brings[:3] == ["x-mcp-capabilities: billing,shipping", "billing, shipping", "14"]

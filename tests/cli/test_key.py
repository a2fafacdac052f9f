"""`agent-utilities key`, as a person runs it."""

from __future__ import annotations

import pytest

from agent_utilities.cli.app import main
from agent_utilities.gateway.upstreams.sealed_store import read_key
from tests.command_line import run_command


def test_a_new_one_is_alone_on_stdout_and_is_taken(capfd: pytest.CaptureFixture[str]) -> None:
    done = run_command(main, ["agent-utilities", "key", "new"], {"PATH": ""}, capfd)
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (0, "", 1)
    assert len(read_key(done.stdout, "")) == 32

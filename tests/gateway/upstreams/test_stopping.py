"""A gateway over stdio that is told to stop, or whose host is gone, while its input stays open."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.every import every
from tests.gateway.upstreams.gateway_process import GATEWAY, environ
from tests.gateway.upstreams.processes import PATIENCE_S, wait_until_gone
from tests.gateway.upstreams.supervised import FAULTY
from tests.wire.wires import StdioCaller, jsonrpc

pytestmark = [pytest.mark.outside, pytest.mark.timeout(120)]

HOST = "import subprocess, sys; child = subprocess.Popen(sys.argv[1:]); print(child.pid, file=sys.stderr); child.wait()"
"""Starts a command on its own standard streams, and waits."""

HEEDING = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
"""Runs a command that heeds Ctrl-C."""


HANGING = """
import asyncio, contextlib, sys
from agent_utilities import create_mcp_server

@contextlib.asynccontextmanager
async def lifespan(server):
    print("starting", file=sys.stderr, flush=True)
    await asyncio.Event().wait()
    yield

create_mcp_server("hanging", lifespan=lifespan).cli()
"""
"""A server whose start never ends."""


def started(folder: Path, *before: str) -> subprocess.Popen[bytes]:
    """Start a gateway in front of one server, by another command if there is one."""
    entry = {"command": sys.executable, "args": ["-I", "-S", str(FAULTY)]}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"one": entry}}))
    pipe = subprocess.PIPE
    command = [*before, *GATEWAY, str(folder / "mcp.json")]
    # Ctrl-C is ignored by what is started in the background, as tests may be.
    return subprocess.Popen(
        [sys.executable, "-c", HEEDING, *command], env=environ(folder), stdin=pipe, stdout=pipe, stderr=pipe
    )


def upstream_of(caller: StdioCaller) -> int:
    """Return the process id of the server behind a gateway, once that is called."""
    while "one_pid" not in {tool["name"] for tool in caller.ask("tools/list").result["tools"]}:
        pass
    return int(json.loads(caller.ask("tools/call", {"name": "one_pid"}).result["content"][0]["text"])["pid"])


@every(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_by_a_signal_in_the_middle_of_a_call_ends_it_and_its_server(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with started(tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        caller = StdioCaller(process.stdout, process.stdin)
        upstream = upstream_of(caller)
        request = jsonrpc("tools/call", {"name": "one_sleep", "arguments": {"seconds": 60}})
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        process.send_signal(number)
        try:
            assert process.wait(PATIENCE_S) == code
        finally:
            process.kill()
        wait_until_gone(upstream)


def test_by_the_end_of_its_host_alone_ends_it_and_its_server(tmp_path: Path) -> None:
    with started(tmp_path, sys.executable, "-c", HOST) as host:
        assert host.stdin is not None
        assert host.stdout is not None
        assert host.stderr is not None
        gateway = int(host.stderr.readline())
        upstream = upstream_of(StdioCaller(host.stdout, host.stdin))
        host.kill()
        try:
            wait_until_gone(gateway)
        finally:
            if Path(f"/proc/{gateway}").exists():
                os.kill(gateway, signal.SIGKILL)
        wait_until_gone(upstream)


def test_a_second_signal_at_the_latest_ends_a_start_that_hangs(tmp_path: Path) -> None:
    script = tmp_path / "hanging.py"
    script.write_text(HANGING)
    command = [sys.executable, str(script), "-t", "stdio"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environ(tmp_path), stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stderr is not None
        while "starting" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()

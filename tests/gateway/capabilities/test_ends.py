"""A gateway that ends, however it ends, leaves no server of a capability behind."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.gateway.capabilities.capable import SERVER
from tests.gateway.capabilities.taps import faulty, tiny, write_bundle
from tests.gateway.upstreams.gateway_process import gateway
from tests.gateway.upstreams.processes import FAULTY_SERVER, wait_until_gone

pytestmark = [pytest.mark.outside, pytest.mark.timeout(120)]


def servers_of(pid: int) -> dict[int, str]:
    """Return the servers that are children of a process, by process id."""
    found = {}
    for child in psutil.Process(pid).children(recursive=True):
        try:
            line = child.cmdline()
        except psutil.Error:  # it has ended meanwhile
            continue
        if {str(SERVER), str(FAULTY_SERVER)} & set(line):
            found[child.pid] = line[-1]
    return found


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)])
def test_no_server_outlives_its_gateway(tmp_path: Path, how: signal.Signals) -> None:
    write_bundle(tmp_path / "tap", "clock", tiny("clock-server", "now"))
    write_bundle(tmp_path / "tap", "files", tiny("files-server", "read_file"))
    write_bundle(tmp_path / "tap", "stubborn", faulty("stubborn-server", "lingers"))
    running: dict[int, str] = {}
    with (
        suppress(ConnectionError),
        gateway({"mcpServers": {}}, tmp_path, "--capabilities", str(tmp_path / "tap")) as it,
    ):
        brought = "?capabilities=clock,files,stubborn"
        it.until(
            lambda it: {tool.partition("-server_")[0] for tool in it.tools(brought)} >= {"clock", "files", "stubborn"},
            "the tools of three capabilities",
        )
        running |= servers_of(it.process.process.pid)
        os.kill(it.process.process.pid, how)
        it.process.process.wait()
    assert len(running) == 3
    for pid in running:
        wait_until_gone(pid)

"""What is told of a record, and where else than to a file it may go."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_utilities import AgentServer
from agent_utilities.access.record.feature import Audit
from agent_utilities.errors import SettingsError
from agent_utilities.seam.host import CallRecord, find
from tests.access.record.records import of_file
from tests.access.record.test_record import call, called, lines, server, write_text
from tests.every import every
from tests.parts import part
from tests.server.in_process import web_of
from tests.server.spans import log_exporter

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


class TestOpenTelemetry:
    async def test_takes_the_lines_as_a_file_would_have_them(self, path: Path) -> None:
        exported = log_exporter()
        exported.clear()
        assert await called(server(path, environ={"MCP_AUDIT_FILE": "otel"}), "git_log") == "log é"
        bodies = [str(each.log_record.body) for each in exported.get_finished_logs()]
        write_text(path, "".join(f"{body}\n" for body in bodies))
        assert [line["event"] for line in lines(path)] == ["opened", "call", "result", "closed"]
        assert of_file(path).tampering == []

    def test_is_refused_where_each_line_must_be_written(self, path: Path) -> None:
        mcp = server(path, "required", environ={"MCP_AUDIT_FILE": "otel"})
        mcp.complete()
        with pytest.raises(SettingsError, match="required beside OpenTelemetry"):
            part(mcp, Audit).check()

    @pytest.mark.outside
    def test_is_refused_where_nobody_takes_what_it_is_given(self) -> None:
        program = "from agent_utilities import create_mcp_server; create_mcp_server('x').cli([])"
        environ = {**os.environ, "MCP_AUDIT_FILE": "otel", "MCP_CONFIG_FILE": "none"}
        command = [sys.executable, "-c", program]
        done = subprocess.run(
            command, env=environ, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        assert done.returncode == 2
        assert "OpenTelemetry logs are not set up: 'otel' (from audit_file)" in done.stderr


class TestTold:
    async def test_at_the_start(self, path: Path) -> None:
        told = {mode: await start_lines(server(path, mode)) for mode in ("required", "best effort")}
        assert told["required"] == [f"calls are recorded in {path}; one that can't be is refused"]
        assert told["best effort"][0].endswith("is made, and its lines counted as lost")

    async def test_in_metrics_and_health(self, path: Path) -> None:
        async with web_of(server(path, "required")) as web:
            await call(web, "git_log", {})
            ready, metrics = (await web.get("/ready")).json(), (await web.get("/metrics")).text
        assert ready["audit"]["state"] == "writing"
        assert ready["audit"]["n_lost"] == 0
        assert "mcp_audit_lines_lost 0.0" in metrics
        assert "mcp_audit_lines_written" in metrics

    @every("made", [Path.mkdir, lambda path: path.symlink_to("/dev/null")])
    def test_where_the_file_can_be_none(self, tmp_path: Path, made: Any) -> None:
        path = tmp_path / "audit.jsonl"
        made(path)
        mcp = server(path)
        mcp.complete()
        with pytest.raises(SettingsError, match="no plain file"):
            part(mcp, Audit).check()

    async def test_nothing_is_kept_where_no_file_is_named(self, tmp_path: Path) -> None:
        mcp = server(Path(""), environ={"MCP_AUDIT_FILE": ""})
        assert await called(mcp, "git_log") == "log é"
        assert find(mcp, CallRecord) is None
        assert "audit" not in mcp.health()


async def start_lines(mcp: AgentServer) -> list[str]:
    mcp.complete()
    return list(part(mcp, Audit).start_lines())

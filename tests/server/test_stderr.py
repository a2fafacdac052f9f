"""A server over stdio whose stderr nobody reads, or can be written to: hosts close it, or let its reader go."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.every import every

pytestmark = pytest.mark.outside

SERVER = """
from agent_utilities import create_mcp_server
mcp = create_mcp_server("quiet")
mcp.tool(lambda: "", name="kite")
mcp.{how}()
"""
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "host", "version": "1"},
}


@contextmanager
def stderr_of(kind: str) -> Iterator[int | None]:
    """Yield what a process gets as its stderr; None where it is to close it itself."""
    if kind == "closed":
        yield None
        return
    if kind == "without a reader":
        reads, stderr = os.pipe()
        os.close(reads)
    else:
        stderr = os.open("/dev/full", os.O_WRONLY)
    try:
        yield stderr
    finally:
        os.close(stderr)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither the shell nor the device")
@every(("kind", "how"), [(kind, how) for kind in ("closed", "without a reader", "full") for how in ("cli", "run")])
def test_it_serves_and_says_nothing_else_on_stdout(kind: str, how: str, tmp_path: Path) -> None:
    (file := tmp_path / f"{how}.py").write_text(SERVER.format(how=how))
    command = [sys.executable, str(file)]
    if kind == "closed":
        command = ["sh", "-c", 'exec "$@" 2>&-', "sh", *command]
    environ = {**os.environ, "MCP_GRAPH": "off", "MCP_RANKER": "off", "MCP_USAGE": "off"}
    messages: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    with (
        stderr_of(kind) as stderr,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=environ, text=True
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        answers = []
        for message in messages:
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
            if "id" in message:
                answers.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        assert [answer["id"] for answer in answers] == [1, 2]
        assert [tool["name"] for tool in answers[1]["result"]["tools"]] == ["kite"]
        assert process.stdout.read() == ""

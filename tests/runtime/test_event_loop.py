"""The event loop that everything runs on."""

from __future__ import annotations

import asyncio
import sys
from contextlib import closing
from importlib import util
from pathlib import Path

import pytest

from agent_utilities.runtime import waiting
from agent_utilities.runtime.waiting import run_async
from tests.every import every
from tests.wire.http_raw import RawHttp
from tests.wire.processes import HttpProcess, Launch
from tests.wire.wires import Caller, ModernCaller, SseCaller, stdio_caller

SERVER = """
import asyncio, sys
from agent_utilities import create_mcp_server
mcp = create_mcp_server("looped")
@mcp.tool
async def loop() -> str:
    return type(asyncio.get_running_loop()).__module__
way, *options = sys.argv[1:]
if way == "cli":
    mcp.cli(options)
else:
    mcp.run(transport=options[1], **({} if options[1] == "stdio" else {"host": "127.0.0.1", "port": 0}))
"""


async def loop_module(prefix: str) -> str:
    return prefix + type(asyncio.get_running_loop()).__module__


def loop_of(caller: Caller) -> str:
    return caller.ask("tools/call", {"name": "loop", "arguments": {}}).result["content"][0]["text"]


class TestRun:
    def test_it_is_uvloop_where_that_is_installed(self):
        pytest.importorskip("uvloop")
        assert run_async(loop_module, "on ") == "on uvloop"

    def test_it_is_pythons_where_uvloop_is_not_installed(self, monkeypatch):
        monkeypatch.setattr(waiting, "find_spec", lambda name: None if name == "uvloop" else util.find_spec(name))
        assert run_async(loop_module, "on ") == "on asyncio.unix_events"


@pytest.mark.outside
@every("way", ["cli", "run"])
class TestServers:
    @pytest.fixture
    def script(self, tmp_path: Path) -> Path:
        pytest.importorskip("uvloop")
        path = tmp_path / "looped.py"
        path.write_text(SERVER)
        return path

    @every(("transport", "caller"), [("http", ModernCaller), ("sse", SseCaller)])
    def test_one_over_http_runs_on_it(self, way, transport, caller, script):
        options = ["-p", "0", "--log-level", "info"] if way == "cli" else []
        process = HttpProcess([sys.executable, str(script), way, "-t", transport, *options], Launch().environ)
        try:
            process.wait()
            with closing(RawHttp(process.url)) as http:
                called = caller(http, "", ())
                assert loop_of(called) == "uvloop"
                if transport == "sse":
                    called.close()
        finally:
            process.stop()

    def test_one_over_stdio_runs_on_it(self, way, script):
        with stdio_caller(Launch(script=str(script), options=(way, "-t", "stdio"))) as caller:
            assert loop_of(caller) == "uvloop"

"""A server that a signal ends while requests wait: who waits is answered first, and nothing waits for a tool."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.every import every
from tests.gateway.upstreams.gateway_process import gateway
from tests.gateway.upstreams.processes import PATIENCE_S
from tests.gateway.upstreams.supervised import FAULTY
from tests.wire.http_raw import RawHttp
from tests.wire.processes import HttpProcess, Launch, served
from tests.wire.wires import HTTP_WIRES, Access, Answer, StdioCaller, WireName, modern_request

pytestmark = [pytest.mark.outside, pytest.mark.timeout(120)]

STOPPING = {"code": -32000, "data": {"reason": "stopping"}}
"""What an error that a stopping server answers with is, beside its message."""


def told_why(answer: Answer) -> bool:
    """Whether a request was answered with the error of a server that is stopping, and in plain words."""
    error = answer.message["error"]
    return error.items() >= STOPPING.items() and error["message"].startswith("the server is stopping")


@contextmanager
def calling(
    process: HttpProcess, calls: list[tuple[WireName, str]], came_in: str = "CALLED", **arguments: Any
) -> Iterator[list[Callable[[], Answer]]]:
    """Call tools, each on a connection of its own; give what returns the answers, once all calls have come in.

    Args:
        process: the server.
        calls: wires and names of tools.
        came_in: what the server logs of each call.
        arguments: of each call.
    """

    def ask(wire: WireName, tool: str) -> Answer:
        with closing(Access(process.url)) as access, access.calling(wire) as caller:
            return caller.ask("tools/call", {"name": tool, "arguments": arguments})

    with ThreadPoolExecutor(len(calls)) as threads:
        asked = [threads.submit(ask, *call) for call in calls]
        process.wait_for(re.compile(rf"(?s)({came_in}.*){{{len(calls)}}}"))
        yield [future.result for future in asked]


def ended(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(PATIENCE_S)
    finally:
        process.kill()


def test_answers_every_call_on_every_wire_and_logs_no_traceback() -> None:
    tools = ("wait", "block", "ignore")
    calls = [(wire, tool) for wire in HTTP_WIRES for tool in tools] + [(wire, "finish") for wire in HTTP_WIRES]
    with served(Launch(script="stopping_server.py")) as server, calling(server, calls) as answers:
        with ExitStack() as streams:
            request, headers = modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            listening = RawHttp(server.url).stream("/mcp", headers, request)
            streams.callback(listening.close)
            assert b"acknowledged" in listening.event()
            server.process.send_signal(signal.SIGTERM)
            answered = [answer() for answer in answers]
            assert all(told_why(answer) for answer in answered[: -len(HTTP_WIRES)])
            assert all("finished" in json.dumps(answer.result) for answer in answered[-len(HTTP_WIRES) :])
            assert '"result"' in listening.event().decode()
        assert ended(server.process) == 0
        assert "Traceback" not in server.log
        assert "ERROR" not in server.log  # of the web server, for half a response


DRAINING = re.compile("stopping in")


def ready(http: RawHttp) -> tuple[int, str]:
    """Return what `/ready` answers with, and as what."""
    reply = http.get("/ready")
    return reply.status, reply.json["status"]


def test_that_drains_serves_on_every_wire_and_is_not_ready_until_a_second_signal() -> None:
    launch = Launch(script="stopping_server.py", options=("--drain", "600"))
    calls: list[tuple[WireName, str]] = [(wire, "finish") for wire in HTTP_WIRES]
    with served(launch) as server, closing(RawHttp(server.url)) as http, calling(server, calls) as answers:
        request, headers = modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        with closing(RawHttp(server.url).stream("/mcp", headers, request)) as listening:
            assert b"acknowledged" in listening.event()
            assert ready(http) == (200, "ready")
            server.process.send_signal(signal.SIGTERM)
            server.wait_for(DRAINING)
            assert ready(http) == (503, "stopping")
            assert http.get("/health").status == 200
            for wire in HTTP_WIRES:
                with closing(Access(server.url)) as access, access.calling(wire) as caller:
                    assert len(caller.ask("tools/list").result["tools"]) == 4
            server.process.send_signal(signal.SIGTERM)
            assert all("finished" in json.dumps(answer().result) for answer in answers)
            assert '"result"' in listening.event().decode()
        assert ended(server.process) == 0
        assert "Traceback" not in server.log


def test_that_drained_ends_by_itself_once_its_time_is_over() -> None:
    launch = Launch(script="stopping_server.py", options=("--drain", "1"))
    with served(launch) as server, calling(server, [("modern", "finish"), ("legacy", "wait")]) as answers:
        begun = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        finished, waited = (answer() for answer in answers)
        assert time.monotonic() - begun > 1
        assert "finished" in json.dumps(finished.result)
        assert told_why(waited)
        assert ended(server.process) == 0


def test_that_drains_ends_at_once_by_ctrl_c() -> None:
    launch = Launch(script="stopping_server.py", options=("--drain", "600"))
    with served(launch) as server:
        server.process.send_signal(signal.SIGINT)
        assert ended(server.process) == 130
        assert DRAINING.search(server.log) is None


@every(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
@every("tool", ["wait", "block"])
def test_answers_a_call_over_stdio_and_ends(tool: str, number: signal.Signals, code: int) -> None:
    launch, pipe = Launch(script="stopping_server.py"), subprocess.PIPE
    heeding = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    )
    command = [sys.executable, "-c", heeding, *launch.command("-t", "stdio")]
    with subprocess.Popen(command, env=launch.environ, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        caller = StdioCaller(process.stdout, process.stdin)
        caller.begin("tools/call", {"name": tool})
        while (line := process.stderr.readline()) and b"CALLED" not in line:
            pass
        process.send_signal(number)
        assert ended(process) == code
        assert told_why(caller.answered())
        assert b"Traceback" not in process.stderr.read()


def test_of_a_gateway_answers_calls_that_wait_for_an_upstream(tmp_path: Path) -> None:
    entry = {"command": sys.executable, "args": ["-I", "-S", str(FAULTY)]}
    with gateway({"mcpServers": {"one": entry}}, tmp_path) as it:
        it.until_listed(["one"])
        calls = [(wire, "one_sleep") for wire in HTTP_WIRES]
        with calling(it.process, calls, "tools/call name='one_sleep'", seconds=600) as answers:
            it.process.process.send_signal(signal.SIGTERM)
            assert all(told_why(answer()) for answer in answers)
        assert ended(it.process.process) == 0
        assert "Traceback" not in it.process.log

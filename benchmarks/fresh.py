"""What only a fresh process shows: import time, launch over stdio to the first list, memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.contenders import Contender, ContenderError, Process, environment
from benchmarks.http_lane import HANDSHAKE
from benchmarks.measure import Lane, Rounds, Timing, interleave

N_LAUNCH_TOOLS = 10

_IMPORTS = {
    "bare": "from fastmcp import FastMCP",
    "ours": "from agent_utilities import create_mcp_server",
    "released": "from agent_utilities.mcp.server_factory import create_mcp_server",
}
_TIMED = """\
import time
wall, cpu = time.perf_counter(), time.process_time()
{}
print(time.perf_counter() - wall, time.process_time() - cpu)
"""
_SERVERS = {
    "bare": ("server = FastMCP('benchmark')", "server.run()"),
    "ours": ("server = create_mcp_server('benchmark')", "server.cli()"),
    "released": (
        "_, server, middleware = create_mcp_server('benchmark')\n"
        "for each in middleware:\n    server.add_middleware(each)",
        "server.run(transport='stdio')",
    ),
}
_TOOL = """
@server.tool(tags={{"read"}}, annotations={{"readOnlyHint": True}})
def read_record_{i}(path: str, limit: int = 20, recursive: bool = False) -> str:
    "Return the records of collection {i}, newest first, with the author, the date and the first lines."
    return path
"""


def import_rounds(contenders: Sequence[Contender], n_rounds: int) -> Rounds:
    """Return the timings of importing each contender's factory, a fresh process each time."""
    return interleave(
        {contender.lane: _import_lane(contender) for contender in contenders},
        budget_s=0,
        min_rounds=n_rounds,
        max_calls=1,
    )


def _import_lane(contender: Contender) -> Lane:
    code = _TIMED.format(_IMPORTS[contender.kind])

    def run(n_calls: int) -> list[Timing]:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as home:
            done = subprocess.run(
                [contender.python, "-c", code],
                capture_output=True,
                text=True,
                env=environment(home),
                cwd=home,
                timeout=120,
                check=True,
            )
        wall_s, cpu_s = map(float, done.stdout.split()[-2:])
        return [Timing(wall_s, cpu_s)]

    return run


def launch_rounds(contenders: Sequence[Contender], n_rounds: int) -> Rounds:
    """Return the timings from starting a stdio server to the last byte of its first tool list."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        lanes = {contender.lane: _launch_lane(contender, Path(folder)) for contender in contenders}
        return interleave(lanes, budget_s=0, min_rounds=n_rounds, max_calls=1)


def _launch_lane(contender: Contender, folder: Path) -> Lane:
    made, runs = _SERVERS[contender.kind]
    tools = "".join(_TOOL.format(i=i) for i in range(N_LAUNCH_TOOLS))
    script = folder / f"{contender.kind}_server.py"
    script.write_text(f"{_IMPORTS[contender.kind]}\n{made}\n{tools}\n{runs}\n", encoding="utf-8")

    def run(n_calls: int) -> list[Timing]:
        return [_launch(contender, script)]

    return run


def _launch(contender: Contender, script: Path) -> Timing:
    hello = {
        "protocolVersion": HANDSHAKE,
        "capabilities": {},
        "clientInfo": {"name": "benchmark", "version": "1"},
    }
    messages = (
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
    )
    answer = ""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as home, tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen(
            [contender.python, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment(home),
            cwd=home,
            text=True,
            bufsize=1,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for message in messages:
                process.stdin.write(json.dumps(message) + "\n")
                if "id" in message:
                    answer = process.stdout.readline()
            wall_s = time.perf_counter() - started
        except BrokenPipeError:
            answer = ""
        finally:
            os.kill(process.pid, signal.SIGKILL)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            process.stdout.close()
            with suppress(BrokenPipeError):
                process.stdin.close()
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip()[-800:]
    n_tools = len(json.loads(answer or "{}").get("result", {}).get("tools", ()))
    if n_tools != N_LAUNCH_TOOLS:
        raise ContenderError(f"{contender.lane}: the first list over stdio has {n_tools} tools: {answer or said}")
    return Timing(wall_s, used.ru_utime + used.ru_stime)


def resident_bytes(contenders: Sequence[Contender], n_tools: int, n_rounds: int) -> dict[str, list[int]]:
    """Return the resident set of fresh processes, by contender, after five lists of all tools."""
    resident_bytes_by_lane: dict[str, list[int]] = {contender.lane: [] for contender in contenders}
    for _ in range(n_rounds):
        for contender in contenders:
            with Process(contender) as process:
                process.ask("build", n_tools=n_tools)
                process.serve("tools/list", {}, {}, n_calls=5, n_tools=n_tools)
                resident_bytes_by_lane[contender.lane].append(process.ask("memory")["rss_bytes"])
    return resident_bytes_by_lane

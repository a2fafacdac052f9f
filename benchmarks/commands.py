"""What a command line costs that only asks about itself, beside a process that does nothing but import FastMCP."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.contenders import ContenderError, environment
from benchmarks.measure import Lane, Rounds, Timing, interleave

BIN = Path(sys.executable).parent
IMPORT = "from fastmcp import FastMCP"
SERVER = ("logs-agent-mcp --version", "logs-agent-mcp --help", "logs-agent-mcp --tool tail_log")
OWN = ("agent-utilities --version", "agent-utilities --help")
_REFUSED = 2


def command_rounds(n_rounds: int) -> Rounds:
    """Return the timings of whole processes, from their start to their end; a lane is named as it is typed."""
    lanes = {IMPORT: _lane([sys.executable, "-c", IMPORT])}
    for typed in (*SERVER, *OWN):
        program, *options = typed.split()
        lanes[typed] = _lane([str(BIN / program), *options])
    return interleave(lanes, budget_s=0, min_rounds=n_rounds, max_calls=1)


def _lane(command: Sequence[str]) -> Lane:
    def run(n_calls: int) -> list[Timing]:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as home:
            started = time.perf_counter()
            process = subprocess.Popen(
                command, env=environment(home), cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            _, status, used = os.wait4(process.pid, 0)
            wall_s = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, _REFUSED):
            raise ContenderError(f"{' '.join(command)} ended with {process.returncode}")
        return [Timing(wall_s, used.ru_utime + used.ru_stime)]

    return run

"""Gateways, and the bare server they are measured against, each started as its users start it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent_utilities.selection.channels import META_KEY
from benchmarks.contenders import ContenderError, environment
from benchmarks.gateway_process import ECHO
from benchmarks.gateway_wires import HubCaller, LineCaller
from tests.gateway.upstreams.gateway_process import GATEWAY
from tests.gateway.upstreams.real_servers import mcp_hub
from tests.wire.http_raw import RawHttp
from tests.wire.processes import HttpProcess
from tests.wire.wires import Caller, LegacyCaller, ModernCaller

Kind = Literal["bare", "bare again", "ours", "ours, no graph", "kept", "proxy", "proxy-legacy", "mcp-hub"]
Wire = Literal["modern", "legacy"]
_OURS = ("ours", "ours, no graph")
BESIDE = Path(__file__).with_name("gateway_process.py")
COMPLETE_S = 60
_LOOK_AGAIN_S = 0.05
_WHOLE_LISTS = {"MCP_TOOL_SEARCH": "off"}
"""What is compared is the list of all tools, of which a gateway defers what is over fifty."""
_END_S = 20
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Files:
    """What contenders are given.

    Args:
        config: an `mcp.json`.
        tools: the definitions of all of its tools, under the names that a gateway gives them.
        n_tools: how many those are.
    """

    config: Path
    tools: Path
    n_tools: int


def command(kind: Kind, files: Files) -> list[str]:
    """Return the command line of a contender, without its transport."""
    if kind in _OURS:
        return [*GATEWAY, str(files.config)]
    if kind == "mcp-hub":
        return [*mcp_hub(), "--config", str(files.config)]
    beside = [sys.executable, str(BESIDE)]
    if kind == "kept":
        return [*beside, kind, str(files.tools), str(files.config)]
    if kind in ("bare", "bare again"):
        return [*beside, "bare", str(files.tools)]
    return [*beside, kind, str(files.config)]


class Front:
    """A contender that serves HTTP.

    Args:
        kind: which.
        pid: of its process.
        caller: a way to ask it.
        url: its root URL.
    """

    def __init__(self, kind: Kind, pid: int, caller: Caller, url: str) -> None:
        self.kind, self.pid, self.url = kind, pid, url
        self._caller = caller

    def list_tools(self) -> None:
        """List its tools."""
        self._caller.ask("tools/list")

    def complete(self, n_tools: int, *, has_broken: bool = False) -> None:
        """Return once that many tools are listed, and no server is said to be absent: one may list more to a gateway.

        Args:
            n_tools: how many the servers that work have.
            has_broken: whether others stay absent.

        Raises:
            ContenderError: they are not, in time.
        """
        until = time.monotonic() + COMPLETE_S
        while True:
            result = self._caller.ask("tools/list").result
            n_listed = len(result["tools"])
            absent = result.get("_meta", {}).get(META_KEY, {}).get("absent")
            if n_listed >= n_tools and (has_broken or not absent):
                return
            if time.monotonic() > until:
                raise ContenderError(f"{self.kind}: {n_listed} of {n_tools} tools after {COMPLETE_S} s")
            time.sleep(_LOOK_AGAIN_S)

    def echo(self, name: str = ECHO) -> None:
        """Call the echo.

        Raises:
            ContenderError: it does not answer.
        """
        name = name.replace("_", "__", 1) if self.kind == "mcp-hub" else name
        answer = self._caller.ask("tools/call", {"name": name, "arguments": {"message": "hello"}})
        if b"Echo: hello" not in answer.raw:
            raise ContenderError(f"{self.kind}: the echo answered {answer.raw[:300]!r}")

    def cpu_s(self) -> float:
        """Return the processor time that it has used, without its upstreams'."""
        return cpu_s(self.pid)

    def thread_cpu_s(self) -> float:
        """Return the processor time of its threads that live, for what is too short for `cpu_s`."""
        return thread_cpu_s(self.pid)

    def n_beneath(self) -> int:
        """Return how many processes it has started that run, and those that they started."""
        return len(beneath(self.pid))

    def rss_kib(self) -> int:
        """Return its own resident memory, without its upstreams'."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")))


@contextmanager
def serving(kind: Kind, files: Files, home: str, wire: Wire = "modern") -> Iterator[Front]:
    """Start a contender on HTTP, to be asked over a wire; what it started ends with the block too."""
    with ExitStack() as stack:
        if kind == "mcp-hub":
            front = stack.enter_context(_hub(files, home))
        else:
            option = ["-t", "http", "-p", "0", "--log-level", "info"] if kind in _OURS else ["--http"]
            off = {"MCP_GRAPH": "off", "MCP_RANKER": "off"} if kind == "ours, no graph" else {}
            process = HttpProcess([*command(kind, files), *option], environment(home) | _WHOLE_LISTS | off)
            stack.callback(process.stop)
            stack.callback(_note_beneath, process.process.pid, stack)
            process.wait()
            http = stack.enter_context(closing(RawHttp(process.url)))
            caller: Caller = ModernCaller(http, "", ())
            if wire == "legacy":
                caller = stack.enter_context(closing(LegacyCaller(http, "", ())))
            front = Front(kind, process.process.pid, caller, process.url)
        yield front


def _note_beneath(pid: int, stack: ExitStack) -> None:
    """End what a contender leaves running, after it has ended."""
    running = beneath(pid)
    stack.callback(end_all, running)


def end_all(pids: Sequence[int]) -> None:
    """Kill processes that are still there; only those that this run has seen start."""
    for pid in pids:
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            continue


@contextmanager
def _hub(files: Files, home: str) -> Iterator[Front]:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [*command("mcp-hub", files), "--port", str(port)],
        env=environment(home) | _WHOLE_LISTS,
        cwd=home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    running: list[int] = []
    try:
        url = f"http://127.0.0.1:{port}"
        with closing(RawHttp(url)) as http, closing(_hub_caller(http, process)) as caller:
            yield Front("mcp-hub", process.pid, caller, url)
    finally:
        running += beneath(process.pid)
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        end_all(running)


def _hub_caller(http: RawHttp, process: subprocess.Popen[bytes]) -> HubCaller:
    """Return a caller as soon as it can be had: nothing tells when its endpoint is there."""
    until = time.monotonic() + COMPLETE_S
    while time.monotonic() < until and process.poll() is None:
        try:
            stream = http.stream("/mcp", [("accept", "text/event-stream")])
        except ConnectionRefusedError:
            time.sleep(_LOOK_AGAIN_S)
            continue
        if stream.status == 200:
            return HubCaller(http, stream)
        stream.close()
        time.sleep(_LOOK_AGAIN_S)
    raise ContenderError(f"mcp-hub did not serve (exit {process.poll()})")


@contextmanager
def on_stdio(kind: Kind, files: Files, home: str) -> Iterator[Front]:
    """Start a contender on stdio; what it started ends with the block too."""
    process = subprocess.Popen(
        command(kind, files),
        env=environment(home) | _WHOLE_LISTS,
        cwd=home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    running: list[int] = []
    try:
        yield Front(kind, process.pid, LineCaller(process.stdout, process.stdin), "")
    finally:
        running += beneath(process.pid)
        process.stdin.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        end_all(running)


def cpu_s(pid: int) -> float:
    """Return the processor time that a process has used, as Linux tells it, in steps of 10 ms as a rule."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def thread_cpu_s(pid: int) -> float:
    """Return the processor time that the threads of a process which live have used, to the nanosecond."""
    used_s = 0.0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            used_s += int((thread / "schedstat").read_text(encoding="ascii").split()[0]) / 1e9
    return used_s


def beneath(pid: int) -> list[int]:
    """Return the ids of the processes that descend from one, as Linux tells it; ended ones don't count."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[0] != "Z":
            parents.setdefault(int(fields[1]), []).append(int(folder.name))
    found, queue = list[int](), [pid]
    while queue:
        children = parents.get(queue.pop(), [])
        found += children
        queue += children
    return found

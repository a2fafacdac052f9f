"""The graph server as a real process, and a caller that lists its tools with a query, over HTTP."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from tests.query.graph.graph_server import TOPICS, VERBS

SCRIPT = Path(__file__).with_name("graph_server.py")
META = "agent-utilities/selection"
SLOW_S = 1.0
"""Half of the lists with a deadline of 250 ms must be there by then, on a busy machine too; figures are reported."""
PATIENT = {"MCP_GRAPH_DEADLINE_MS": "10000"}
"""What makes an agent wait for its graph for as long as a busy machine may take."""

_URL = re.compile(r"Uvicorn running on (http://127\.0\.0\.1:\d+)")
_VERSION = "2026-07-28"
_INFO = "io.modelcontextprotocol/"
_ENVELOPE = {
    f"{_INFO}protocolVersion": _VERSION,
    f"{_INFO}clientInfo": {"name": "asker", "version": "1"},
    f"{_INFO}clientCapabilities": {},
}
PERMITTED = frozenset({"grow", *(f"{topic}_{verb}" for topic in TOPICS for verb in VERBS if verb != "delete")})
"""What a server that is launched with `--disabled-tags delete` may ever show."""


@dataclass(frozen=True)
class Listed:
    """One list.

    Args:
        names: of the tools, as shown.
        status: how the query was answered.
        cause: why it was not.
        took_s: seconds from request to answer.
    """

    names: tuple[str, ...]
    status: str
    cause: str | None
    took_s: float


def _request(method: str, params: Mapping[str, Any], query: str | None) -> dict[str, Any]:
    return {
        "params": {} if query is None else {"q": query},
        "json": {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": _ENVELOPE}},
        "headers": {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": _VERSION,
            "mcp-method": method,
            **({"mcp-name": str(params["name"])} if "name" in params else {}),
        },
    }


def _result(answer: httpx2.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    text = answer.text
    if answer.headers["content-type"].startswith("text/event-stream"):
        text = next(line[5:] for line in text.splitlines() if line.startswith("data:") and "jsonrpc" in line)
    result: dict[str, Any] = json.loads(text)["result"]
    return result


async def listing(web: httpx2.AsyncClient, query: str) -> dict[str, Any]:
    """Return the result of `tools/list` with a query."""
    return _result(await web.post("/mcp", **_request("tools/list", {}, query)))


class Agent:
    """A server process that serves HTTP on a port of its own choice, and a connection to it.

    Args:
        command: its command line.
        environ: its whole environment.
    """

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self.lines: list[str] = []
        self.took_s: list[float] = []
        self._asked = 0
        self._url = ""
        self._listening = threading.Event()
        self.process = subprocess.Popen(
            command, env=dict(environ), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace"
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._listening.wait(60)
        if not self._url:
            self.stop()
            raise RuntimeError("the server did not start:\n" + "".join(self.lines))
        self.web = httpx2.Client(base_url=self._url, timeout=30)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if not self._url and (url := _URL.search(line)):
                self._url = url[1]
                self._listening.set()
        self._listening.set()

    def stop(self, number: signal.Signals = signal.SIGINT) -> float:
        """End the process as an operator would, and return how many seconds it took."""
        started = time.monotonic()
        self.process.send_signal(number)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        took_s = time.monotonic() - started
        self._reader.join(10)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return took_s

    def post(self, method: str, params: Mapping[str, Any], query: str | None = None) -> dict[str, Any]:
        """Send a request of 2026-07-28 and return its result."""
        return _result(self.web.post("/mcp", **_request(method, params, query)))

    def tools(self, query: str | None = None) -> Listed:
        """Return what `tools/list` shows for a query, and check that it is within what is permitted."""
        started = time.perf_counter()
        result = self.post("tools/list", {}, query)
        took_s = time.perf_counter() - started
        meta = result["_meta"][META]
        names = tuple(tool["name"] for tool in result["tools"])
        assert not any("delete" in name for name in names), names
        self.took_s.append(took_s)
        return Listed(names, meta["status"], meta.get("cause"), took_s)

    def fresh_query(self) -> str:
        """Return a query that was not asked before; `dns_read` answers it best, and all of its answers are narrower."""
        self._asked += 1
        return f"zq{self._asked} dns read"

    def ready(self) -> dict[str, Any]:
        """Return what `/ready` tells of the graph."""
        graph: dict[str, Any] = self.web.get("/ready").json()["graph"]
        return graph

    def until(self, holds: Callable[[], Any], seconds: float, what: str) -> float:
        """Poll until something holds and return how many seconds it took; the process's log tells why it did not."""
        started = time.monotonic()
        pause = threading.Event()
        while not holds():
            if time.monotonic() - started > seconds:
                raise AssertionError(f"not within {seconds} s: {what}\n{''.join(self.lines[-40:])}")
            pause.wait(0.05)
        return time.monotonic() - started

    def until_ready(self, seconds: float = 30) -> float:
        """Wait until the graph is filled and answers."""
        return self.until(lambda: self.ready().get("status") == "ready", seconds, "graph ready")

    def said(self, pattern: str) -> list[str]:
        """Return the log lines of the graph room, of at least level WARNING, that match a pattern."""
        lines = [line for line in self.lines if re.search(r" (WARNING|ERROR) agent_utilities\.graph", line)]
        return [line for line in lines if re.search(pattern, line)]


@contextmanager
def serving(environ: Mapping[str, str], *options: str) -> Iterator[Agent]:
    """Serve the graph server for a block, with delete-tools denied by the operator.

    Args:
        environ: the `MCP_*` and `NEO4J_*` variables of the process; all others of these are unset, the ranker lexical.
        options: further options of its command line.
    """
    others = {name: value for name, value in os.environ.items() if not name.startswith(("MCP_", "NEO4J_"))}
    command = [sys.executable, str(SCRIPT), "-t", "http", "-p", "0", "--disabled-tags", "delete", *options]
    agent = Agent(command, {**others, "MCP_RANKER": "lexical", **environ})
    try:
        yield agent
    finally:
        agent.web.close()
        if agent.process.poll() is None:
            agent.stop()

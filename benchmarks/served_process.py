"""A real server process that serves a catalog of `shared/data` over HTTP, and a client that asks it.

Run as a script it is the server: `served_process.py NAME TOOLS.jsonl`; it prints its port and serves until it is ended.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

sys.path.insert(0, str(Path(__file__).parents[1]))

import httpx2

from benchmarks.contenders import ContenderError, environment
from benchmarks.worker import ENVELOPE, PROTOCOL

_READY_S = 900
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Shown:
    """What a query was shown.

    Args:
        names: of the tools, best first where a query was answered.
        status: how it was answered.
        cause: what fell short of it; empty where nothing did.
        wall_ms: milliseconds from request to answer.
    """

    names: tuple[str, ...]
    status: str
    cause: str
    wall_ms: float

    @property
    def is_by_vectors(self) -> bool:
        """Whether vectors were asked too."""
        return "words alone" not in self.cause


class ServedCatalog:
    """A running server and its client.

    Args:
        process: of the server.
        base: its URL.
    """

    def __init__(self, process: subprocess.Popen[str], base: str) -> None:
        self._process = process
        self._client = httpx2.Client(base_url=base, timeout=120, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._client.close()
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate()

    def wait_for_index(self) -> None:
        """Return once the index is as good as it gets.

        Raises:
            ContenderError: it doesn't become so.
        """
        self.ask("wake up")
        until = time.monotonic() + _READY_S
        while time.monotonic() < until:
            ranker = self._client.get("/ready").json()["ranker"]
            if ranker["status"] == "ready" and "cause" not in ranker:
                return
            time.sleep(0.2)
        raise ContenderError(f"no index within {_READY_S} s: {ranker}")

    def ask(self, query: str) -> Shown:
        """Return what `GET /tools?q=` shows, in the order of the answer."""
        started = time.perf_counter()
        answer = self._client.get("/tools", params={"q": query}).raise_for_status()
        wall_ms = 1000 * (time.perf_counter() - started)
        body: dict[str, Any] = answer.json()
        selection, listed = body["selection"], [tool["name"] for tool in body["tools"]]
        names = tuple(selection.get("ranked") or listed)
        return Shown(names, selection["status"], selection.get("cause", ""), wall_ms)

    def list_ms(self, query: str) -> float:
        """Return the milliseconds of an MCP `tools/list` with a query, to the last byte."""
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE}}
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": PROTOCOL}
        started = time.perf_counter()
        self._client.post(
            "/mcp", params={"q": query}, json=body, headers=headers | {"mcp-method": "tools/list"}
        ).raise_for_status()
        return 1000 * (time.perf_counter() - started)

    def call(self, tool: str, query: str) -> None:
        """Call a tool, with the words that led to it.

        Raises:
            ContenderError: it does not answer.
        """
        self._call(tool, {}, {"q": query})

    def search(self, query: str, max_results: int) -> tuple[str, ...]:
        """Return the names of the tools that `tool_search` finds, best first.

        Raises:
            ContenderError: it does not answer.
        """
        arguments = {"query": query, "max_results": max_results}
        result = self._call("tool_search", arguments, {"tool_search": "on"})
        return tuple(tool["name"] for tool in result["structuredContent"]["tools"])

    def _call(self, tool: str, arguments: dict[str, Any], query: dict[str, str]) -> dict[str, Any]:
        params = {"name": tool, "arguments": arguments, "_meta": ENVELOPE}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": PROTOCOL}
        headers |= {"mcp-method": "tools/call", "mcp-name": tool}
        answer = self._client.post("/mcp", params=query, json=body, headers=headers)
        text = answer.text
        if answer.status_code != httpx2.codes.OK or '"isError":true' in text:
            raise ContenderError(f"{tool} does not answer: {text[:200]}")
        lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith(("data: ", "{"))]
        result: dict[str, Any] = json.loads(lines[-1])["result"]
        return result

    def ready(self) -> dict[str, Any]:
        """Return what `/ready` says."""
        body: dict[str, Any] = self._client.get("/ready").json()
        return body

    def cpu_s(self) -> float:
        """Return the processor time that the server has used, as Linux tells it."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


@contextmanager
def served(
    name: str, tools: Path, ranker: str, vectors: Path, variables: Mapping[str, str] | None = None
) -> Iterator[ServedCatalog]:
    """Give a server of a catalog, indexed.

    Args:
        name: of the server; tools of other servers are mounted.
        tools: JSON lines.
        ranker: `lexical` or `hybrid`.
        vectors: where vectors are kept for the next run.
        variables: of its environment, besides.
    """
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        if vectors.exists():
            shutil.copy(vectors, folder)
        process = subprocess.Popen(
            [sys.executable, __file__, name, str(tools)],
            stdout=subprocess.PIPE,
            env=environment(folder) | {"MCP_RANKER": ranker, "MCP_GRAPH_FOLDER": folder} | dict(variables or {}),
            cwd=folder,
            text=True,
        )
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        with ServedCatalog(process, f"http://127.0.0.1:{port}") as catalog:
            catalog.wait_for_index()
            yield catalog
        if (made := Path(folder, vectors.name)).exists():
            vectors.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(made, vectors)


def make_server(name: str, rows: list[dict[str, Any]]) -> Any:
    """Return a server of tools, those of other servers mounted; each answers that it was called."""
    from fastmcp import FastMCP
    from fastmcp.tools import Tool
    from fastmcp.tools.base import ToolResult

    from agent_utilities import create_mcp_server

    class Answering(Tool):
        async def run(self, arguments: dict[str, Any]) -> ToolResult:
            return ToolResult("called")

    server: FastMCP[Any] = create_mcp_server(name)
    servers: dict[str, FastMCP[Any]] = {name: server}
    for row in rows:
        if row["server"] not in servers:
            servers[row["server"]] = FastMCP(row["server"])
        servers[row["server"]].add_tool(
            Answering(
                name=row["name"],
                description=row["description"],
                tags=set(row.get("tags") or ()),
                parameters=row.get("input_schema") or {"type": "object", "properties": {}},
            )
        )
    for mounted in servers.values():
        if mounted is not server:
            server.mount(mounted)
    return server


def serve(server: Any) -> None:
    """Serve a FastMCP server over HTTP on a free loopback port, which is printed, until ended."""
    import socket

    import uvicorn

    # With the protocol named, asyncio turns Nagle's algorithm off; without, answers wait 40 ms for an ACK.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(server.http_app(), lifespan="on", log_level="error", access_log=False)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    rows = [json.loads(line) for line in Path(sys.argv[2]).read_text(encoding="utf-8").splitlines()]
    serve(make_server(sys.argv[1], rows))

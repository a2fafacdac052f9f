"""One contender in a process of its own: obeys JSON lines on stdin, answers each with one on stdout.

The same script serves every contender, in whatever environment it is started, so it imports nothing of
agent_utilities but through `make_server`.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, TextIO

import anyio
import mcp_types
from fastmcp import FastMCP
from mcp.server.connection import Connection
from mcp.server.runner import serve_one
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from pydantic import Field
from starlette.requests import Request

# Last, so that each environment's own agent_utilities is found before the one beside this folder.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks.host_internals import low_level

PROTOCOL = "2026-07-28"
ENVELOPE = {
    mcp_types.PROTOCOL_VERSION_META_KEY: PROTOCOL,
    mcp_types.CLIENT_INFO_META_KEY: {"name": "benchmark", "version": "1"},
    mcp_types.CLIENT_CAPABILITIES_META_KEY: {},
}
N_GROUPS = 20


def make_server(contender: str) -> Any:
    """Return a server with no tools: `bare` FastMCP, `ours`, or `released`, that of agent-utilities 1.x.

    The released factory hands its middleware over for its caller to add; all are added but the one that
    refuses more than ten requests a second, under which nothing can be measured.
    """
    if contender == "bare":
        return FastMCP("benchmark")
    if contender == "ours":
        from agent_utilities import create_mcp_server

        return create_mcp_server("benchmark")
    factory = importlib.import_module("agent_utilities.mcp.server_factory").create_mcp_server
    _, server, middleware = factory("benchmark", command_args=[])
    for each in middleware:
        if type(each).__name__ != "RateLimitingMiddleware":
            server.add_middleware(each)
    return server


def runner(contender: str) -> Callable[..., Any]:
    """Return what starts the event loop that a contender is served on: FastMCP's way, but where ours has its own."""
    if contender == "ours":
        with suppress(ImportError):  # an earlier commit's may not
            from agent_utilities.runtime.waiting import run_async

            return run_async
    return anyio.run


def tool_name(i: int) -> str:
    """Return the name of the i-th tool."""
    return f"{('list', 'create', 'read', 'update')[i % 4]}_record_{i:04}"


def add_tools(server: Any, n_tools: int) -> None:
    """Add tools as servers have them: 120 characters of description, three parameters, two tags, a hint."""
    for i in range(n_tools):
        kind = "read" if i % 2 == 0 else "write"

        async def work(
            path: Annotated[str, Field(description="Where the records are, from the root of the workspace.")],
            limit: Annotated[int, Field(description="The most records to return.", ge=1, le=1000)] = 20,
            recursive: bool = False,
        ) -> str:
            return path

        server.tool(
            work,
            name=tool_name(i),
            description=f"Return the records of collection {i:04}, newest first, with the author, the date "
            "and the first lines of each one of them.",
            tags={kind, f"group_{i % N_GROUPS}"},
            annotations={"readOnlyHint": kind == "read"},
        )


class Clock:
    """This process's processor time without its full garbage collections."""

    def __init__(self) -> None:
        self._collecting_s = self._started_s = 0.0
        gc.callbacks.append(self._note)

    def _note(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] == 2:
            if phase == "start":
                self._started_s = time.process_time()
            else:
                self._collecting_s += time.process_time() - self._started_s

    def cpu_s(self) -> float:
        """Return the seconds since the process began."""
        return time.process_time() - self._collecting_s


@dataclass
class Exchange:
    """The SDK's view of one HTTP request that is answered by one result."""

    request_id: int
    transport: TransportContext
    message_metadata: ServerMessageMetadata
    can_send_request: bool = False
    cancel_requested: anyio.Event = field(default_factory=anyio.Event)

    async def send_raw_request(self, method: str, params: Any, opts: Any = None) -> dict[str, Any]:
        """Refuse: there is no way back to the client."""
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Any, opts: Any = None) -> None:
        """Drop a notification."""

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Drop a report of progress."""


class Worker:
    """Holds one server, and answers for it.

    Args:
        contender: which server to make.
        replies: where answers go.
    """

    def __init__(self, contender: str, replies: TextIO) -> None:
        self._contender = contender
        self._replies = replies
        self._server: Any = None
        self._state: Any = None
        self._clock = Clock()
        self._stack = AsyncExitStack()

    async def run(self) -> None:
        """Answer until stdin ends."""
        while line := await asyncio.to_thread(sys.stdin.readline):
            order = json.loads(line)
            try:
                reply = await getattr(self, order.pop("op"))(**order)
            except Exception as error:
                reply = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(reply), file=self._replies, flush=True)
        os._exit(0)

    async def build(self, n_tools: int) -> dict[str, Any]:
        """Make the server with its tools and start its lifespan."""
        self._server = make_server(self._contender)
        add_tools(self._server, n_tools)
        host = low_level(self._server)
        self._state = await self._stack.enter_async_context(host.lifespan(host))
        package = "fastmcp" if self._contender == "bare" else "agent-utilities"
        return {"package": package, "version": version(package), "fastmcp": version("fastmcp")}

    async def ask(self, method: str, params: dict[str, Any], headers: dict[str, str], n_calls: int) -> dict[str, Any]:
        """Serve requests as the HTTP transport hands them over; time each from parsed JSON to its result."""
        timings = []
        result: dict[str, Any] = {}
        for i in range(n_calls):
            exchange, body = self._exchange(i, headers), {"_meta": ENVELOPE, **params}
            connection = Connection.from_envelope(PROTOCOL, ENVELOPE[mcp_types.CLIENT_INFO_META_KEY], {})
            host = low_level(self._server)
            wall, cpu = time.perf_counter(), self._clock.cpu_s()
            result = await serve_one(host, exchange, method, body, connection=connection, lifespan_state=self._state)
            timings.append((time.perf_counter() - wall, self._clock.cpu_s() - cpu))
        return {
            "timings": timings,
            "n_tools": len(result.get("tools", ())),
            "is_error": result.get("isError", False),
        }

    @staticmethod
    def _exchange(i: int, headers: dict[str, str]) -> Exchange:
        raw = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
        raw += [(key.encode(), value.encode()) for key, value in headers.items()]
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/mcp",
            "query_string": b"",
            "headers": raw,
            "state": {},
        }
        request = Request(scope)
        return Exchange(
            i,
            TransportContext(kind="streamable-http", can_send_request=False, headers=request.headers),
            ServerMessageMetadata(request_context=request),
        )

    async def serve(self) -> dict[str, Any]:
        """Stop the lifespan of `build` and serve over HTTP on a free loopback port until the process ends."""
        import uvicorn

        await self._stack.aclose()
        # With the protocol named, asyncio turns Nagle's algorithm off; without, answers wait 40 ms for an ACK.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        config = uvicorn.Config(self._server.http_app(), lifespan="on", log_level="error", access_log=False)
        self._serving = asyncio.create_task(uvicorn.Server(config).serve(sockets=[listener]))
        return {"port": listener.getsockname()[1]}

    async def spent(self) -> dict[str, Any]:
        """Return the processor time so far, net of full garbage collections."""
        return {"cpu_s": self._clock.cpu_s()}

    async def memory(self) -> dict[str, Any]:
        """Return the resident set in bytes."""
        return {"rss_bytes": resident_bytes()}


def resident_bytes() -> int:
    """Return this process's resident set in bytes, as Linux tells it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")))


if __name__ == "__main__":
    # Whatever a contender prints must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    runner(sys.argv[1])(Worker(sys.argv[1], answers).run)

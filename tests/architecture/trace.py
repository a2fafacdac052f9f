"""One real `q=` over HTTP, and one call through a gateway, traced: which files of the package they enter.

`python -m tests.architecture.trace` prints both as JSON, with the files that are handed the words of the first.
Nothing is filtered, and only public names are used, so that
it holds whatever the rooms are called. Words count wherever an argument bears them: as text, or inside a list, a tuple,
a dataclass or a pydantic model.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

_T = TypeVar("_T")

WORDS = "show the history of the repository"
WARMING = "read a zone"
_READY_S = 60
_UPSTREAM = """
from fastmcp import FastMCP
server = FastMCP("up")
@server.tool
def echo(text: str) -> str:
    return text
server.run(show_banner=False)
"""
_VARIADIC = (4, 8)
"""Flags of code that takes `*args`, and `**options`."""


@dataclass(frozen=True)
class Way:
    """What a request did.

    Args:
        tools: the names that it listed.
        entered: the files that it entered, in order, each with the function first entered.
        handed: those of them that were handed its words, likewise.
        called: the files that the call entered, likewise.
        n_judged: how often the name of the tool that was called was judged by the bounds.
    """

    tools: list[str]
    entered: Mapping[str, str]
    handed: Mapping[str, str]
    called: Mapping[str, str]
    n_judged: int


class Trace:
    """What is entered of a package while `tracing`, in every thread that began under it.

    Args:
        package: the package's folder.
        words: the words of the request.
    """

    def __init__(self, package: Path, words: str = WORDS) -> None:
        self._root, self._words, self._on = f"{package}{os.sep}", words, False
        self.entered: dict[str, str] = {}
        self.handed: dict[str, str] = {}
        self.n_judged = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call; given to the interpreter."""
        code = frame.f_code
        if not self._on or event != "call" or not code.co_filename.startswith(self._root):
            return
        file = code.co_filename.removeprefix(self._root)
        self.entered.setdefault(file, code.co_name)
        self.n_judged += code.co_name == "refusal" and file == os.path.join("policy", "bounds.py")
        if file not in self.handed and any(bears(value, self._words) for value in _arguments(frame)):
            self.handed[file] = code.co_name

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Note calls within."""
        self._on = True
        try:
            yield
        finally:
            self._on = False


def _arguments(frame: FrameType) -> Iterator[Any]:
    code = frame.f_code
    n_arguments = code.co_argcount + code.co_kwonlyargcount + sum(bool(code.co_flags & flag) for flag in _VARIADIC)
    return (frame.f_locals.get(name) for name in code.co_varnames[:n_arguments] if name != "self")


def bears(value: Any, words: str, depth: int = 6) -> bool:
    """Whether a value holds words, be it deep inside."""
    if isinstance(value, str):
        return words in value
    if isinstance(value, bytes):
        return words.encode() in value
    if not depth:
        return False
    if isinstance(value, tuple | list):
        return len(value) < 40 and any(bears(part, words, depth - 1) for part in value)
    names = [field.name for field in fields(value)] if is_dataclass(value) else getattr(type(value), "model_fields", ())
    # An object that is half made has not all its fields yet.
    return any(bears(getattr(value, name, None), words, depth - 1) for name in names)


def traced() -> Way:
    """List some of three tools by words, call a tool behind a gateway, and return what both did when asked again."""
    import agent_utilities

    package = Path(agent_utilities.__file__).parent
    query, call = Trace(package), Trace(package)
    with tempfile.TemporaryDirectory() as folder:
        environ = {"MCP_GRAPH_FOLDER": folder, "MCP_RANKER": "lexical", "MCP_GRAPH_DEADLINE_MS": "30000"}
        server = agent_utilities.create_mcp_server("traced", environ=environ)
        for name, tag in (("git_log", "read"), ("git_push", "write"), ("zone_read", "read")):
            server.tool(lambda: "done", name=name, description=f"Does {name}, with its history.", tags={tag})
        tools = _served(server, query, _ask)
        upstream = {"command": sys.executable, "args": ["-c", _UPSTREAM]}
        environ = {**os.environ, "MCP_GATEWAY_FOLDER": folder, "MCP_GRAPH": "off", "MCP_RANKER": "off"}
        environ["MCP_RESULT_TOKENS"] = "off"
        _served(agent_utilities.create_gateway({"mcpServers": {"up": upstream}}, environ=environ), call, _call)
    return Way(tools, query.entered, query.handed, call.entered, call.n_judged)


def _served(server: Any, trace: Trace, ask: Callable[[str, Trace], Awaitable[_T]]) -> _T:
    """Return what is answered to a client of a server over HTTP."""
    import uvicorn

    threading.setprofile(trace)
    web = uvicorn.Server(uvicorn.Config(server.http_app(), host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=web.run)
    thread.start()
    try:
        while not web.started and thread.is_alive():
            time.sleep(0.02)
        url = f"http://127.0.0.1:{web.servers[0].sockets[0].getsockname()[1]}"

        async def answer() -> _T:
            return await ask(url, trace)

        return asyncio.run(answer())
    finally:
        threading.setprofile(None)
        web.should_exit = True
        thread.join()


async def _call(url: str, trace: Trace) -> None:
    from fastmcp import Client

    async with Client(f"{url}/mcp") as client:
        assert [tool.name for tool in await client.list_tools()] == ["up_echo"]
        await client.call_tool("up_echo", {"text": WARMING})
        with trace.tracing():
            answer = await client.call_tool("up_echo", {"text": WORDS})
    assert answer.data == WORDS


async def _ask(url: str, trace: Trace) -> list[str]:
    await _listed(url, WARMING)
    await _ready(url)
    return await _listed(url, WORDS, trace)


async def _listed(url: str, words: str, trace: Trace | None = None) -> list[str]:
    from fastmcp import Client
    from fastmcp.client.transports import StreamableHttpTransport

    from agent_utilities import selection_headers

    async with Client(StreamableHttpTransport(f"{url}/mcp", headers=selection_headers(query=words))) as client:
        if trace is None:
            return [tool.name for tool in await client.list_tools()]
        with trace.tracing():
            return [tool.name for tool in await client.list_tools()]


async def _ready(url: str) -> None:
    """Wait until the graph and the ranker answer, so that nothing of their start is taken for the request's way."""
    import httpx2

    until = time.monotonic() + _READY_S
    async with httpx2.AsyncClient() as client:
        state: dict[str, Any] = {}
        while time.monotonic() < until:
            state = (await client.get(f"{url}/ready")).json()
            if state["graph"]["status"] == state["ranker"]["status"] == "ready":
                return
            await asyncio.sleep(0.1)
    raise TimeoutError(f"graph and ranker are not ready after {_READY_S} s: {state}")


if __name__ == "__main__":
    json.dump(asdict(traced()), sys.stdout)

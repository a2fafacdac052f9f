"""The way of a request through the files: in order, and each entered once with what it is about."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from fastmcp.server.http import StarletteWithLifespan

import agent_utilities
from agent_utilities import create_mcp_server, selection_headers
from agent_utilities.mcp.wire.request import RequestReader
from agent_utilities.selection.model import NOTHING
from tests.graph.wrapped import until
from tests.mcp.servers import over_http

pytestmark = pytest.mark.anyio
PACKAGE = f"{Path(agent_utilities.__file__).parent}/"
WORDS = "show history of git"

OF_A_QUERY = [
    "mcp/wire/request.py",
    "selection/parse.py",
    "mcp/wire/middleware.py",
    "mcp/resolving_server.py",
    "resolution/resolver.py",
    "resolution/orchestrator.py",
    "resolution/graph_reader.py",
    "graph/matching.py",
    "resolution/catalog_ranker.py",
    "ranking/lexical.py",
    "visibility/decision.py",
    "mcp/wire/summary.py",
]
"""The files that take the user's words, or the answer to them, from one room and hand them to the next."""

ON_THE_GRAPH, ON_THE_RANKER = OF_A_QUERY[6:8], OF_A_QUERY[8:10]
"""Those of them that run at once: only the order within each of both is fixed."""

OF_A_DENY = [
    "mcp/wire/request.py",
    "selection/channels.py",
    "selection/parse.py",
    "mcp/wire/middleware.py",
    "mcp/resolving_server.py",
    "mcp/surface/surface.py",
    "selection/merge.py",
    "visibility/bounds.py",
    "mcp/bounded_server.py",
    "mcp/surface/visibility_transform.py",
    "visibility/decision.py",
    "mcp/wire/summary.py",
]
"""The files that a caller's deny passes through, from its header to the list without what it denies."""


class Trace:
    """Which files of the package are handed something, in order, and how often each what the request is about.

    Args:
        is_about: whether an argument of a call bears what the request is about.
    """

    def __init__(self, is_about: Callable[[Any], bool]) -> None:
        self._is_about = is_about
        self._on = False
        self._frames: set[FrameType] = set()
        self.order: list[str] = []
        self.entries: dict[str, int] = {}

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Trace what runs within, in every thread that is begun from now on or from `armed` on."""
        self._on = True
        sys.setprofile(self.profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            self._on = False
            self._frames.clear()

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call; given to the interpreter."""
        file = _file(frame)
        # A coroutine is told of each time that it goes on; it was entered once.
        if event != "call" or file is None or not self._on or frame in self._frames:
            return
        self._frames.add(frame)
        arguments = list(_arguments(frame))
        if not arguments or frame.f_code.co_name.startswith("<"):
            return
        if file not in self.order:
            self.order.append(file)
        caller = frame.f_back
        while caller is not None and (_file(caller) or "runtime/").startswith("runtime/"):
            caller = caller.f_back
        if caller is not None and _file(caller) != file and any(map(self._is_about, arguments)):
            self.entries[file] = self.entries.get(file, 0) + 1


def _file(frame: FrameType) -> str | None:
    name = frame.f_code.co_filename
    return name.removeprefix(PACKAGE) if name.startswith(PACKAGE) else None


def _arguments(frame: FrameType) -> Iterator[Any]:
    code = frame.f_code
    for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        if name != "self":
            yield frame.f_locals.get(name)


def bears_words(value: Any, depth: int = 6) -> bool:
    """Whether a value holds the words of the query, be it deep inside."""
    match value:
        case str():
            return WORDS in value
        case bytes():
            return WORDS.encode() in value
        case tuple() | list() if depth and len(value) < 40:
            return any(bears_words(part, depth - 1) for part in value)
        case _ if depth and is_dataclass(value) and not isinstance(value, type):
            return any(bears_words(getattr(value, field.name, None), depth - 1) for field in fields(value))
    return False


@pytest.fixture
def armed() -> Iterator[Trace]:
    """A trace that the threads of a server made from now on are under."""
    trace = Trace(bears_words)
    threading.setprofile(trace.profile)
    try:
        yield trace
    finally:
        threading.setprofile(None)  # type: ignore[arg-type]


async def listed(trace: Trace, folder: Path, *, is_new_caller: bool, **asked: Any) -> dict[str, Any]:
    """List a server's tools over HTTP, traced, once its graph and index are ready.

    Args:
        trace: the trace.
        folder: where the graph is kept.
        is_new_caller: whether nobody selected alike before, so that bounds are settled anew.
        asked: the selection.
    """
    environ = {"MCP_GRAPH_FOLDER": str(folder), "MCP_RANKER": "lexical", "MCP_GRAPH_DEADLINE_MS": "30000"}
    server = create_mcp_server("traced", environ=environ)
    for name, tag in (("git_log", "read"), ("git_push", "write"), ("zone_read", "read")):
        server.tool(lambda: "done", name=name, description=f"Does {name}, with its history.", tags={tag})
    app, client = over_http(server, headers=selection_headers(**asked))
    async with app.router.lifespan_context(app):
        await server.resolver.wait_for_tools()
        await until(lambda: server.health()["ranker"]["status"] == "ready", "indexed")
        await until(lambda: server.resolver.orchestrator and server.resolver.orchestrator.is_idle, "filled")
        async with client:
            # The connection's own requests bore the same selection.
            forget_requests(app)
            if is_new_caller:
                server.surface.launch(NOTHING)
            with trace.tracing():
                result = await client.session.list_tools()
                await asyncio.sleep(0)
    meta: dict[str, Any] = result.meta["agent-utilities/selection"]
    return {"names": [tool.name for tool in result.tools], **meta}


def forget_requests(app: StarletteWithLifespan) -> None:
    (reader,) = (
        value
        for each in app.user_middleware
        for value in (*each.args, *each.kwargs.values())
        if isinstance(value, RequestReader)
    )
    reader._read_before.clear()


def first_entered(trace: Trace, files: list[str]) -> list[str]:
    return [file for file in trace.order if file in files]


async def test_a_query_passes_each_file_once_in_order(armed: Trace, tmp_path: Path):
    answer = await listed(armed, tmp_path, is_new_caller=False, query=WORDS)
    assert (answer["status"], answer["names"]) == ("fresh", ["git_log", "git_push"])
    for others in (ON_THE_GRAPH, ON_THE_RANKER):
        way = [file for file in OF_A_QUERY if file not in others]
        assert first_entered(armed, way) == way
    assert {file: n for file, n in armed.entries.items() if file in OF_A_QUERY and n > 1} == {}


async def test_a_deny_passes_its_files_in_order(armed: Trace, tmp_path: Path):
    answer = await listed(armed, tmp_path, is_new_caller=True, disabled_tags=["write"])
    assert answer["names"] == ["git_log", "zone_read"]
    assert first_entered(armed, OF_A_DENY) == OF_A_DENY


def test_neither_way_is_longer_than_twelve_files():
    assert (len(OF_A_QUERY), len(OF_A_DENY)) == (12, 12)

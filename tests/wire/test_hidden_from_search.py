"""Tool search tells nothing of what is denied: a server that has it answers as one that never had, to the byte."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest

from tests.every import every
from tests.wire.http_raw import RawHttp
from tests.wire.processes import HttpProcess, Launch, served
from tests.wire.search_questions import QUESTIONS, masked
from tests.wire.search_server import LEAKED
from tests.wire.wires import Caller, LegacyCaller, ModernCaller, SseCaller, stdio_caller

pytestmark = pytest.mark.outside

_SEARCHED = Launch(script="search_server.py")
LAUNCH = replace(_SEARCHED, env=(("MCP_TOOL_SEARCH", "on"), ("MCP_DISABLED_TAGS", "vault")))
WITH_DENIED = replace(LAUNCH, env=(*LAUNCH.env, ("WITH_DENIED", "1")))
WIRES = ("stdio", "sse", "legacy", "modern")


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[HttpProcess, HttpProcess]]:
    """Two servers under the same bound: one has what it denies, the other never had."""
    with served(WITH_DENIED) as having, served(LAUNCH) as never:
        yield having, never


def transcript(wire: str, process: HttpProcess, launch: Launch) -> list[str]:
    """Return what one caller is answered, from his greeting to his last question."""
    with ExitStack() as stack:
        if wire == "stdio":
            return _answers(stack.enter_context(stdio_caller(launch)))
        http = stack.enter_context(closing(RawHttp(process.url)))
        if wire == "modern":
            modern = ModernCaller(http, "", ())
            return [masked(modern.ask("server/discover").raw), *_answers(modern)]
        caller = stack.enter_context(
            closing(LegacyCaller(http, "", ()) if wire == "legacy" else SseCaller(http, "", ()))
        )
        return [masked(caller.opened.raw), *_answers(caller)]


def _answers(caller: Caller) -> list[str]:
    return [masked(caller.ask(method, params).raw) for method, params in QUESTIONS]


Pair = tuple[HttpProcess, HttpProcess]


class TestEqualAnswers:
    @every("wire", WIRES)
    def test_no_answer_moves_because_a_denied_tool_is_there(self, pair: Pair, wire: str) -> None:
        seen = transcript(wire, pair[0], WITH_DENIED)
        expected = transcript(wire, pair[1], LAUNCH)
        asked = ["greeting", *QUESTIONS][-len(seen) :]
        differing = [each for each in zip(asked, seen, expected, strict=True) if each[1] != each[2]]
        assert differing[:1] == []

    @every("path", ["/tools", "/context?definitions=true", "/tools?q=vault", "/context?active=open_vault,read_note"])
    def test_no_route_moves_because_a_denied_tool_is_there(self, pair: Pair, path: str) -> None:
        bodies = []
        for process in pair:
            with closing(RawHttp(process.url)) as http:
                bodies.append(http.get(path).body)
        assert bodies[0] == bodies[1]
        assert LEAKED.encode() not in bodies[0]

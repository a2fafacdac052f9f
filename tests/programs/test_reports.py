"""What strangers reported of other projects that run programs over tools, each made small."""

from __future__ import annotations

import pytest

from tests.every import every
from tests.programs.servers import Tracker, ran

pytest.importorskip("pydantic_monty")
pytestmark = [pytest.mark.anyio, pytest.mark.outside]
CAUGHT = "try:\n    {}\nexcept Exception as error:\n    said = str(error)\nsaid"


@every(
    ("code", "said"),
    [
        # PrefectHQ/fastmcp#4702: a failed call ended the program, whatever caught it
        (CAUGHT.format("await fail(why='gone')"), "fail: gone"),
        # nowireless4u/hpe-networking-mcp#202: so did one whose arguments the tool itself refused
        ("import json\nn = json.loads('\"x\"')\n" + CAUGHT.format("await count(n=n)"), "'n' is 'x'"),
        # strands-agents/harness-sdk#139: a tool with a hyphen in its name could not be called
        ("await odd_name(n=3)", "3"),
        # homeassistant-ai/ha-mcp#854: a list came as something else than a list
        ("[each.upper() for each in await labels()]", '["BUG","DOCS"]'),
        # langchain-ai/langgraph-codeact#29: a tool that takes any arguments had no signature that can be written
        ("await anything(**{'a-b': 1, 'c': 2})", '{"a-b":1,"c":2}'),
    ],
)
async def test_a_program_goes_on(code: str, said: str) -> None:
    tracker = Tracker()
    reads = {"readOnlyHint": True}
    tracker.server.tool(lambda n: n, name="odd-name", annotations=reads, output_schema=None)
    tracker.server.add_tool(anything())
    async with tracker.client() as client:
        ended = await ran(client, code)
    assert said in ended.text
    assert not ended.is_error


def anything() -> object:
    from fastmcp.tools.base import Tool, ToolResult

    class Anything(Tool):
        async def run(self, arguments: dict[str, object]) -> ToolResult:
            return ToolResult(structured_content=arguments)

    schema = {"type": "object", "additionalProperties": True}
    return Anything(name="anything", parameters=schema, annotations={"readOnlyHint": True})


@every(
    ("code", "said"),
    [
        # huggingface/smolagents#871: two loops, one of them in a function, ran for ever
        ("def f(a):\n    for j in range(10**9):\n        a += j\n    return a\nf(0)", "time limit"),
        # huggingface/smolagents#1318: a power of a power took all memory
        ("x = 3 ** 2048\n5 ** x", "exponent too large"),
        # stanfordnlp/dspy#9341: arguments by their place were taken for others
        ("await list_issues('a/b')", "nothing was called"),
        # nowireless4u/hpe-networking-mcp#208: what is wrong was hidden, as errors of tools were masked
        ("await no_such_tool()", "no_such_tool"),
    ],
)
async def test_a_program_ends_and_says_why(code: str, said: str) -> None:
    tracker = Tracker()
    tracker.server.complete()
    async with tracker.client() as client:
        ended = await ran(client, code)
    assert said in ended.text
    assert ended.is_error

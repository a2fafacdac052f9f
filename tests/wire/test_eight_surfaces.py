"""Eight callers with eight surfaces at one server, in both eras and on three transports: each gets their own alone."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import httpx2
import pytest

from tests.wire.http_raw import events
from tests.wire.processes import Launch, served
from tests.wire.teams_server import EVERYBODYS, N_CALLERS, names, write_rules
from tests.wire.wires import ACCEPT, HTTP_WIRES, INITIALIZE, INITIALIZED, LEGACY, WireName, jsonrpc, modern_request

pytestmark = pytest.mark.outside

Ask = Callable[[str, dict[str, Any]], Any]
_SURFACE = "agent-utilities/selection"


@asynccontextmanager
async def asking(wire: WireName, web: httpx2.AsyncClient) -> AsyncIterator[Ask]:
    """What sends requests over a wire, and returns each one's whole answer."""
    if wire == "sse":
        async with web.stream("GET", "/sse") as stream:
            lines = stream.aiter_lines()
            came = (line.removeprefix("data: ") async for line in lines if line.startswith("data: "))
            endpoint = await anext(came)

            async def over_stream(method: str, params: dict[str, Any]) -> Any:
                assert (await web.post(endpoint, json=jsonrpc(method, params))).status_code == 202
                while "id" not in (answer := json.loads(await anext(came))):
                    pass
                return answer

            await web.post(endpoint, json=INITIALIZE)
            await anext(came)
            await web.post(endpoint, json=INITIALIZED)
            yield over_stream
        return
    session: list[tuple[str, str]] = []
    if wire == "legacy":
        opened = await web.post("/mcp", json=INITIALIZE, headers=[ACCEPT])
        session = [ACCEPT, ("mcp-protocol-version", LEGACY), ("mcp-session-id", opened.headers["mcp-session-id"])]
        await web.post("/mcp", json=INITIALIZED, headers=session)

    async def over_posts(method: str, params: dict[str, Any]) -> Any:
        body, headers = modern_request(method, params) if wire == "modern" else (jsonrpc(method, params), session)
        answer = await web.post("/mcp", json=body, headers=headers)
        return json.loads(next((e for e in events(iter(answer.content.splitlines())) if b'"id":' in e), answer.content))

    yield over_posts
    if session:
        await web.delete("/mcp", headers=session)


class Person:
    """One of eight callers, and in plain words what they may have.

    Args:
        number: which.
        ask: sends a request.
        web: their connection.
        random: chooses what they ask.
    """

    def __init__(self, number: int, ask: Ask, web: httpx2.AsyncClient, random: Random) -> None:
        self._number, self._ask, self._web, self._random = number, ask, web, random
        self.n_requests = 0
        self._guessed: frozenset[str] = frozenset()
        """Groups of others' that the next answer may name, as the question did."""

    def _own(self, kind: str) -> list[str]:
        return names(kind, self._number) + names(kind, EVERYBODYS)

    def _others(self, kind: str) -> str:
        group = self._random.choice([i for i in range(N_CALLERS) if i != self._number])
        return self._random.choice(names(kind, group))

    async def turn(self) -> None:
        """Ask for one thing, and check that the answer is theirs and whole."""
        asked = (self.lists, self.lists_by_words, self.calls, self.calls_anothers, self.searches, self.reads_route)
        await self._random.choice((*asked, self.uses_others, self.completes, self.lists_names))()

    async def _answer(self, method: str, params: dict[str, Any]) -> Any:
        answer = await self._ask(method, params)
        self._check(json.dumps(answer))
        return answer

    def _check(self, text: str) -> None:
        self.n_requests += 1
        marks, people = set(re.findall(r"mark(\d)", text)), set(re.findall(r"person\d", text))
        named = set(re.findall(r"(?:look|ask)_(\d)_|(?:note://|shelf)(\d)", text))
        own = {str(self._number), str(EVERYBODYS)}
        assert marks <= own, (self._number, text)
        assert people <= {f"person{self._number}"}, (self._number, text)
        assert {a or b for a, b in named} <= own | self._guessed, (self._number, text)
        self._guessed = frozenset()

    async def lists(self) -> None:
        """List all tools."""
        listed = (await self._answer("tools/list", {}))["result"]
        assert [tool["name"] for tool in listed["tools"]] == self._own("tool")

    async def lists_names(self) -> None:
        """List what is no tool."""
        for method, kind, key, name in (
            ("prompts/list", "prompt", "prompts", "name"),
            ("resources/list", "resource", "resources", "uri"),
            ("resources/templates/list", "template", "resourceTemplates", "uriTemplate"),
        ):
            listed = (await self._answer(method, {}))["result"][key]
            assert [each[name] for each in listed] == self._own(kind)

    async def lists_by_words(self) -> None:
        """List by words that fit everybody's tools alike."""
        word = f"mark{self._random.randrange(N_CALLERS)}"
        listed = (await self._answer("tools/list", {"_meta": {_SURFACE: {"query": f"look note {word}"}}}))["result"]
        assert listed["tools"]

    async def calls(self) -> None:
        """Call a tool of their own."""
        called = await self._answer("tools/call", {"name": self._random.choice(self._own("tool")), "arguments": {}})
        assert called["result"]["content"][0]["text"].endswith(f"for person{self._number}")

    async def calls_anothers(self) -> None:
        """Call a tool of another's: it is unknown."""
        name = self._others("tool")
        self._guessed = frozenset(name.split("_")[1])
        called = (await self._answer("tools/call", {"name": name, "arguments": {}}))["result"]
        assert (called["isError"], called["content"][0]["text"]) == (True, f"Unknown tool: {name!r}")

    async def searches(self) -> None:
        """Search in all tools there are."""
        params = {"name": "tool_search", "arguments": {"query": "look at a note", "max_results": 25}}
        found = await self._answer("tools/call", {**params, "_meta": {_SURFACE: {"tool_search": "on"}}})
        assert found["result"]["content"]

    async def reads_route(self) -> None:
        """Ask for the list as plain JSON."""
        body = (await self._web.get("/tools")).text
        self._check(body)
        told = json.loads(body)
        assert [tool["name"] for tool in told["tools"]] == self._own("tool")
        assert told["selection"]["access"] == {"rule": self._number + 1}

    async def uses_others(self) -> None:
        """Get a prompt and read resources, their own and another's."""
        for method, key, kind in (("prompts/get", "name", "prompt"), ("resources/read", "uri", "resource")):
            assert "result" in await self._answer(method, {key: self._random.choice(self._own(kind))})
            other = self._others(kind)
            self._guessed = frozenset(re.findall(r"_(\d)_|//(\d)/", other)[0])
            assert "error" in await self._answer(method, {key: other})

    async def completes(self) -> None:
        """Complete an argument of a prompt of their own, and of another's."""
        for name, has_any in ((self._own("prompt")[0], True), (self._others("prompt"), False)):
            params = {"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "key", "value": ""}}
            assert (
                bool((await self._answer("completion/complete", params))["result"]["completion"]["values"]) is has_any
            )


async def interleave(url: str, tokens: list[str], n_requests: int) -> list[int]:
    """Have all callers ask on all wires at once, until there were so many requests; return how many each sent."""
    async with AsyncExitStack() as stack:
        people = []
        for number, token in enumerate(tokens):
            for wire in HTTP_WIRES:
                who = {"authorization": f"Bearer {token}"}
                web = await stack.enter_async_context(httpx2.AsyncClient(base_url=url, headers=who, timeout=60))
                ask = await stack.enter_async_context(asking(wire, web))
                people.append(Person(number, ask, web, Random(f"{number}{wire}")))

        async def take_turns(person: Person) -> None:
            while sum(each.n_requests for each in people) < n_requests:
                await person.turn()

        async with asyncio.TaskGroup() as group:
            for person in people:
                group.create_task(take_turns(person))
        return [person.n_requests for person in people]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "n_requests", [240, pytest.param(10_000, marks=[pytest.mark.nightly, pytest.mark.timeout(900)])]
)
async def test_nobody_is_told_or_given_what_is_anothers(n_requests: int, tmp_path: Path) -> None:
    settings, tokens = write_rules(tmp_path)
    with served(Launch(env=(("MCP_CONFIG_FILE", str(settings)),), script="teams_server.py")) as process:
        sent = await interleave(process.url, tokens, n_requests)
        print(f"{sum(sent)} requests of {len(sent)} clients, {min(sent)} to {max(sent)} each")
        assert min(sent) > 0
        assert "Traceback" not in process.log

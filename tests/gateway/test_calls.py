"""Calls through a gateway: whatever the two eras of caller and upstream are, both get what the other one said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import mcp_types
import pytest
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from mcp.shared.exceptions import MCPError

from tests.every import every
from tests.gateway.gateways import Served, served
from tests.gateway.upstreams.supervised import script

pytestmark = [pytest.mark.anyio, pytest.mark.outside]

CALLERS = ["legacy", "auto"]
UPSTREAMS = ["old", "new", "both"]
"""What an upstream speaks: up to 2025-11-25, 2026-07-28, or either, whichever a connection begins with."""
both_eras = every("mode", CALLERS)
both_upstreams = every("upstream", UPSTREAMS)


@pytest.fixture(scope="module")
def asking() -> Iterator[Served]:
    upstreams = {"old": (), "new": ("modern",), "both": ("both",)}
    configs = [script(name, "asking_server.py", *how, forward_meta=("my.org/key",)) for name, how in upstreams.items()]
    with served(*configs) as gateway:
        assert gateway.protocol_version("old") < "2026" <= gateway.protocol_version("new")
        assert gateway.protocol_version("both") >= "2026"
        yield gateway


class Person:
    """A caller's user, model and folders, who remember what they were asked."""

    def __init__(self, name: str = "Ada") -> None:
        self.name = name
        self.asked: list[Any] = []
        self.logged: list[Any] = []
        self.progress: list[Any] = []

    def client(self, gateway: Served, mode: str, path: str = "/mcp", **options: Any) -> Client[Any]:
        handlers = {
            "elicitation_handler": self.elicited,
            "sampling_handler": self.sampled,
            "roots": ["file:///home"],
            "log_handler": self.heard,
            "progress_handler": self.moved,
        }
        return Client(gateway.url + path, mode=mode, **{**handlers, **options})

    async def elicited(self, message: str, response_type: Any, params: Any, context: Any) -> Any:
        self.asked.append(message)
        if isinstance(params, mcp_types.ElicitRequestURLParams):
            return ElicitResult(action="accept")
        return ElicitResult(action="accept", content={"name": self.name})

    async def sampled(self, messages: Any, params: Any, context: Any) -> str:
        self.asked.append(messages[0].content.text)
        return f"{self.name} says it"

    async def heard(self, message: Any) -> None:
        self.logged.append((message.level, message.data, message.logger))

    async def moved(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append((progress, total, message))


def answer(result: mcp_types.CallToolResult) -> Any:
    (content,) = result.content
    assert isinstance(content, mcp_types.TextContent)
    return json.loads(content.text) if content.text.startswith("{") else content.text


@both_eras
@both_upstreams
async def test_an_upstream_asks_the_callers_user_model_and_client(asking: Served, mode: str, upstream: str) -> None:
    person = Person()
    async with person.client(asking, mode) as client:

        async def asked_by(tool: str, **arguments: Any) -> Any:
            person.asked.clear()
            return answer(await client.call_tool_mcp(f"{upstream}_{tool}", arguments))

        accepted = {"elicit": {"action": "accept", "content": {"name": "Ada"}}}
        assert (await asked_by("elicit", message="Who are you?"), person.asked) == (accepted, ["Who are you?"])
        gone = await asked_by("elicit", url="https://example.org/x")
        assert (gone, person.asked) == ({"elicit": {"action": "accept"}}, ["Go there"])
        said = (await asked_by("sample", message="Speak"))["sample"]["content"]
        assert (said, person.asked) == ({"type": "text", "text": "Ada says it"}, ["Speak"])
        assert await asked_by("roots") == {"roots": {"roots": [{"uri": "file:///home"}]}}
        two_at_once = await asked_by("both", message="Both")
        assert (sorted(two_at_once), person.asked) == (["elicit", "sample"], ["Both", "Both"])


@both_eras
@both_upstreams
async def test_a_client_that_offers_nothing_is_not_asked(asking: Served, mode: str, upstream: str) -> None:
    async with Client(asking.url + "/mcp", mode=mode) as client:
        try:
            told = str(answer(await client.call_tool_mcp(f"{upstream}_elicit", {})))
        except MCPError as error:
            told = error.error.message
    assert "elicitation/create" in told
    assert "does not offer it" in told


@both_eras
@both_upstreams
async def test_a_caller_gets_progress_prompts_and_errors_as_they_are(asking: Served, mode: str, upstream: str) -> None:
    person = Person()
    async with person.client(asking, mode) as client:
        await client.call_tool_mcp(f"{upstream}_tell", {})
        assert person.progress == [(1, 2, "half")]
        with pytest.raises(MCPError) as raised:
            await client.call_tool_mcp(f"{upstream}_refuse", {})
        error = raised.value.error
        assert (error.code, error.message, error.data) == (-32055, "refused by the upstream", {"why": ["that is why"]})
        failed = await client.call_tool_mcp(f"{upstream}_fail", {})
        assert (failed.is_error, answer(failed), failed.structured_content) == (True, "it failed", {"why": None})
        prompt = await client.get_prompt_mcp(f"{upstream}_ask", {"city": "Ulm"})
        assert prompt.description == "asked"
        assert prompt.messages[0].content.text == "ask {'city': 'Ulm'}"  # type: ignore[union-attr]
        with pytest.raises(MCPError) as raised:
            await client.get_prompt_mcp(f"{upstream}_ask", {"city": "nowhere"})
        error = raised.value.error
        assert (error.code, error.message, error.data) == (-32056, "no such city", {"city": "nowhere"})


@both_eras
class TestMeta:
    async def test_that_is_named_crosses_and_an_upstreams_comes_back(self, asking: Served, mode: str) -> None:
        async with Person().client(asking, mode) as client:
            meta = {"my.org/key": {"a": 1}, "agent-utilities/selection": {"toolsets": "old,new"}, "my.org/other": "b"}
            result = await client.call_tool_mcp("new_meta", {}, meta=meta)
        given = answer(result)
        assert given["my.org/key"] == {"a": 1}
        assert not [key for key in given if key.startswith("agent-utilities") or key == "my.org/other"]
        assert result.meta is not None
        assert result.meta["their.org/key"] == 1

    async def test_tells_an_upstream_of_the_gateways_connection_alone(self, asking: Served, mode: str) -> None:
        async with Person().client(asking, mode) as client:
            given = answer(await client.call_tool_mcp("new_meta", {}))
            old = answer(await client.call_tool_mcp("old_meta", {}))
        assert given["io.modelcontextprotocol/clientInfo"]["name"] == "agent-utilities gateway"
        assert "io.modelcontextprotocol/clientInfo" not in old


@both_eras
async def test_an_upstream_is_told_what_the_callers_client_offers(asking: Served, mode: str) -> None:
    offered = "io.modelcontextprotocol/clientCapabilities"
    async with Person().client(asking, mode) as client:
        assert sorted(answer(await client.call_tool_mcp("new_meta", {}))[offered]) == [
            "elicitation",
            "roots",
            "sampling",
        ]
    async with Client(asking.url + "/mcp", mode=mode) as client:
        assert answer(await client.call_tool_mcp("new_meta", {}))[offered] == {}


async def test_log_messages_reach_a_caller_of_before(asking: Served) -> None:
    for upstream in UPSTREAMS:
        person = Person()
        async with person.client(asking, "legacy") as client:
            await client.call_tool_mcp(f"{upstream}_tell", {})
        assert person.logged == [("warning", {"a": [1, None]}, "here")]


@pytest.mark.filterwarnings("ignore:The logging capability is deprecated")
async def test_log_messages_below_the_level_that_was_set_are_dropped(asking: Served) -> None:
    person = Person()
    async with person.client(asking, "legacy") as client:
        await client.set_logging_level("error")
        await client.call_tool_mcp("old_tell", {})
    assert person.logged == []


@both_eras
async def test_two_callers_at_once_are_never_asked_anothers_question(asking: Served, mode: str) -> None:
    people = [Person(f"person {i}") for i in range(6)]

    async def one(person: Person, upstream: str) -> Any:
        async with person.client(asking, mode) as client:
            return answer(await client.call_tool_mcp(f"{upstream}_elicit", {"message": f"for {person.name}"}))

    calls = [one(person, UPSTREAMS[i % 3]) for i, person in enumerate(people)]
    for person, given in zip(people, await asyncio.gather(*calls), strict=True):
        assert person.asked in ([], [f"for {person.name}"])
        if person.asked:
            assert given == {"elicit": {"action": "accept", "content": {"name": person.name}}}
        else:  # which of two callers an old upstream asks can't be told: neither is
            assert "refused" in given

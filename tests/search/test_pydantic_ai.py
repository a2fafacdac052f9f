"""A pydantic-ai agent on the toolset of the page, against a real server of 63 tools."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastmcp import Client

from agent_utilities import ToolRouter
from tests.search.catalogs import names, of_topic, server
from tests.search.page import example

pydantic_ai = pytest.importorskip("pydantic_ai", reason="pydantic-ai-slim is not installed")
from pydantic_ai import Agent  # noqa: E402
from pydantic_ai.messages import (  # noqa: E402
    ModelMessage,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel  # noqa: E402
from pydantic_ai.models.test import TestModel  # noqa: E402

pytestmark = pytest.mark.anyio
ENTRY = ["tool_search", "call_tool"]


class Script:
    """A model that calls one tool after the other, and then says what the last one gave; remembers what it was listed.

    Args:
        calls: name and arguments of each.
    """

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self._calls = list(calls)
        self.listed: list[list[str]] = []
        self.told: list[str] = []

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.listed.append([tool.name for tool in info.function_tools])
        for part in messages[-1].parts:
            if isinstance(part, ToolReturnPart | RetryPromptPart):
                self.told.append(str(part.content))
        if self._calls:
            return ModelResponse([ToolCallPart(*self._calls.pop(0))])
        return ModelResponse([TextPart(self.told[-1] if self.told else "nothing to do")])


def agent(model: Any, router: ToolRouter) -> Agent[None, str]:
    return Agent(model, toolsets=[example("pydantic-ai").RoutedToolset(router)])


async def test_an_agent_searches_and_calls_what_it_found() -> None:
    script = Script(("tool_search", {"query": "send music, a song"}), ("song_share", {"id": "7"}))
    result = await agent(FunctionModel(script), ToolRouter(Client(server()))).run("what of the weather?")
    assert result.output == "song_share of 7"
    assert script.listed[0] == [*ENTRY, *of_topic("weather")]
    assert "song_share" in names(json.loads(script.told[0])["tools"])
    assert script.listed[1][: len(script.listed[0])] == script.listed[0]
    assert "song_share" in script.listed[1]


async def test_a_message_is_one_turn_however_many_requests_it_takes() -> None:
    router = ToolRouter(Client(server()))
    script = Script(*[("weather_show", {"id": str(n)}) for n in range(4)])
    async with router:
        await agent(FunctionModel(script), router).run("what of the weather?")
        assert router.active.n_turns == 1


async def test_the_set_stays_over_the_messages_of_a_conversation() -> None:
    router = ToolRouter(Client(server()))
    scripts = [Script(), Script()]
    async with router:
        for script, message in zip(scripts, ["the weather?", "the photo?"], strict=True):
            await agent(FunctionModel(script), router).run(message)
    assert scripts[1].listed == [[*ENTRY, *of_topic("weather"), *of_topic("photo")]]


async def test_arguments_that_do_not_fit_a_deferred_tool_come_back_with_its_schema() -> None:
    script = Script(
        ("call_tool", {"name": "song_share", "arguments": {"song": "7"}}),
        ("call_tool", {"name": "song_share", "arguments": {"id": "7"}}),
    )
    result = await agent(FunctionModel(script), ToolRouter(Client(server()))).run("hello")
    assert 'song_share takes: {"type":"object"' in script.told[0]
    assert result.output == "song_share of 7"


async def test_pydantic_ais_own_test_model_takes_the_schemas() -> None:
    model = TestModel(call_tools=["tool_search"])
    result = await agent(model, ToolRouter(Client(server()))).run("hello")
    assert "tool_search" in result.output
    assert [tool.name for tool in model.last_model_request_parameters.function_tools][:2] == ENTRY

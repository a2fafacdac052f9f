"""The page on `ToolRouter`: its examples, run as they stand, and its table of settings."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from agent_utilities import ToolRouter
from tests.search.catalogs import add, catalog, names, of_topic, server
from tests.search.page import PAGE, example

pytestmark = pytest.mark.anyio


class ScriptedModel:
    """Calls one tool after the other, and then says that it is done; remembers what it was listed.

    Args:
        calls: name and arguments of each, as JSON text.
    """

    def __init__(self, *calls: tuple[str, str]) -> None:
        self._calls = list(calls)
        self.listed: list[list[str]] = []

    async def __call__(self, history: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        self.listed.append([tool["function"]["name"] for tool in tools])
        if not self._calls:
            return {"role": "assistant", "content": "done"}
        name, arguments = self._calls.pop(0)
        return {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": name, "arguments": arguments}}]}


def told(history: list[dict[str, Any]]) -> list[str]:
    return [message["content"] for message in history if message["role"] == "tool"]


class TestLoop:
    async def converse(
        self, model: ScriptedModel, own_tools: dict[str, Callable[..., Any]] | None = None
    ) -> list[dict[str, Any]]:
        history: list[dict[str, Any]] = await example("loop").converse(
            server(), ["what of the weather?"], model, own_tools or {}
        )
        return history

    async def test_what_was_searched_is_listed_and_called(self) -> None:
        model = ScriptedModel(("tool_search", json.dumps({"query": "a song"})), ("song_share", json.dumps({"id": "7"})))
        history = await self.converse(model)
        assert "song_share" in names(json.loads(told(history)[0])["tools"])
        assert told(history)[1] == "song_share of 7"
        first, second, _ = model.listed
        assert first == ["tool_search", "call_tool", "invoice_show", *of_topic("weather")]
        assert second[: len(first)] == first
        assert "song_share" in second

    async def test_a_deferred_tool_is_called_right_away(self) -> None:
        call = json.dumps({"name": "song_share", "arguments": {"id": "7"}})
        assert told(await self.converse(ScriptedModel(("call_tool", call)))) == ["song_share of 7"]

    async def test_the_hosts_own_tools_are_the_hosts(self) -> None:
        own_tools = {"clock": lambda: "noon", "tool_search": lambda: "mine"}
        model = ScriptedModel(("clock", "{}"), ("tool_search", "{}"), ("mcp_tool_search", '{"query": "song"}'))
        history = await self.converse(model, own_tools)
        assert told(history)[:2] == ["noon", "mine"]
        assert "song_show" in told(history)[2]
        assert model.listed[0][0] == "mcp_tool_search"

    async def test_the_models_mistakes_are_told_to_it(self) -> None:
        (text,) = told(await self.converse(ScriptedModel(("tool_search", '{"max_results": 3}'))))
        assert text.startswith("error: no words to search for")


async def test_a_router_that_hears_lists_what_came() -> None:
    mcp = server()
    async with example("changes").router_that_hears(mcp) as router:
        assert not router.knows("crane_lift")
        add(mcp, "crane_lift", "Lifts a load with the crane.", "crane")
        await router.heard(type("Message", (), {"method": "notifications/tools/list_changed"})())
        assert (await router.turn("lift the load with a crane")).added == ("crane_lift",)


async def test_two_children_of_one_router() -> None:
    router = ToolRouter(catalog())
    await router.turn("the photo")

    async def work(child: ToolRouter, task: str) -> list[str]:
        return names(child.tools())[2:]

    inheriting, fresh = await example("children").delegate(router, "the song", work)
    assert (inheriting, fresh) == (of_topic("photo"), of_topic("song"))


def test_the_table_has_every_argument_and_no_other() -> None:
    table = re.findall(r"^\| `(\w+)` \|", PAGE.read_text("utf-8").partition("## Settings")[2], re.MULTILINE)
    arguments = [name for name in inspect.signature(ToolRouter.__init__).parameters if name != "self"]
    assert sorted(table) == sorted(arguments[1:])

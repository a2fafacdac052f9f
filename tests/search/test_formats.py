"""Tools as providers take them, and the way back from the names that they take."""

from __future__ import annotations

import re
from copy import deepcopy
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import Tool, ToolAnnotations

from agent_utilities import ToolRouter
from agent_utilities.errors import InputError
from agent_utilities.search.router_tools import RoutedTools, legal_names
from tests.every import every
from tests.search.catalogs import tool

LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ODD_NAMES = ["a.b", "a/b", "a b", "a_b", "é" * 70, "x" * 64, "x" * 65]
ANY_NAME = st.text(min_size=1, max_size=90) | st.sampled_from(ODD_NAMES)


class TestFormats:
    ROUTER = ToolRouter([tool("git.log", "Shows history.")], tool_search="off")

    def test_mcp_is_what_a_server_lists(self) -> None:
        assert self.ROUTER.tools() == [tool("git.log", "Shows history.")]

    def test_openai_is_functions(self) -> None:
        (given,) = self.ROUTER.tools("openai")
        assert given["type"] == "function"
        assert set(given["function"]) == {"name", "description", "parameters"}
        assert given["function"]["parameters"] == tool("git.log")["inputSchema"]

    def test_anthropic_is_flat(self) -> None:
        (given,) = self.ROUTER.tools("anthropic")
        assert set(given) == {"name", "description", "input_schema"}
        assert given["description"] == "Shows history."

    def test_another_is_refused(self) -> None:
        with pytest.raises(InputError, match="give mcp, openai or anthropic"):
            self.ROUTER.tools("gemini")  # type: ignore[arg-type]

    def test_what_a_host_does_to_them_does_nothing_to_the_routers(self) -> None:
        before = deepcopy(self.ROUTER.tools())
        for wanted in ("mcp", "openai", "anthropic"):
            (given,) = self.ROUTER.tools(wanted)  # type: ignore[arg-type]
            schema = given.get("inputSchema") or given.get("input_schema") or given["function"]["parameters"]
            schema["properties"]["id"]["type"] = "integer"
            given.clear()
        assert self.ROUTER.tools() == before


_SCHEMA = {"type": "object", "properties": {"amount": {"type": "integer"}, "to": {"type": "string"}}}
_PAY = {"name": "pay", "description": "Pay somebody."}
_SDK = Tool(**_PAY, input_schema=_SCHEMA, output_schema={"type": "object"}, meta={"fastmcp": {"tags": ["money"]}})
_WRITTEN: dict[str, Any] = {
    "as tools/list sends it": {**_PAY, "inputSchema": _SCHEMA},
    "an object of the SDK": _SDK,
    "what that dumps": _SDK.model_dump(),
    "what that dumps by its aliases": _SDK.model_dump(by_alias=True),
    "Anthropic's": {**_PAY, "input_schema": _SCHEMA},
    "Anthropic's with its type": {**_PAY, "type": "custom", "input_schema": _SCHEMA},
    "OpenAI's responses": {**_PAY, "type": "function", "parameters": _SCHEMA, "strict": True},
    "OpenAI's chat completions": {"type": "function", "function": {**_PAY, "parameters": _SCHEMA, "strict": None}},
    "OpenAI's, objects": SimpleNamespace(type="function", function=SimpleNamespace(**_PAY, parameters=_SCHEMA)),
    "an object": SimpleNamespace(**_PAY, input_schema=_SCHEMA, output_schema=None),
    "a mapping that is no dict": MappingProxyType({**_PAY, "parameters": MappingProxyType(_SCHEMA)}),
}


class TestWrittenByOthers:
    @every("written", _WRITTEN.values(), ids=_WRITTEN)
    def test_a_tool_keeps_its_name_description_and_schema(self, written: Any) -> None:
        router = ToolRouter([written], tool_search="off")
        assert router.tools("anthropic") == [{**_PAY, "input_schema": _SCHEMA}]
        assert router.tools("openai") == [{"type": "function", "function": {**_PAY, "parameters": _SCHEMA}}]

    @every("of_others", [_SDK, _SDK.model_dump(), _SDK.model_dump(by_alias=True)])
    def test_an_sdk_tool_is_told_as_a_server_lists_it(self, of_others: Any) -> None:
        assert ToolRouter([of_others], tool_search="off").tools() == [_SDK.model_dump(by_alias=True, exclude_none=True)]

    def test_hints_are_told_as_a_server_tells_them(self) -> None:
        hinted = Tool(**_PAY, input_schema=_SCHEMA, annotations=ToolAnnotations(read_only_hint=True)).model_dump()
        assert ToolRouter([hinted], tool_search="off").tools()[0]["annotations"] == {"readOnlyHint": True}

    @every("odd", [{"type": "function", "function": None}, {"input_schema": {}}, 3, "pay", None])
    def test_what_has_no_name_is_refused(self, odd: Any) -> None:
        with pytest.raises(InputError, match="not a tool with a name"):
            ToolRouter([odd])


class TestNames:
    @given(st.lists(ANY_NAME, max_size=20))
    def test_every_name_is_legal_no_two_are_alike_and_each_leads_back(self, given_names: list[str]) -> None:
        tools = RoutedTools([tool(name) for name in given_names])
        assert all(LEGAL.fullmatch(name) for name in tools.legal.values())
        assert len(set(tools.legal.values())) == len(tools.legal)
        assert {name: tools.own(legal) for name, legal in tools.legal.items()} == {name: name for name in given_names}

    def test_a_legal_name_stays_as_it_is(self) -> None:
        names = "git_log-2", "x" * 64
        assert legal_names(names) == dict(zip(names, names, strict=True))

    @given(ANY_NAME, st.lists(st.sampled_from(["a.b", "a/b", "git_log"])))
    def test_a_name_does_not_depend_on_what_other_tools_there_are(self, name: str, others: list[str]) -> None:
        assert legal_names([name])[name] == legal_names([*others, name])[name]

    def test_a_tool_that_is_called_like_anothers_legal_name_takes_nothing_from_it(self) -> None:
        usurper = legal_names(["git.log"])["git.log"]
        tools = RoutedTools([tool("git.log"), tool(usurper)])
        assert tools.legal["git.log"] != usurper
        assert tools.own(usurper) == usurper
        assert tools.own(tools.legal["git.log"]) == "git.log"

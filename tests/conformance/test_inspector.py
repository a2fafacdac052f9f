"""The MCP Inspector sees exactly the tools that a selection leaves, on both wires and in both protocol eras."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import node
from tests.every import every
from tests.wire.processes import HttpProcess

pytestmark = [pytest.mark.node, pytest.mark.timeout(600)]

ALL = ["read_note", "list_notes", "write_note", "delete_note"]

_CALL_S = 60
_SERVER = [sys.executable, str(Path(__file__).with_name("inspected_server.py"))]
_ENVIRON = {name: value for name, value in os.environ.items() if not name.startswith("MCP_")}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    process = HttpProcess([*_SERVER, "-t", "http", "-p", "0", "--log-level", "info"], _ENVIRON)
    try:
        process.wait()
        yield f"{process.url}/mcp"
    finally:
        process.stop()


@dataclass(frozen=True)
class Inspector:
    """The Inspector's command line.

    Args:
        command: how it is started.
        home: the folder it may keep its settings in.
    """

    command: Sequence[str]
    home: Path

    def ask(self, *arguments: str) -> dict[str, Any]:
        """Return the answer: a `result`, or an `error`."""
        done = subprocess.run(
            [*self.command, "--cli", *arguments, "--format", "json"],
            env={**_ENVIRON, "HOME": str(self.home)},
            capture_output=True,
            text=True,
            timeout=_CALL_S,
        )
        # A result goes to stdout; an error is the last line on stderr, with an exit code of its own.
        lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
        assert lines, f"exit {done.returncode}, and not a word"
        answer: dict[str, Any] = json.loads(lines[-1])
        return answer

    def tools(self, *arguments: str) -> list[str]:
        """Return the names of the listed tools, in their order."""
        return [tool["name"] for tool in self.ask(*arguments, "--method", "tools/list")["result"]["tools"]]

    def call(self, name: str, *arguments: str) -> dict[str, Any]:
        """Return the answer to a call with the argument `name`."""
        return self.ask(*arguments, "--method", "tools/call", "--tool-name", name, "--tool-arg", "name=today")


@pytest.fixture(scope="module")
def inspector(tmp_path_factory: pytest.TempPathFactory) -> Inspector:
    return Inspector(node.inspector(), tmp_path_factory.mktemp("inspector"))


in_both_eras = every("era", ["legacy", "modern"])
MODERN = ("--protocol-era", "modern")
"""Where the era decides nothing that is not looked at in both elsewhere."""


class TestListing:
    @in_both_eras
    def test_without_a_selection_every_tool_is_listed(self, inspector: Inspector, url: str, era: str) -> None:
        assert inspector.tools(url, "--protocol-era", era) == ALL

    @in_both_eras
    def test_a_header_leaves_only_what_it_names(self, inspector: Inspector, url: str, era: str) -> None:
        header = "x-mcp-enabled-tools: delete_note,read_note"
        assert inspector.tools(url, "--protocol-era", era, "--header", header) == ["read_note", "delete_note"]

    def test_a_query_leaves_only_what_it_names(self, inspector: Inspector, url: str) -> None:
        assert inspector.tools(f"{url}?tools=write_note,list_notes", *MODERN) == ["list_notes", "write_note"]

    @in_both_eras
    def test_over_stdio_the_servers_own_flag_leaves_only_what_it_names(self, inspector: Inspector, era: str) -> None:
        selected = ("--tools", "delete_note,read_note")
        assert inspector.tools("--protocol-era", era, *_SERVER, *selected) == ["read_note", "delete_note"]


class TestCalling:
    DENY = ("--header", "x-mcp-disabled-tools: delete_note")

    @in_both_eras
    def test_a_denied_tool_reads_as_one_that_never_existed(self, inspector: Inspector, url: str, era: str) -> None:
        denied = inspector.call("delete_note", url, "--protocol-era", era, *self.DENY)
        unknown = inspector.call("no_such_tool", url, "--protocol-era", era, *self.DENY)
        assert denied["error"]["code"] == "tool_not_found"
        assert json.dumps(denied).replace("delete_note", "no_such_tool") == json.dumps(unknown)

    @in_both_eras
    def test_the_same_tool_answers_a_caller_who_does_not_deny_it(
        self, inspector: Inspector, url: str, era: str
    ) -> None:
        answer = inspector.call("delete_note", url, "--protocol-era", era)
        assert answer["result"]["content"] == [{"type": "text", "text": "deleted today"}]


class TestWhereToolsAreDeferred:
    """Each of the Inspector's calls is a session, or a request, of its own."""

    ON = ("--header", "x-mcp-tool-search: on")
    ENTRY = ("tool_search", "call_tool")

    def test_over_stdio_the_entry_tools_and_pins_are_listed_where_the_operator_says_so(
        self, inspector: Inspector
    ) -> None:
        arguments = ("--tool-search", "on", "--pin", "list_notes")
        assert inspector.tools(*MODERN, *_SERVER, *arguments) == [*self.ENTRY, "list_notes"]

    @in_both_eras
    def test_call_tool_answers_as_the_tool_does(self, inspector: Inspector, url: str, era: str) -> None:
        given = ("name=read_note", 'arguments={"name": "today"}')
        assert self._call(inspector, url, era, "call_tool", *given)["content"] == [
            {"type": "text", "text": "the note today"}
        ]

    @in_both_eras
    def test_what_a_search_told_brings_the_tool_it_found_into_the_list(
        self, inspector: Inspector, url: str, era: str
    ) -> None:
        told = self._call(inspector, url, era, "tool_search", "query=select:delete_note")
        found = json.loads(told["content"][0]["text"])["tools"]
        assert (found[0]["name"], found[0]["inputSchema"]["required"]) == ("delete_note", ["name"])
        brought = ("--header", f"x-mcp-active: {told['structuredContent']['active']}")
        assert inspector.tools(url, "--protocol-era", era, *self.ON, *brought) == [*self.ENTRY, "delete_note"]

    def _call(self, inspector: Inspector, url: str, era: str, tool: str, *arguments: str) -> dict[str, Any]:
        given = [part for argument in arguments for part in ("--tool-arg", argument)]
        asked = ("--method", "tools/call", "--tool-name", tool, *given)
        answer = inspector.ask(url, "--protocol-era", era, *self.ON, *asked)
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

"""Two gateways in processes of their own that share a Redis: what one shortened its caller reads on at the other."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from agent_utilities.access.token_file import revoke_token
from tests.access.team import Team
from tests.every import every
from tests.fleet.processes.replicas import shared_redis
from tests.gateway.upstreams.gateway_process import Gateway, gateway
from tests.wire.wires import Answer, WireName

pytestmark = [pytest.mark.outside, pytest.mark.timeout(120)]

_CODE = """
from fastmcp import FastMCP
mcp = FastMCP("notes")
@mcp.tool
def read_log() -> str:
    return "".join(f"line {i} of the log\\n" for i in range(9_000))
mcp.run()
"""
_RULES = """
[auth]
tokens = "{tokens}"
[profiles.no_log]
disabled_tools = ["notes_read_log"]
[[access]]
who = {{ subject = ["ann", "bob", "carol"] }}
profile = "all"
[[access]]
who = {{ subject = "dan" }}
profile = "%s"
"""
_PAUSE = threading.Event()
"""Never set: it is waited for between two looks."""


@dataclass(frozen=True)
class Two:
    """Two gateways of one team."""

    here: Gateway
    there: Gateway
    team: Team
    tokens: dict[str, dict[str, str]]

    def ask(self, at: Gateway, who: str, method: str, wire: WireName = "modern", **params: Any) -> Answer:
        with at.calling(wire, headers=[*self.tokens[who].items()]) as caller:
            return caller.ask(method, params)

    def handle(self, who: str, wire: WireName = "modern") -> str:
        """Return the handle of a result that was shortened here for somebody."""
        result = self.ask(self.here, who, "tools/call", wire, name="notes_read_log", arguments={}).result
        return str(result["_meta"]["agent-utilities/result"]["handle"])

    def read(self, who: str, handle: str, wire: WireName = "modern") -> Answer:
        """Return the answer to who reads on there."""
        arguments = {"result": handle, "find": "line 4321 "}
        return self.ask(self.there, who, "tools/call", wire, name="read_result", arguments=arguments)

    def reads_as_unknown(self, who: str, handle: str) -> bool:
        """Whether a handle is answered, byte for byte, as one that never was."""
        never = "r_" + "a" * 26
        unknown = self.read(who, never)
        assert unknown.result["isError"]
        return self.read(who, handle).raw.replace(handle.encode(), never.encode()) == unknown.raw


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    folder = tmp_path_factory.mktemp("two")
    team = Team(folder, _RULES % "all")
    tokens = {name: team.token(name) for name in ("ann", "bob", "carol", "dan")}
    config = {"mcpServers": {"notes": {"command": sys.executable, "args": ["-c", _CODE]}}}
    with ExitStack() as opened:
        shared = opened.enter_context(shared_redis(folder))
        environ = {**shared.environ, "MCP_CONFIG_FILE": str(team.settings), "MCP_RESULT_TOKENS": "2000"}
        gateways = list[Gateway]()
        for name in ("here", "there"):
            (own := folder / name).mkdir()
            gateways.append(opened.enter_context(gateway(config, own, "--name", "team", **environ)))
        it = Two(*gateways, team, tokens)
        for each in gateways:
            until(lambda each=each: "notes_read_log" in names(it, each, "ann"))  # type: ignore[misc]
        yield it


def names(two: Two, at: Gateway, who: str) -> list[str]:
    return [tool["name"] for tool in two.ask(at, who, "tools/list").result["tools"]]


def until(holds: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end_s
        _PAUSE.wait(0.05)


@every("wire", ["legacy", "modern"])
def test_what_one_has_shortened_its_caller_reads_on_at_the_other(two: Two, wire: WireName) -> None:
    result = two.read("ann", two.handle("ann", wire), wire).result
    assert "line 4321 of the log" in result["content"][1]["text"]


def test_a_handle_that_was_passed_on_reads_as_one_that_never_was(two: Two) -> None:
    handle = two.handle("ann")
    assert two.reads_as_unknown("bob", handle)
    assert not two.reads_as_unknown("ann", handle)


def test_whose_token_was_revoked_since_the_call_reads_nothing(two: Two) -> None:
    handle = two.handle("carol")
    revoke_token(two.team.tokens, "carol")
    until(lambda: two.read("carol", handle).status == 401)
    assert b"line 4321" not in two.read("carol", handle).raw


def test_whose_tool_was_denied_since_the_call_reads_what_reads_as_one_that_never_was(two: Two) -> None:
    handle = two.handle("dan")
    assert not two.reads_as_unknown("dan", handle)
    two.team.write(_RULES % "no_log")
    until(lambda: "notes_read_log" not in names(two, two.there, "dan"))
    assert two.reads_as_unknown("dan", handle)

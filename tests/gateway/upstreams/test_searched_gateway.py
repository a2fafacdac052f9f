"""Tool search at a gateway, seen from the wire: it says that its list changes, and tells of each change in time."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import pytest

from tests.every import every_of
from tests.gateway.upstreams.gateway_process import GATEWAY, environ, gateway
from tests.wire.raw_clients import NOTICE, Raw, RawSession, call, raw_stdio, search, text_of

pytestmark = [pytest.mark.outside, pytest.mark.timeout(300)]

SERVER = Path(__file__).parents[2] / "wire" / "topics_server.py"
CONFIG = {"mcpServers": {"day": {"command": sys.executable, "args": [str(SERVER)]}}}
N_TOOLS = 60
Wire = Literal["stdio", "session"]


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[Wire, Raw]]:
    """Clients of gateways that know their upstream; one for all tests, of which the first alone loads a tool."""
    folder = tmp_path_factory.mktemp("stdio")
    file = folder / "mcp.json"
    file.write_text(json.dumps(CONFIG), encoding="utf-8")
    command = [*GATEWAY, str(file)]
    with (
        gateway(CONFIG, tmp_path_factory.mktemp("session"), MCP_TOOL_SEARCH="auto") as it,
        raw_stdio(command, environ(folder, MCP_TOOL_SEARCH="auto")) as over_stdio,
    ):
        session = RawSession(it.process.url)
        yield {"stdio": _once_known(over_stdio), "session": _once_known(session)}
        session.rest()


def _once_known(raw: Raw) -> Raw:
    everything = {"_meta": {"agent-utilities/selection": {"tool_search": "off"}}}
    while len(raw.ask("tools/list", everything)[-1]["result"]["tools"]) < N_TOOLS:
        pass
    return raw


@every_of("raw", "clients")
def test_a_tool_that_a_search_loads_is_told_of_listed_and_called(raw: Raw) -> None:
    assert raw.hello["capabilities"]["tools"]["listChanged"] is True
    *told, result = search(raw, "select:day_tides")
    # One before it may tell of the upstream, which had just become known.
    assert (told[-1:], "day_tides" in text_of(result)) == ([NOTICE], True)
    assert [tool["name"] for tool in raw.ask("tools/list", {})[-1]["result"]["tools"]] == [
        "tool_search",
        "call_tool",
        "day_tides",
    ]
    assert text_of(call(raw, "day_tides", subject="Kiel")[-1]) == "tides Kiel"


@every_of("raw", "clients")
def test_progress_of_a_deferred_tool_comes_through_call_tool(raw: Raw) -> None:
    params = {"name": "call_tool", "arguments": {"name": "day_train_delays", "arguments": {"subject": "Bonn"}}}
    *told, result = raw.ask("tools/call", {**params, "_meta": {"progressToken": "here"}})
    assert [message["params"]["progress"] for message in told if message["method"] == "notifications/progress"] == [
        1,
        2,
    ]
    assert text_of(result) == "none at Bonn"


@every_of("raw", "clients")
def test_a_result_by_a_schema_comes_through_call_tool(raw: Raw) -> None:
    result = call(raw, "call_tool", name="day_snow_depth", arguments={"subject": "Zugspitze"})[-1]["result"]
    assert result["structuredContent"] == {"place": "Zugspitze", "cm": 42}

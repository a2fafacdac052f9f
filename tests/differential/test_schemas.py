"""A tool whose schema a caller's version does not have costs nobody the others: on servers of ours too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.differential.compare import listed
from tests.differential.raw import ROOT, HttpClient
from tests.every import every
from tests.wire.processes import HttpProcess, Launch
from tests.wire.wires import LEGACY, MODERN

pytestmark = pytest.mark.outside

N_TOOLS = 200
N_NIGHTLY = 5_000


@pytest.fixture(scope="module", params=[N_TOOLS, pytest.param(N_NIGHTLY, marks=pytest.mark.nightly)])
def server(request: pytest.FixtureRequest) -> Iterator[tuple[HttpProcess, int]]:
    launch = Launch(
        env=(("PYTHONPATH", str(ROOT)), ("MCP_TOOL_SEARCH", "off")),
        script=str(Path(__file__).with_name("schemas_server.py")),
    )
    command = launch.command(f"0,{request.param}", "-t", "http", "-p", "0", "--log-level", "info")
    process = HttpProcess(command, launch.environ)
    try:
        process.wait()
        yield process, request.param
    finally:
        process.stop()


@every("era", [LEGACY, MODERN])
def test_every_tool_is_listed(server: tuple[HttpProcess, int], era: str) -> None:
    process, n_tools = server
    with closing(HttpClient(process.url, era)) as client:
        tools = [tool["name"] for tool in listed(client, "tools/list", "tools")]
    assert tools == ["honest", *(f"t{n}" for n in range(n_tools))]


@every("era", [LEGACY, MODERN])
def test_every_tool_can_be_called(server: tuple[HttpProcess, int], era: str) -> None:
    process, n_tools = server
    refused = {}
    with closing(HttpClient(process.url, era)) as client:
        for n in range(min(n_tools, N_TOOLS)):
            answer = client.ask("tools/call", {"name": f"t{n}", "arguments": {"a": n}}).answer
            given = {"given": {"a": n}}
            if answer is None or answer.get("result", {}).get("structuredContent") not in (given, {"result": given}):
                refused[n] = answer
    assert refused == {}

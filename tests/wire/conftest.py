"""Servers as real processes, one for each launch, and a caller on every wire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest

from tests.wire.expected import LAUNCHES
from tests.wire.processes import HttpProcess, Launch, served
from tests.wire.wires import WIRES, Access, Caller, stdio_caller

NOT_BEHIND = {
    "test_a_permitted_app_tool_answers_to_its_hash": "the tool of an app is called by its name alone behind a gateway",
}
"""Tests that do not hold of a server behind a gateway, and why."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items if config.getoption("--behind-gateway") else ():
        if (reason := NOT_BEHIND.get(item.name)) is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def launches(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Launch]:
    """How the bounded server is launched; with `--behind-gateway`, a gateway in front of it, under the same bounds."""
    if not request.config.getoption("--behind-gateway"):
        return LAUNCHES
    own = (("MCP_GATEWAY_FOLDER", str(tmp_path_factory.mktemp("gateway"))), ("MCP_RESULT_TOKENS", "off"))
    return {
        name: replace(launch, script="behind_server.py", env=(*launch.env, *own)) for name, launch in LAUNCHES.items()
    }


@pytest.fixture(scope="session")
def servers(launches: Mapping[str, Launch]) -> Iterator[Mapping[str, HttpProcess]]:
    """The bounded server over HTTP, once for each launch."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(served(launch)) for name, launch in launches.items()}


@pytest.fixture(scope="session")
def accesses(servers: Mapping[str, HttpProcess]) -> Iterator[Mapping[str, Access]]:
    """A way into each of the servers, by launch."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(closing(Access(process.url))) for name, process in servers.items()}


@pytest.fixture(scope="session")
def callers(launches: Mapping[str, Launch], accesses: Mapping[str, Access]) -> Iterator[Mapping[str, Caller]]:
    """A caller that sends no selection, over each wire, to a server under each launch: `env-stdio`, and so on."""
    with ExitStack() as stack:
        yield {
            f"{launch}-{wire}": stack.enter_context(
                stdio_caller(launches[launch]) if wire == "stdio" else access.calling(wire)
            )
            for launch, access in accesses.items()
            for wire in WIRES
        }

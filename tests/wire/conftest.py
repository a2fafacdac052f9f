"""Servers as real processes, one for each launch, and a caller on every wire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest

from tests.wire.expected import LAUNCHES
from tests.wire.processes import HttpProcess, served
from tests.wire.wires import HTTP_WIRES, WIRES, Access, Caller, WireName, stdio_caller


@pytest.fixture(scope="session")
def servers() -> Iterator[Mapping[str, HttpProcess]]:
    """The bounded server over HTTP, once for each launch."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(served(launch)) for name, launch in LAUNCHES.items()}


@pytest.fixture(scope="session", params=LAUNCHES)
def launch(request: pytest.FixtureRequest) -> str:
    """How the operator bounds the server: by environment, or on the command line."""
    return str(request.param)


@pytest.fixture(scope="session")
def accesses(servers: Mapping[str, HttpProcess]) -> Iterator[Mapping[str, Access]]:
    """A way into each of the servers."""
    found = {name: Access(process.url) for name, process in servers.items()}
    yield found
    for access in found.values():
        access.close()


@pytest.fixture(scope="session")
def access(accesses: Mapping[str, Access], launch: str) -> Access:
    """A way into the bounded server, under each launch."""
    return accesses[launch]


@pytest.fixture(scope="session", params=HTTP_WIRES)
def http_wire(request: pytest.FixtureRequest) -> WireName:
    """Each wire that has URLs and headers."""
    wire: WireName = request.param
    return wire


@pytest.fixture(scope="session", params=WIRES)
def caller(request: pytest.FixtureRequest, accesses: Mapping[str, Access], launch: str) -> Iterator[Caller]:
    """A caller that sends no selection, over each wire, to a server under each launch."""
    wire: WireName = request.param
    with stdio_caller(LAUNCHES[launch]) if wire == "stdio" else accesses[launch].calling(wire) as found:
        yield found

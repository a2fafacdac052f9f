"""Servers as real processes, one for each launch, and a caller on every wire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing

import pytest

from tests.wire.expected import LAUNCHES
from tests.wire.processes import HttpProcess, served
from tests.wire.wires import WIRES, Access, Caller, stdio_caller


@pytest.fixture(scope="session")
def servers() -> Iterator[Mapping[str, HttpProcess]]:
    """The bounded server over HTTP, once for each launch."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(served(launch)) for name, launch in LAUNCHES.items()}


@pytest.fixture(scope="session")
def accesses(servers: Mapping[str, HttpProcess]) -> Iterator[Mapping[str, Access]]:
    """A way into each of the servers, by launch."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(closing(Access(process.url))) for name, process in servers.items()}


@pytest.fixture(scope="session")
def callers(accesses: Mapping[str, Access]) -> Iterator[Mapping[str, Caller]]:
    """A caller that sends no selection, over each wire, to a server under each launch: `env-stdio`, and so on."""
    with ExitStack() as stack:
        yield {
            f"{launch}-{wire}": stack.enter_context(
                stdio_caller(LAUNCHES[launch]) if wire == "stdio" else access.calling(wire)
            )
            for launch, access in accesses.items()
            for wire in WIRES
        }

"""A deny is checked on what runs, however far behind a mount or a proxy that is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.wire.expected import LEAKED
from tests.wire.processes import Launch, served
from tests.wire.wires import WIRES, Access, Caller, WireName, stdio_caller

NESTED = Launch(env=(("MCP_DISABLED_TAGS", "write"),), script="nested_server.py")
VERSIONS = [None, "1", "2", "3", "0"]

Request = tuple[str, dict[str, Any]]
PROXIED: list[Request] = [
    ("tools/call", {"name": "far_draw", "arguments": {}}),
    ("prompts/get", {"name": "far_say"}),
    ("resources/read", {"uri": "page://far/cover"}),
    ("resources/read", {"uri": "leaf://far/green"}),
]
SHADOWING: list[Request] = [("resources/read", {"uri": "toy://kid/red"})]
MIXED: list[Request] = [
    ("tools/call", {"name": "kid_mix", "arguments": {}}),
    ("prompts/get", {"name": "kid_blend"}),
    ("resources/read", {"uri": "pot://kid/blue"}),
]


@pytest.fixture(scope="module")
def access() -> Iterator[Access]:
    """A way into the server over others."""
    with served(NESTED) as process, closing(Access(process.url)) as found:
        yield found


@pytest.fixture(scope="module")
def callers(access: Access) -> Iterator[dict[WireName, Caller]]:
    """A caller on each wire."""
    with ExitStack() as stack:
        found: dict[WireName, Caller] = {"stdio": stack.enter_context(stdio_caller(NESTED))}
        yield found | {wire: stack.enter_context(access.calling(wire)) for wire in WIRES if wire != "stdio"}


@pytest.fixture(params=WIRES)
def caller(request: pytest.FixtureRequest, callers: dict[WireName, Caller]) -> Caller:
    """A caller on every wire."""
    return callers[request.param]


def cases(requests: list[Request]) -> list[Any]:
    """Return each request with each version."""
    return [
        pytest.param(method, params, version, id=f"{name}-{version}")
        for method, params in requests
        for name in [params.get("name") or params["uri"]]
        for version in VERSIONS
    ]


@pytest.mark.parametrize(
    ("method", "params", "version"),
    [*cases(PROXIED), *cases(SHADOWING), *cases(MIXED)],
)
def test_no_version_of_a_request_runs_what_is_denied(
    caller: Caller, method: str, params: dict[str, Any], version: str | None
) -> None:
    meta = {} if version is None else {"_meta": {"fastmcp": {"version": version}}}
    assert LEAKED.encode() not in caller.ask(method, {**params, **meta}).raw


@pytest.mark.parametrize(("method", "params"), PROXIED)
def test_what_is_permitted_behind_a_proxy_is_served(caller: Caller, method: str, params: dict[str, Any]) -> None:
    assert not caller.ask(method, params).refused


def test_what_a_template_behind_a_mount_permits_is_served(caller: Caller) -> None:
    assert not caller.ask("resources/read", {"uri": "toy://kid/green"}).refused

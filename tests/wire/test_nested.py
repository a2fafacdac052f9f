"""A deny is checked on what runs, however far behind a mount or a proxy that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.every import every, every_of
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
def callers() -> Iterator[Mapping[WireName, Caller]]:
    """A caller of the server over others, on each wire."""
    with ExitStack() as stack:
        process = stack.enter_context(served(NESTED))
        access = stack.enter_context(closing(Access(process.url)))
        yield {
            wire: stack.enter_context(stdio_caller(NESTED) if wire == "stdio" else access.calling(wire))
            for wire in WIRES
        }


def cases(requests: list[Request]) -> list[Any]:
    """Return each request with each version."""
    return [
        pytest.param(method, params, version, id=f"{name}-{version}")
        for method, params in requests
        for name in [params.get("name") or params["uri"]]
        for version in VERSIONS
    ]


@every_of("caller", "callers")
@every(
    ("method", "params", "version"),
    [*cases(PROXIED), *cases(SHADOWING), *cases(MIXED)],
)
def test_no_version_of_a_request_runs_what_is_denied(
    caller: Caller, method: str, params: dict[str, Any], version: str | None
) -> None:
    meta = {} if version is None else {"_meta": {"fastmcp": {"version": version}}}
    assert LEAKED.encode() not in caller.ask(method, {**params, **meta}).raw


@every_of("caller", "callers")
@every(("method", "params"), PROXIED)
def test_what_is_permitted_behind_a_proxy_is_served(caller: Caller, method: str, params: dict[str, Any]) -> None:
    assert not caller.ask(method, params).refused


@every_of("caller", "callers")
def test_what_a_template_behind_a_mount_permits_is_served(caller: Caller) -> None:
    assert not caller.ask("resources/read", {"uri": "toy://kid/green"}).refused

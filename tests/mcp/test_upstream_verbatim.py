"""What real servers list and answer is what a gateway lists and answers, to the byte."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest

from agent_utilities.upstream.config_files import read_servers
from tests.mcp.gateways import Served, served
from tests.upstream.direct import all_direct
from tests.upstream.real_servers import N_TOOLS, real_config
from tests.wire.http_raw import RawHttp
from tests.wire.wires import Caller, LegacyCaller, ModernCaller

pytestmark = pytest.mark.outside

KINDS = {"tools": "name", "prompts": "name", "resources": "uri", "resources/templates": "uriTemplate"}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    return real_config(tmp_path_factory.mktemp("real"))


@pytest.fixture(scope="module")
def direct(config: Mapping[str, Any]) -> Iterator[Mapping[str, Caller]]:
    with all_direct(config) as callers:
        yield callers


@pytest.fixture(scope="module")
def gateway(config: Mapping[str, Any]) -> Iterator[Served]:
    with served(*read_servers(config, {}).upstreams) as gateway:
        yield gateway


def listed(caller: Caller, kind: str) -> list[dict[str, Any]]:
    components: list[dict[str, Any]] = []
    cursor: dict[str, Any] = {}
    while True:
        answer = caller.ask(f"{kind}/list", cursor).message
        if "error" in answer:  # a server that has none of the kind
            return components
        components += answer["result"]["resourceTemplates" if "templates" in kind else kind]
        if "nextCursor" not in answer["result"]:
            return components
        cursor = {"cursor": answer["result"]["nextCursor"]}


def at_the_gateway(upstream: str, kind: str, component: Mapping[str, Any]) -> dict[str, Any]:
    """Return a component as the gateway lists it, from what its upstream lists: another name, and a tag."""
    named = {"name": f"{upstream}_{component['name']}"} if KINDS[kind] == "name" else {}
    return {**component, **named, "_meta": {**component.get("_meta", {}), "fastmcp": {"tags": [upstream]}}}


def text(components: list[dict[str, Any]]) -> list[str]:
    """Return components as text; the SDK writes the fields that the protocol knows in an order of its own."""
    return [json.dumps(component, sort_keys=True) for component in components]


def arguments(tools: list[dict[str, Any]]) -> list[list[str]]:
    """Return the arguments of tools, in the order of their schemas."""
    return [list(tool["inputSchema"].get("properties", ())) for tool in tools]


@pytest.mark.parametrize("kind", KINDS)
def test_every_component_is_listed_as_its_server_lists_it(
    gateway: Served, direct: Mapping[str, Caller], kind: str
) -> None:
    expected = [at_the_gateway(name, kind, each) for name, caller in direct.items() for each in listed(caller, kind)]
    modern = [{key: value for key, value in each.items() if key != "execution"} for each in expected]
    with closing(RawHttp(gateway.url)) as http:
        legacy_list, modern_list = listed(LegacyCaller(http, "", ()), kind), listed(ModernCaller(http, "", ()), kind)
    names = {each["name"] for each in expected}
    more = {each["name"] for each in legacy_list} - names
    legacy_list = [each for each in legacy_list if each["name"] in names]
    modern_list = [each for each in modern_list if each["name"] in names]
    assert text(legacy_list) == text(expected)
    assert text(modern_list) == text(modern)
    if kind == "tools":
        # One server has tools besides for clients that can be asked, as a gateway can.
        assert all(name.startswith("everything_") for name in more)
        assert len(expected) == N_TOOLS
        assert arguments(legacy_list) == arguments(modern_list) == arguments(expected)
    else:
        assert more == set()

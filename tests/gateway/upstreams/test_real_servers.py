"""Seven servers that others wrote, behind one gateway: nothing they list is lost, and no result is changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.every import every
from tests.gateway.upstreams.direct import all_direct
from tests.gateway.upstreams.gateway_process import Gateway, gateway
from tests.gateway.upstreams.real_calls import RealCall, real_calls
from tests.gateway.upstreams.real_servers import N_TOOLS, SERVERS, make_workspace, one_page, real_config
from tests.wire.wires import Answer, Caller, WireName

pytestmark = [pytest.mark.node, pytest.mark.outside]

NAMES = [server.name for server in SERVERS]
ERAS: tuple[WireName, ...] = ("legacy", "modern")
LISTS = {"tools": "tools/list", "prompts": "prompts/list", "resources": "resources/list"}
TEMPLATES = {"resourceTemplates": "resources/templates/list"}
PAGE = "A page of plain text that is longer than forty characters, with a ü in it.".encode()

_NOT_THE_UPSTREAMS = {"legacy": {"name", "_meta"}, "modern": {"name", "_meta", "execution"}}
"""What a gateway says in place of the upstream; `execution` is of the handshake era alone."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("real")


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Gateway]:
    with gateway(real_config(folder), folder) as it:
        it.until_listed(NAMES)
        yield it


@pytest.fixture(scope="module")
def themselves(folder: Path) -> Iterator[Mapping[str, Caller]]:
    """Each of the servers, spoken to without a gateway."""
    with all_direct(real_config(folder, memory="direct")) as callers:
        yield callers


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    with one_page(PAGE, "text/plain") as url:
        yield url


@every("era", ERAS)
class TestLists:
    def test_no_tool_is_lost(self, served: Gateway, themselves: Mapping[str, Caller], era: WireName) -> None:
        own = [f"{name}_{tool['name']}" for name in NAMES for tool in _listed(themselves[name], "tools", "tools/list")]
        assert len(own) == N_TOOLS
        with served.calling(era) as caller:
            assert set(own) - {tool["name"] for tool in _listed(caller, "tools", "tools/list")} == set()

    @every("kind", ["tools", "prompts"])
    def test_definitions_are_the_servers_own(
        self, served: Gateway, themselves: Mapping[str, Caller], era: WireName, kind: str
    ) -> None:
        with served.calling(era) as caller:
            shown = {item["name"]: _definition(item, era) for item in _listed(caller, kind, LISTS[kind])}
        own = {
            f"{name}_{item['name']}": _definition(item, era)
            for name in NAMES
            for item in _listed(themselves[name], kind, LISTS[kind])
        }
        assert {name: shown.get(name) for name in own} == own

    def test_resources_and_templates_are_all_there(
        self, served: Gateway, themselves: Mapping[str, Caller], era: WireName
    ) -> None:
        for kind, method in {**TEMPLATES, "resources": "resources/list"}.items():
            with served.calling(era) as caller:
                shown = sorted(_described(item) for item in _listed(caller, kind, method))
            own = sorted(_described(item) for name in NAMES for item in _listed(themselves[name], kind, method))
            assert shown == own


@every("era", ERAS)
def test_calls_give_what_the_server_gives(
    folder: Path, served: Gateway, themselves: Mapping[str, Caller], page: str, era: WireName
) -> None:
    calls = real_calls(make_workspace(folder), page)
    assert len(calls) >= 20
    with served.calling(era) as caller:
        given = {str(call): _content(_call(caller, f"{call.server}_{call.tool}", call)) for call in calls}
    own = {str(call): _content(_call(themselves[call.server], call.tool, call)) for call in calls}
    assert given == own


@every("era", ERAS)
class TestOthers:
    def test_prompts_give_what_the_server_gives(
        self, served: Gateway, themselves: Mapping[str, Caller], era: WireName
    ) -> None:
        given = {"name": "everything_args-prompt", "arguments": {"city": "Zürich"}}
        with served.calling(era) as caller:
            shown = caller.ask("prompts/get", given).result["messages"]
        assert shown == themselves["everything"].ask("prompts/get", {**given, "name": "args-prompt"}).result["messages"]

    def test_resources_give_what_the_server_gives(
        self, served: Gateway, themselves: Mapping[str, Caller], era: WireName
    ) -> None:
        own = themselves["everything"]
        with served.calling(era) as caller:
            shown = {item["name"]: item["uri"] for item in _listed(caller, "resources", "resources/list")}
            for item in _listed(own, "resources", "resources/list"):
                uri = next(uri for name, uri in shown.items() if name.endswith(item["name"]))
                read = caller.ask("resources/read", {"uri": uri}).result["contents"]
                assert _texts(read) == _texts(own.ask("resources/read", {"uri": item["uri"]}).result["contents"])


def _call(caller: Caller, name: str, call: RealCall) -> Answer:
    return caller.ask("tools/call", {"name": name, "arguments": call.arguments})


def _content(answer: Answer) -> tuple[Any, Any, bool]:
    """Return all of what a tool gave: texts and data are compared by the byte, and 1 is 1.0."""
    result = answer.result
    return result["content"], result.get("structuredContent"), result.get("isError", False)


def _listed(caller: Caller, kind: str, method: str) -> list[dict[str, Any]]:
    message = caller.ask(method).message
    items: list[dict[str, Any]] = message["result"][kind] if "result" in message else []
    return items


def _definition(item: Mapping[str, Any], era: WireName) -> str:
    """Return a tool or prompt without its name and tags."""
    return json.dumps({key: item[key] for key in item.keys() - _NOT_THE_UPSTREAMS[era]}, sort_keys=True)


def _described(item: Mapping[str, Any]) -> tuple[str, str, str]:
    return item.get("title", ""), item.get("description", ""), item.get("mimeType", "")


def _texts(contents: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(item.get("mimeType", ""), item.get("text", ""), item.get("blob", "")) for item in contents]

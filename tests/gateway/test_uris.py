"""URIs that upstreams name: what they lead to here is what they lead to there, and a link can be read by who got it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import mcp_types
import pytest
from fastmcp import Client
from mcp.shared.exceptions import MCPError

from tests.every import every
from tests.gateway.gateways import Served, served
from tests.gateway.upstreams.supervised import script

pytestmark = [pytest.mark.anyio, pytest.mark.outside]
both_eras = every("mode", ["legacy", "auto"])
BOTH = ("memo://last", "ui://app")
LINKS = ("memo://last", "report://17", "made://1", "memo://secret", "https://example.org/a")


def linking(name: str, era: str = "old", **what: Any) -> Any:
    return script(name, "linking_server.py", name, era, json.dumps(what))


@pytest.fixture(scope="module")
def gateway() -> Iterator[Served]:
    what = {"resources": BOTH, "templates": ["made://{a}"], "links": LINKS, "page": "ui://app"}
    unlisted = {"resources": [], "links": ["report://17"], "page": "ui://unlisted"}
    configs = [linking("work", **what), linking("home", "new", **what), linking("third", **unlisted)]
    with served(*configs, environ={"MCP_DISABLED_TOOLS": "memo://secret"}) as made:
        yield made


async def text_of(client: Client[Any], uri: str) -> str:
    (content,) = (await client.read_resource_mcp(uri)).contents
    assert isinstance(content, mcp_types.TextResourceContents)
    assert content.uri == uri
    return content.text


async def linked_by(client: Client[Any], tool: str) -> list[str]:
    result = await client.call_tool_mcp(tool, {})
    links = [each.uri for each in result.content if isinstance(each, mcp_types.ResourceLink)]
    assert [each.resource.uri for each in result.content if isinstance(each, mcp_types.EmbeddedResource)] == links
    return links


@both_eras
async def test_a_link_of_each_of_two_servers_with_one_uri_is_its_own(gateway: Served, mode: str) -> None:
    async with Client(gateway.url + "/mcp", mode=mode) as client:
        for name in ("work", "home"):
            for given, uri in zip(LINKS[:3], await linked_by(client, f"{name}_link"), strict=False):
                assert await text_of(client, uri) == f"{given} of {name}"


@both_eras
async def test_a_link_in_a_prompt_is_its_servers_own(gateway: Served, mode: str) -> None:
    async with Client(gateway.url + "/mcp", mode=mode) as client:
        messages = (await client.get_prompt("home_ask")).messages
        (uri, *_) = [each.content.uri for each in messages if isinstance(each.content, mcp_types.ResourceLink)]
        assert await text_of(client, uri) == "memo://last of home"


@both_eras
async def test_the_page_of_a_tools_app_is_its_servers_own_listed_or_not(gateway: Served, mode: str) -> None:
    async with Client(gateway.url + "/mcp", mode=mode) as client:
        tools = {each.name: each for each in await client.list_tools()}
        for name, page in [("work", "ui://app"), ("home", "ui://app"), ("third", "ui://unlisted")]:
            assert (meta := tools[f"{name}_show"].meta) is not None
            assert await text_of(client, meta["ui"]["resourceUri"]) == f"{page} of {name}"


async def test_what_only_one_server_has_keeps_its_uri(gateway: Served) -> None:
    async with Client(gateway.url + "/mcp", mode="legacy") as client:
        assert await linked_by(client, "work_link") == list(LINKS)


async def test_a_link_of_the_web_is_the_same_by_whomever_it_is_given(gateway: Served) -> None:
    async with Client(gateway.url + "/mcp", mode="legacy") as client:
        assert (await linked_by(client, "work_link"))[-1] == (await linked_by(client, "home_link"))[-1] == LINKS[-1]


async def test_two_servers_unlisted_links_of_one_uri_are_told_apart(gateway: Served) -> None:
    async with Client(gateway.url + "/mcp", mode="legacy") as client:
        assert (await linked_by(client, "work_link"))[1] == "report://17"
        assert await linked_by(client, "third_link") == ["report://third/17"]
        assert await text_of(client, "report://third/17") == "report://17 of third"


async def refused(client: Client[Any], uri: str) -> str:
    with pytest.raises(MCPError) as error:
        await client.read_resource_mcp(uri)
    return str(error.value).replace(uri, "URI")


async def test_a_link_is_unknown_to_a_session_that_did_not_get_it(gateway: Served) -> None:
    async with Client(gateway.url + "/mcp", mode="legacy") as one, Client(gateway.url + "/mcp", mode="legacy") as other:
        await linked_by(one, "work_link")
        assert await refused(other, "report://17") == await refused(other, "report://none")


@both_eras
async def test_a_link_that_is_denied_reads_as_one_that_never_was(gateway: Served, mode: str) -> None:
    async with Client(gateway.url + "/mcp", mode=mode) as client:
        await linked_by(client, "work_link")
        assert await refused(client, "memo://secret") == await refused(client, "report://none")


TEMPLATES = {
    "file:///{path}": "file:///project/src/main.rs",
    "repo://{owner}{/path*}": "repo://acme/src/main.rs",
    "key://{id:3}": "key://abc",
    "search://x{?a,b}": "search://x?b=1",
    "deep://x{/p*}": "deep://x/1/2",
    "two://{a}{b}": "two://1",
}


@pytest.fixture(scope="module")
def templates() -> Iterator[Served]:
    strict = linking("strict", templates=["file:///known/{a}"])
    environ = {"MCP_DISABLED_TOOLS": "file:///known/{a}"}
    with served(linking("up", templates=list(TEMPLATES)), strict, environ=environ) as made:
        yield made


@every("uri", TEMPLATES.values())
async def test_a_uri_of_a_template_is_read_whatever_its_form(templates: Served, uri: str) -> None:
    async with Client(templates.url + "/mcp") as client:
        assert await text_of(client, uri) == f"{uri} of up"


async def test_a_template_that_is_denied_leaves_its_uris_to_none_that_only_begins_alike(templates: Served) -> None:
    async with Client(templates.url + "/mcp") as client:
        assert await refused(client, "file:///known/a") == await refused(client, "none://a")


async def test_a_template_whose_uris_cant_be_told_from_others_is_told(templates: Served) -> None:
    (notice,) = templates.provider.notices
    assert "'two://{a}{b}'" in notice
    assert "'two://'" in notice

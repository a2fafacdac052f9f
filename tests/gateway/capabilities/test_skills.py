"""Skills are served by a gateway, and those of its operator call for capabilities; an upstream's never do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mcp_types
import pytest
from fastmcp import Client, FastMCP
from fastmcp.utilities.components import FastMCPComponent

from agent_utilities import AgentServer, create_gateway, create_mcp_server
from agent_utilities.cli.gateway_commands import skills_provider
from agent_utilities.errors import SettingsError
from agent_utilities.gateway.capabilities.feature import is_own, skill_capabilities, skills_read
from agent_utilities.gateway.provider import UpstreamProvider
from agent_utilities.gateway.upstreams.config import UpstreamConfig
from agent_utilities.gateway.upstreams.snapshot import Snapshot
from tests.every import every

pytestmark = pytest.mark.anyio

SKILL = "---\nname: review\ndescription: Reviews a page\ncapabilities: browser sqlite\n---\n# Review\n"
URI = "skill://review/SKILL.md"
BOTH = ("browser", "sqlite")


def content(text: str = SKILL, uri: str = URI, **more: Any) -> dict[str, Any]:
    return {"uri": uri, "text": text, **more}


def prompt(*contents: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": each} for each in contents]}


class TestTheWire:
    def test_a_skill_is_known_by_its_uri_or_its_type(self) -> None:
        for result in [
            {"contents": [content()]},
            {"contents": [content(mimeType="text/plain")]},
            {"contents": [content(uri="notes://x", mimeType="text/markdown")]},
            {"contents": [content(uri="notes://x", mimeType="Text/Markdown; charset=utf-8")]},
            {"contents": [content("other", "a://b"), content(), content()]},
            prompt({"type": "text", "text": SKILL}),
            prompt({"type": "resource", "resource": content()}),
        ]:
            assert skills_read(result) == BOTH, result

    def test_nothing_else_names_any(self) -> None:
        for result in [
            {"contents": [content(uri="notes://x")]},
            {"contents": [content(uri="notes://MY-SKILL.md", mimeType="text/plain")]},
            {"contents": [content("no frontmatter")]},
            {"contents": [{"uri": URI, "blob": "%%%"}]},
            prompt({"type": "text", "text": "Do this"}, {"type": "text", "text": SKILL}),
            prompt({"type": "resource", "resource": content(uri="notes://x")}),
            prompt({"type": "image", "data": "", "mimeType": "image/png"}),
            {"messages": []},
            {},
        ]:
            assert skills_read(result) == (), result


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "skills" / "review" / "files").mkdir(parents=True)
    (tmp_path / "skills" / "review" / "SKILL.md").write_text(SKILL)
    (tmp_path / "skills" / "review" / "files" / "SKILL.md").write_text("---\ncapabilities: files\n---\n")
    return tmp_path / "skills"


@pytest.fixture
def gateway(folder: Path) -> AgentServer:
    environ = {"MCP_GRAPH": "off", "MCP_RANKER": "lexical", "HOME": str(folder)}
    made = create_gateway({"mcpServers": {}}, environ=environ)
    made.add_provider(skills_provider([folder]))
    return made


async def read(mcp: FastMCP[Any], uri: str) -> tuple[str, ...]:
    """Return the capabilities that reading a resource through a server calls for."""
    async with Client(mcp) as client:
        result = await client.read_resource_mcp(uri)
    wire = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return await skill_capabilities(mcp, "resources/read", {"uri": uri}, wire)


class TestAGateway:
    async def test_lists_and_reads_a_folder_of_skills(self, gateway: AgentServer) -> None:
        async with Client(gateway) as client:
            listed = {str(each.uri): each.description for each in await client.list_resources()}
            assert listed[URI] == "Reviews a page"
            (text,) = await client.read_resource(URI)
        assert isinstance(text, mcp_types.TextResourceContents)
        assert text.text == SKILL

    async def test_a_skill_of_its_own_calls_for_capabilities(self, gateway: AgentServer) -> None:
        assert await read(gateway, URI) == BOTH

    async def test_a_skill_in_the_folder_of_another_does_too(self, gateway: AgentServer) -> None:
        assert await read(gateway, "skill://review/files/SKILL.md") == ("files",)

    async def test_an_edited_skill_is_read_as_it_is_now(self, gateway: AgentServer, folder: Path) -> None:
        (folder / "review" / "SKILL.md").write_text(SKILL.replace("browser sqlite", "time"))
        assert await read(gateway, URI) == ("time",)

    async def test_a_prompt_of_its_own_calls_for_capabilities(self, gateway: AgentServer) -> None:
        @gateway.prompt
        def review() -> str:
            return SKILL

        async with Client(gateway) as client:
            wire = (await client.get_prompt_mcp("review")).model_dump(mode="json", by_alias=True)
        assert await skill_capabilities(gateway, "prompts/get", {"name": "review"}, wire) == BOTH

    async def test_no_other_request_calls_for_any(self, gateway: AgentServer) -> None:
        for method in ["tools/call", "resources/list", "completion/complete"]:
            assert await skill_capabilities(gateway, method, {"uri": URI}, {"contents": [content()]}) == ()

    async def test_a_resource_that_nobody_has_calls_for_none(self, gateway: AgentServer) -> None:
        result = {"contents": [content(uri="skill://other/SKILL.md")]}
        assert await skill_capabilities(gateway, "resources/read", {"uri": "skill://other/SKILL.md"}, result) == ()

    def test_a_folder_that_is_not_there_is_refused(self, folder: Path) -> None:
        with pytest.raises(SettingsError, match=r"no folder of skills.*give a folder"):
            skills_provider([folder, folder / "none"])


class Evil:
    """An upstream that was reached once: it lists a skill as a resource, as a template's and as a prompt."""

    config = UpstreamConfig(name="evil", source="test", transport="stdio", command="x")
    snapshot = Snapshot(
        upstream="evil",
        config_digest="",
        taken_at_s=0,
        protocol_version="2025-11-25",
        resources=({"uri": URI, "name": "review", "mimeType": "text/markdown"},),
        templates=({"uriTemplate": "pages://{name}/SKILL.md", "name": "pages"},),
        prompts=({"name": "review"},),
    )

    async def request(self, *_: Any) -> Any:
        raise AssertionError("nothing is asked of it")


async def found(mcp: AgentServer, uri: str) -> FastMCPComponent | None:
    return await mcp.get_resource(uri) or await mcp.get_resource_template(uri)


class TestAnother:
    async def test_server_that_is_mounted_calls_for_none(self, gateway: AgentServer, folder: Path) -> None:
        other = create_mcp_server("other", environ={}, providers=[skills_provider([folder])])
        outer = create_gateway({"mcpServers": {}}, environ={"MCP_GRAPH": "off", "HOME": str(folder)})
        outer.mount(other)
        assert await read(other, URI) == BOTH
        assert await read(outer, URI) == ()

    async def test_server_behind_a_proxy_calls_for_none(self, folder: Path) -> None:
        assert await read(AgentServer.as_proxy(FastMCP("other", providers=[skills_provider([folder])])), URI) == ()

    async def test_page_that_a_caller_chooses_calls_for_none(self, gateway: AgentServer) -> None:
        @gateway.resource("page://{address}/SKILL.md", mime_type="text/markdown")
        def page(address: str) -> str:
            return SKILL

        assert await read(gateway, "page://evil/SKILL.md") == ()

    @every(
        ("method", "params"),
        [
            ("resources/read", {"uri": URI}),
            ("resources/read", {"uri": "pages://evil/SKILL.md"}),
            ("prompts/get", {"name": "evil_review"}),
        ],
    )
    async def test_server_behind_a_gateway_calls_for_none(self, method: str, params: dict[str, str]) -> None:
        mcp = create_mcp_server("gateway", environ={"MCP_GRAPH": "off"}, providers=[UpstreamProvider([Evil()])])
        component = await (mcp.get_prompt("evil_review") if method == "prompts/get" else found(mcp, params["uri"]))
        assert component is not None
        result = prompt({"type": "text", "text": SKILL}) | {"contents": [content()]}
        assert await skill_capabilities(mcp, method, params, result) == ()

    def test_answer_of_middleware_is_not_our_own(self) -> None:
        assert not is_own(None)

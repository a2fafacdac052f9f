"""Skills of a server's own, which FastMCP has providers of from 4.2 on: within each caller's bounds, as prompts."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import httpx2
import pytest
from fastmcp import Client

from agent_utilities import AgentServer, create_gateway, create_mcp_server
from agent_utilities.gateway.upstreams.config import GatewayConfig
from tests.every import every
from tests.gateway.test_skills import EXTENSION, FLOW, having, unknown
from tests.server.in_process import web_of
from tests.wire.wires import modern_request

pytestmark = [
    *(pytest.mark.anyio, pytest.mark.outside),
    pytest.mark.skipif(find_spec("fastmcp.skills.provider") is None, reason="this FastMCP has no provider of skills"),
]

REVIEW, DEPLOY = "skill://review/SKILL.md", "skill://ops/deploy/SKILL.md"


def with_skills(mcp: AgentServer) -> AgentServer:
    from fastmcp import Skill
    from fastmcp.skills.provider import SkillCatalogProvider

    names = {"review": "review", "ops/deploy": "deploy"}
    skills = {path: Skill(name=name, description="d", instructions=path) for path, name in names.items()}
    mcp.add_provider(SkillCatalogProvider(skills))
    return mcp


async def asked(web: httpx2.AsyncClient, method: str, query: str = "", **params: Any) -> Any:
    """Return the result of a request of 2026-07-28, or its error."""
    body, headers = modern_request(method, params)
    answer = (await web.post(f"/mcp{query}", json=body, headers=dict(headers))).json()
    return answer.get("result", answer.get("error"))


async def uris(web: httpx2.AsyncClient, query: str = "", method: str = "skills/list") -> list[str]:
    (listed,) = [value for value in (await asked(web, method, query)).values() if isinstance(value, list)]
    return [each["uri"] for each in listed]


async def test_they_are_announced_listed_got_and_read_by_a_client_as_they_are() -> None:
    from fastmcp.skills import SkillsClientExtension

    async with Client(with_skills(create_mcp_server("own")), extensions=[SkillsClientExtension()]) as client:
        assert [each.uri for each in await client.list_skills()] == [DEPLOY, REVIEW]
        skill = await client.get_skill(REVIEW)
        assert (skill.frontmatter.name, [file.uri for file in skill.resources]) == ("review", [REVIEW])
        assert "review" in (await client.read_resource(REVIEW))[0].text


@every(
    "query",
    [
        "?disabled_tools=review",
        f"?disabled_tools={REVIEW}",
        "?tools=deploy",
        "?tools=skill://ops/*",
    ],
)
async def test_a_denied_one_is_one_that_never_was(query: str) -> None:
    async with web_of(with_skills(create_mcp_server("own"))) as web:
        assert await uris(web, query) == [DEPLOY]
        for uri in (REVIEW, "skill://never/SKILL.md"):
            assert await asked(web, "skills/get", query, uri=uri) == unknown(uri)


async def test_what_the_operator_denies_by_name_is_neither_listed_got_nor_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_DISABLED_TOOLS", "review")
    async with web_of(with_skills(create_mcp_server("own"))) as web:
        assert await uris(web) == [DEPLOY]
        assert await asked(web, "skills/get", uri=REVIEW) == unknown(REVIEW)
        assert await uris(web, method="resources/list") == [DEPLOY, "skill://ops/deploy/_manifest"]
        assert "error" not in await asked(web, "resources/read", uri=DEPLOY)
        assert (await asked(web, "resources/read", uri=REVIEW))["code"] == unknown(REVIEW)["code"]


async def test_a_gateways_own_stand_before_those_of_its_upstreams() -> None:
    config = GatewayConfig(upstreams=(having("home", skills=["flow"]),))
    async with web_of(with_skills(create_gateway(config))) as web:
        while FLOW not in (listed := await uris(web)):
            pass  # until its upstream was reached
        assert listed == [DEPLOY, REVIEW, FLOW]
        got = [(await asked(web, "skills/get", uri=uri))["skill"]["uri"] for uri in listed]
        assert got == listed
        assert await asked(web, "skills/get", uri="skill://never/SKILL.md") == unknown("skill://never/SKILL.md")
        assert EXTENSION in (await asked(web, "server/discover"))["capabilities"]["extensions"]

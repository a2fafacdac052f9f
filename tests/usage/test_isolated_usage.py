"""What one caller did never reaches another by a byte, be he another subject or denied the tool: twin servers."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from mcp_types import PaginatedRequestParams

from agent_utilities import AgentServer, selection_meta
from agent_utilities.selection.channels import META_KEY
from tests.every import every
from tests.server.servers import over_http
from tests.usage.test_learning_server import TOKENS, learned, office, told

pytestmark = pytest.mark.anyio

ASKED = "bring it to the mailbox round the corner"
QUERIES = ("write a letter", ASKED, "the mailbox", "zebra crossing")
Doing = Callable[[AgentServer, Client[Any]], Awaitable[None]]


def bearer(subject: str) -> dict[str, str]:
    return {"authorization": f"Bearer token-{subject}"} if subject else {}


def another(client: Client[Any], headers: dict[str, str], mode: str) -> Client[Any]:
    """Return a client of the same application."""
    transport = type(client.transport)(client.transport.url, headers=headers)
    transport.httpx_client_factory = client.transport.httpx_client_factory
    return Client(transport, mode=mode)


async def lists(client: Client[Any], **selection: Any) -> list[str]:
    """Return what lists say, whole."""
    said = []
    for query in QUERIES:
        meta = {"_meta": selection_meta(query=query, **selection)}
        answer = await client.session.list_tools(params=PaginatedRequestParams.model_validate(meta))
        said.append(answer.model_dump_json())
    return said


async def called(client: Client[Any], name: str, arguments: dict[str, Any]) -> str:
    try:
        return (await client.call_tool_mcp(name, arguments)).model_dump_json()
    except Exception as error:
        return repr(error)


async def transcript(app: Any, client: Client[Any], headers: dict[str, str], **selection: Any) -> list[str]:
    """Return all that a caller can get at that usage might move."""
    said = await lists(client, **selection)
    said += [await called(client, "tool_search", {"query": query}) for query in QUERIES]
    narrowing = {name: ",".join(value) for name, value in selection.items()}
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), headers=headers) as http:
        for query in QUERIES:
            answer = await http.get("http://127.0.0.1/tools", params={"q": query, "explain": "1", **narrowing})
            assert answer.status_code == 200
            said.append(f"{sorted(answer.headers.items())} {answer.text}")
    return said


async def nothing(server: AgentServer, client: Client[Any]) -> None:
    """Be there, and ask for nothing."""


async def using(server: AgentServer, client: Client[Any]) -> None:
    """Ask for what `post` answers, call it, and what comes before and after it."""
    for number in range(3):
        await told(client, f"{ASKED} {'again ' * number}")
        for tool in ("post", "sign", "post"):
            await client.call_tool(tool)
    await learned(server)


class TestSubjects:
    @every(("mode", "subject"), [("legacy", "bert"), ("auto", "")], ids=["another", "nobody"])
    async def test_what_one_did_moves_nothing_of_anothers_by_a_byte(
        self, tmp_path: Path, mode: str, subject: str
    ) -> None:
        said = []
        for doing in (nothing, using):
            folder = tmp_path / doing.__name__
            folder.mkdir()
            # Where tokens are asked for nobody comes in without one.
            auth = StaticTokenVerifier(tokens=TOKENS) if subject else None
            server = office(folder, environ={"MCP_USAGE_SCOPE": "subject", "MCP_TOOL_SEARCH": "on"}, auth=auth)
            app, anna = over_http(server, headers=bearer("anna" if subject else ""), mode="legacy")
            bert = another(anna, bearer(subject), mode)
            async with app.router.lifespan_context(app), anna, bert:
                await told(bert)
                await doing(server, anna)
                await learned(server)
                said.append(await transcript(app, bert, bearer(subject)))
        assert said[0] == said[1]

    async def test_what_one_did_moves_what_he_is_told_himself(self, tmp_path: Path) -> None:
        auth = StaticTokenVerifier(tokens=TOKENS)
        server = office(tmp_path, environ={"MCP_USAGE_SCOPE": "subject", "MCP_TOOL_SEARCH": "on"}, auth=auth)
        app, anna = over_http(server, headers=bearer("anna"), mode="legacy")
        async with app.router.lifespan_context(app), anna:
            await told(anna)
            before = await transcript(app, anna, bearer("anna"))
            await using(server, anna)
            after = await transcript(app, anna, bearer("anna"))
        n_moved = sum(first != second for first, second in zip(before[8:], after[8:], strict=True))
        assert n_moved > 0


class TestDenied:
    @every(("mode", "search"), [("legacy", "on"), ("auto", "off")])
    async def test_what_others_did_with_a_tool_tells_who_may_not_use_it_nothing(
        self, tmp_path: Path, mode: str, search: str
    ) -> None:
        async def posting(server: AgentServer, client: Client[Any]) -> None:
            for _ in range(3):
                await told(client, ASKED)
                await client.call_tool("post")
            await learned(server)

        said = []
        for doing in (nothing, posting):
            folder = tmp_path / doing.__name__
            folder.mkdir()
            server = office(folder, environ={"MCP_TOOL_SEARCH": search})
            app, anna = over_http(server, mode="legacy")
            bert = another(anna, {"x-mcp-disabled-tools": "post"}, mode)
            async with app.router.lifespan_context(app), anna, bert:
                await told(anna)
                await doing(server, anna)
                said.append(
                    [
                        await called(bert, "post", {}),
                        *await transcript(app, bert, {}, disabled_tools=["post"]),
                    ]
                )
        assert said[0] == said[1]

    async def test_a_denied_tool_that_is_said_to_be_active_is_like_one_that_never_was(self, tmp_path: Path) -> None:
        server = office(tmp_path)
        app, anna = over_http(server, mode="legacy")
        bert = another(anna, {"x-mcp-disabled-tools": "post"}, "auto")
        async with app.router.lifespan_context(app), anna, bert:
            await using(server, anna)
            denied, unknown = [
                [without_revision(text) for text in await lists(bert, active=[name])] for name in ("post", "nope")
            ]
        assert denied == unknown

    async def test_a_tool_that_a_session_called_and_is_denied_later_leads_to_no_other(self, tmp_path: Path) -> None:
        said = []
        for tools in (["post"], []):
            folder = tmp_path / f"{len(tools)}"
            folder.mkdir()
            server = office(folder)
            app, anna = over_http(server, mode="legacy")
            bert = another(anna, {}, "legacy")
            async with app.router.lifespan_context(app), anna, bert:
                await using(server, anna)
                for tool in tools:
                    await bert.call_tool(tool)
                said.append([names(text) for text in await lists(bert, disabled_tools=["post"])])
        assert said[0] == said[1]


def names(text: str) -> list[str]:
    """Return the names in a list, in order."""
    return [tool["name"] for tool in json.loads(text)["tools"]]


def without_revision(text: str) -> dict[str, Any]:
    """Return a list without what tells only which selection it was asked with."""
    listing: dict[str, Any] = json.loads(text)
    del listing["meta"][META_KEY]["revision"]
    return listing

"""`GET /context` reports a live session to the one whose it is, and to nobody else."""

from __future__ import annotations

from typing import Any

import pytest
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier

from tests.search.conversation import InSession
from tests.server.in_process import web_of
from tests.wire.search_questions import searched
from tests.wire.search_server import search_server

pytestmark = pytest.mark.anyio
DEFERRED = {"MCP_GRAPH": "off", "MCP_RANKER": "lexical", "MCP_TOOL_SEARCH": "on"}
OF_ANN, OF_BOB = {"authorization": "Bearer ann"}, {"authorization": "Bearer bob"}


async def test_a_session_of_another_token_reads_like_one_that_never_was() -> None:
    tokens: dict[str, dict[str, Any]] = {name: {"client_id": name, "scopes": []} for name in ("ann", "bob")}
    mcp = search_server(with_denied=False, environ=DEFERRED, auth=StaticTokenVerifier(tokens=tokens))
    async with web_of(mcp) as web:
        session = await InSession.open(web, **OF_ANN)
        await session.ask(*searched("select:read_note"), **OF_ANN)
        own = await web.get("/context", headers={**OF_ANN, "mcp-session-id": session.session})
        others = await web.get("/context", headers={**OF_BOB, "mcp-session-id": session.session})
        never = await web.get("/context", headers={**OF_BOB, "mcp-session-id": "0" * len(session.session)})
        nobodys = await web.get("/context", headers={"mcp-session-id": session.session})
    assert own.json()["active"] == ["read_note"]
    assert others.content == never.content
    assert nobodys.status_code == 401

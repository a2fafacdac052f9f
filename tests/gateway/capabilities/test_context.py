"""`GET /context` of a session has what its capabilities bring, and leaves it, and what runs, as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_utilities import AgentServer
from tests.gateway.capabilities.capable import gateway, offer, seen
from tests.parts import capabilities_of
from tests.search.conversation import InSession
from tests.server.in_process import web_of
from tests.wire.search_questions import call

pytestmark = [pytest.mark.outside, pytest.mark.anyio]

WORDS = "please show the git log of this project"
ENABLE: dict[str, Any] = {"action": "enable", "name": "mail"}


@pytest.fixture
def served(tmp_path: Path) -> AgentServer:
    return gateway(tmp_path, offer())


async def test_a_sessions_report_has_the_tools_of_what_it_has_on(served: AgentServer) -> None:
    async with web_of(served) as web:
        session = await InSession.open(web)
        await session.ask(*call("capability", **ENABLE))
        await seen(served, "mail")
        of_session = {"mcp-session-id": session.session}
        told = (await web.get("/context", headers=of_session)).json()
    assert told["of_session"]
    assert "mail-server" in {row["server"] for row in told["rows"]}


async def test_a_report_switches_nothing_on_in_the_session_and_keeps_nothing_running(served: AgentServer) -> None:
    capabilities = capabilities_of(served).switching
    async with web_of(served) as web:
        await capabilities_of(served).switching.router.wait_until_ready()
        session = await InSession.open(web)
        await session.ask(*call("capability", **ENABLE))
        before = capabilities_of(served).counts()
        of_session = {"mcp-session-id": session.session}
        for query in ({"q": WORDS}, {"capabilities": "web"}):
            answer = await web.get("/context", params=query, headers=of_session)
            assert answer.status_code == 200, answer.text
        assert capabilities_of(served).counts() == before
        assert capabilities.holders.names() == {"mail"}

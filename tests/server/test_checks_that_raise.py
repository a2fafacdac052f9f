"""A component's own `auth` check that raises admits nobody."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fastmcp.exceptions import AuthorizationError
from fastmcp.server.auth import AuthContext

from agent_utilities import AgentServer, selection_headers
from tests.every import every
from tests.server.servers import log_server, over_http, tool_names

pytestmark = pytest.mark.anyio


def refusing(context: AuthContext) -> bool:
    raise AuthorizationError("not you")


def broken(context: AuthContext) -> bool:
    raise RuntimeError("the directory of users is down")


async def broken_later(context: AuthContext) -> bool:
    raise KeyError("role")


CHECKS = [refusing, broken, broken_later]


def guarded(check: Callable[[AuthContext], object]) -> AgentServer:
    server = log_server()

    @server.tool(auth=check, tags={"gold"})
    def vault() -> str:
        return "LEAKED"

    @server.prompt(auth=check)
    def plan() -> str:
        return "LEAKED"

    @server.resource("vault://gold", auth=check)
    def gold() -> str:
        return "LEAKED"

    return server


@every("check", CHECKS)
async def test_it_is_not_listed_and_the_others_are(check) -> None:
    app, client = over_http(guarded(check))
    async with app.router.lifespan_context(app), client:
        assert await tool_names(client) == ["tail_log", "search_logs", "rotate_log", "delete_log"]
        assert [prompt.name for prompt in await client.list_prompts()] == ["triage", "cleanup"]
        assert "vault://gold" not in [str(resource.uri) for resource in await client.list_resources()]


@every("check", CHECKS)
async def test_it_is_not_called(check) -> None:
    app, client = over_http(guarded(check))
    async with app.router.lifespan_context(app), client:
        answer = await client.call_tool("vault", raise_on_error=False)
        assert answer.is_error
        assert "LEAKED" not in str(answer)


@every("check", CHECKS)
async def test_it_counts_nowhere(check) -> None:
    app, client = over_http(guarded(check), headers=selection_headers(tags=["gold"]))
    async with app.router.lifespan_context(app), client:
        result = await client.session.list_tools()
        told = result.meta["agent-utilities/selection"]
        assert (told["permitted"], told["unknown"]) == (0, {"gold": None})

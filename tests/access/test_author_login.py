"""Rules beside an author's own login, their components' own checks, servers that are mounted, and other transports."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client
from fastmcp.server.auth import AccessToken, TokenVerifier, require_scopes
from fastmcp.server.auth.providers.jwt import JWTVerifier, RSAKeyPair, StaticTokenVerifier
from starlette.responses import PlainTextResponse

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.errors import SettingsError
from agent_utilities.seam.caller import caller_of
from agent_utilities.usage.feature import subject_of_request
from tests.access.team import Team, bearing
from tests.background_tasks import ask as ask_of_task
from tests.background_tasks import tasks_extension
from tests.server.in_process import listed, web_of
from tests.wire.wires import modern_request

pytestmark = pytest.mark.anyio

RULES = """
[profiles.readers]
read_only = true

[profiles.logs]
tools = ["git_log"]

[[access]]
who = {{ issuer = "https://one", subject = "ann" }}
profile = "all"

[[access]]
who = {{ issuer = "https://two", subject = "ann" }}
profile = "readers"

[[access]]
who = {{ issuer = "local", subject = "ann" }}
profile = "logs"
"""
ALL, READ = ["git_log", "git_push", "git_status"], ["git_log", "git_status"]


class Vouching(TokenVerifier):
    """Takes tokens that say who vouches for whom: `issuer|subject|scope scope`."""

    async def verify_token(self, token: str) -> AccessToken | None:
        issuer, subject, scopes = token.split("|")
        claims = {"iss": issuer, "sub": subject}
        return AccessToken(token=token, client_id="cli", scopes=scopes.split(), subject=subject, claims=claims)


def by(issuer: str, subject: str = "ann", scopes: str = "") -> dict[str, str]:
    return bearing(f"{issuer}|{subject}|{scopes}")


class TestOneSubjectOfSeveralIssuers:
    async def test_has_the_surface_that_each_issuers_rule_gives(self, tmp_path: Path) -> None:
        async with Team(tmp_path, RULES).web(auth=Vouching()) as web:
            assert await listed(web, "/mcp", **by("https://one")) == ALL
            assert await listed(web, "/mcp", **by("https://two")) == READ
            assert await listed(web, "/mcp", **by("local")) == ["git_log"]
            assert await listed(web, "/mcp", **by("https://three")) == []
            assert await listed(web, "/mcp", **by("https://one", "bob")) == []

    async def test_is_several_people(self, tmp_path: Path) -> None:
        server, people = Team(tmp_path, RULES).server(auth=Vouching()), []

        @server.custom_route("/who", methods=["GET"])
        async def who(request: Any) -> Any:
            people.append((caller_of(request).person, subject_of_request()))  # type: ignore[union-attr]
            return PlainTextResponse("ok")

        async with web_of(server) as web:
            for issuer in ("https://one", "local"):
                await web.get("/who", headers=by(issuer))
        assert [person for person, _ in people] == [("https://one", "ann"), ("local", "ann")]
        assert len({subject for _, subject in people}) == 2

    async def test_has_no_session_of_the_others(self, tmp_path: Path) -> None:
        async with Team(tmp_path, RULES).web(auth=Vouching()) as web:
            initialize = {
                **{"jsonrpc": "2.0", "id": 1, "method": "initialize"},
                "params": {
                    **{"protocolVersion": "2025-11-25", "capabilities": {}},
                    "clientInfo": {"name": "t", "version": "1"},
                },
            }
            accept = {"accept": "application/json, text/event-stream"}
            opened = await web.post("/mcp", json=initialize, headers={**accept, **by("https://one")})
            session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
            asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
            statuses = [
                (await web.post("/mcp", json=asked, headers={**accept, **session, **who})).status_code
                for who in (by("local"), by("https://two"), by("https://one", "bob"), by("https://one"))
            ]
        assert statuses == [404, 404, 404, 200]


class TestBesideOtherBounds:
    async def test_a_rule_holds_beside_the_command_lines_tools(self, tmp_path: Path) -> None:
        server = Team(tmp_path, RULES).server({"MCP_ENABLED_TOOLS": "git_push,git_log"}, auth=Vouching())
        async with web_of(server) as web:
            assert await listed(web, "/mcp", **by("https://one")) == ["git_log", "git_push"]
            assert await listed(web, "/mcp", **by("https://two")) == ["git_log"]

    async def test_a_components_own_check_holds_besides(self, tmp_path: Path) -> None:
        server = Team(tmp_path, RULES).server(auth=Vouching())
        server.tool(name="git_gc", annotations={"readOnlyHint": True}, auth=require_scopes("admin"))(lambda: "done")
        async with web_of(server) as web:
            assert "git_gc" not in await listed(web, "/mcp", **by("https://one"))
            assert "git_gc" in await listed(web, "/mcp", **by("https://one", scopes="admin"))
            assert "git_gc" not in await listed(web, "/mcp", **by("local", scopes="admin"))

    async def test_a_mounted_servers_tools_are_bounded_by_the_names_that_callers_see(self, tmp_path: Path) -> None:
        child, server = create_mcp_server("kid", environ={}), Team(tmp_path, RULES).server(auth=Vouching())
        child.tool(name="git_log", annotations={"readOnlyHint": True})(lambda: "done")
        child.tool(name="wipe")(lambda: "done")
        server.mount(child, namespace="kid")
        async with web_of(server) as web:
            assert await listed(web, "/mcp", **by("https://two")) == [*READ, "kid_git_log"]
            assert await listed(web, "/mcp", **by("local")) == ["git_log"]
            body, headers = modern_request("tools/call", {"name": "kid_wipe", "arguments": {}})
            called = await web.post("/mcp", json=body, headers={**dict(headers), **by("https://two")})
            assert called.json()["result"]["isError"] is True


class TestAuthorsLogin:
    async def test_of_static_tokens_takes_the_same_rules(self, tmp_path: Path) -> None:
        given = {
            name: {"client_id": "c", "scopes": [], "iss": f"https://{name}", "sub": "ann"} for name in ("one", "two")
        }
        async with Team(tmp_path, RULES).web(auth=StaticTokenVerifier(given)) as web:
            assert [await listed(web, "/mcp", **bearing(name)) for name in given] == [ALL, READ]

    async def test_of_signed_tokens_takes_the_same_rules(self, tmp_path: Path) -> None:
        keys = RSAKeyPair.generate()
        verifier = JWTVerifier(public_key=keys.public_key, issuer=["https://one", "https://two"], audience="us")
        async with Team(tmp_path, RULES).web(auth=verifier) as web:
            found = [
                await listed(web, "/mcp", **bearing(keys.create_token(subject=sub, issuer=iss, audience="us")))
                for iss, sub in (("https://one", "ann"), ("https://two", "ann"), ("https://one", "bob"))
            ]
        assert found == [ALL, READ, []]

    async def test_beside_one_of_the_operators_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match="beside the one of the server's author"):
            Team(tmp_path).server(auth=Vouching()).http_app()


class TestWithoutATransportThatHasCallers:
    async def test_rules_do_not_apply_in_process(self, tmp_path: Path) -> None:
        async with Client(Team(tmp_path).server()) as client:
            assert [tool.name for tool in await client.list_tools()] == ALL

    async def test_the_start_over_stdio_says_that_they_do_not(self, tmp_path: Path) -> None:
        server = Team(tmp_path).server()
        server.transport = "stdio"
        server.complete()
        said = server.features.start_lines()
        assert "rules of access do not apply over stdio: there is no token" in said
        assert server.auth is None


def tasks_server(folder: Path, may_end: asyncio.Event) -> AgentServer:
    mcp = Team(folder, RULES).server(auth=Vouching())
    mcp.add_extension(tasks_extension())

    @mcp.tool(task=True, annotations={"readOnlyHint": True})
    async def brew() -> str:
        await may_end.wait()
        return "brewed"

    return mcp


@pytest.mark.tasks
class TestTasks:
    async def test_one_callers_reads_to_another_like_one_that_never_was(self, tmp_path: Path) -> None:
        may_end = asyncio.Event()
        async with web_of(tasks_server(tmp_path, may_end)) as web:
            try:
                await self._ask(web)
            finally:
                may_end.set()  # the server waits for it when it stops

    async def _ask(self, web: httpx2.AsyncClient) -> None:
        web.headers.update(by("https://one"))
        _, made = await ask_of_task(web, "tools/call", {"name": "brew", "arguments": {}, "task": {"ttl": 60_000}})
        task = made["result"]["taskId"]
        never = task[:-1] + ("x" if task[-1] != "x" else "y")
        assert "result" in (await ask_of_task(web, "tasks/get", {"taskId": task}))[1]
        for who in (by("https://two"), by("local"), by("https://one", "bob")):
            web.headers.update(who)
            for method in ("tasks/get", "tasks/update", "tasks/cancel"):
                more = {"inputResponses": {}} if method == "tasks/update" else {}
                answers = [await ask_of_task(web, method, {"taskId": each, **more}) for each in (task, never)]
                texts = [json.dumps(each).replace(name, "?") for each, name in zip(answers, (task, never), strict=True)]
                assert texts[0] == texts[1]
                assert "error" in answers[0][1]
        web.headers.update(by("https://one"))
        assert "result" in (await ask_of_task(web, "tasks/get", {"taskId": task}))[1]

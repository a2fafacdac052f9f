"""Who calls decides what they get: rules and tokens, on a server's real application."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_utilities.errors import SettingsError
from tests.access.team import SETTINGS, Team, bearing
from tests.every import every
from tests.server.in_process import ask, listed

pytestmark = pytest.mark.anyio
ALL = ["git_log", "git_push", "git_status"]
READ = ["git_log", "git_status"]


class TestRules:
    async def test_give_each_caller_their_own_surface(self, tmp_path: Path) -> None:
        team = Team(tmp_path)
        ann, bob, eve = (team.token(name) for name in ("ann", "bob", "eve"))
        async with team.web() as web:
            assert [await listed(web, "/mcp", **who) for who in (ann, bob, eve)] == [ALL, READ, []]

    async def test_hold_beside_what_the_operator_permits(self, tmp_path: Path) -> None:
        team = Team(tmp_path)
        ann, bob = team.token("ann"), team.token("bob")
        async with team.web({"MCP_ENABLED_TOOLS": "git_log,git_push"}) as web:
            assert [await listed(web, "/mcp", **who) for who in (ann, bob)] == [["git_log", "git_push"], ["git_log"]]

    async def test_are_lifted_by_no_channel_of_the_callers(self, tmp_path: Path) -> None:
        team = Team(tmp_path)
        bob = team.token("bob")
        async with team.web() as web:
            for url in ("/mcp?tools=all", "/mcp?read_only=false", "/mcp?profile=no_push"):
                assert await listed(web, url, **bob) == READ
            assert await listed(web, "/mcp", **bob, **{"x-mcp-enabled-tools": "git_push"}) == []
            assert await listed(web, "/mcp?tools=git_log", **bob) == ["git_log"]

    async def test_bound_calls_too(self, tmp_path: Path) -> None:
        team = Team(tmp_path)
        bob = team.token("bob")
        async with team.web() as web:
            answers = [await call(web, name, bob) for name in ("git_log", "git_push", "git_xxxx")]
        assert [answer["result"]["isError"] for answer in answers] == [False, True, True]
        denied, unknown = (answer["result"]["content"][0]["text"] for answer in answers[1:])
        assert denied.replace("git_push", "X") == unknown.replace("git_xxxx", "X")

    async def test_tell_by_which_of_them_one_is_listed(self, tmp_path: Path) -> None:
        team = Team(tmp_path)
        who = [team.token(name) for name in ("ann", "bob", "eve")]
        async with team.web() as web:
            told = [(await web.get("/tools", headers=each)).json()["selection"]["access"] for each in who]
        assert told == [{"rule": 1}, {"rule": 2}, {"rule": None}]

    async def test_give_rights_to_what_is_no_tool(self, tmp_path: Path) -> None:
        team = Team(tmp_path)
        ann, bob = team.token("ann"), team.token("bob")
        async with team.web() as web:
            metrics = [(await web.get("/metrics", headers=who)).status_code for who in (ann, bob, {})]
            ready = [(await web.get("/ready", headers=who)).json() for who in (ann, bob, {})]
            health = (await web.get("/health")).status_code
        assert (metrics, health) == ([200, 403, 401], 200)
        assert ["server" in told for told in ready] == [True, False, False]

    async def test_that_no_caller_could_fit_are_refused_where_nobody_logs_in(self, tmp_path: Path) -> None:
        team = Team(tmp_path, SETTINGS.replace('tokens = "{tokens}"', ""))
        with pytest.raises(SettingsError, match="nobody logs in"):
            team.server().http_app()

    async def test_are_refused_beside_an_override(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match="override"):
            Team(tmp_path).server({"MCP_SELECTION_POLICY": "override"}).http_app()


class TestTokens:
    @every("token", ["au_" + "x" * 43, "", "x", "Bearer"])
    async def test_that_the_file_lacks_are_refused(self, token: str, tmp_path: Path) -> None:
        team = Team(tmp_path)
        team.token("ann")
        async with team.web() as web:
            assert (await ask(web, "/mcp", **bearing(token))).status_code == 401

    async def test_are_bounded_by_their_own_profile_besides(self, tmp_path: Path) -> None:
        team = Team(tmp_path)
        ann = team.token("ann", profile="no_push")
        async with team.web() as web:
            assert await listed(web, "/mcp", **ann) == READ

    async def test_with_a_profile_that_there_is_not_permit_nothing(self, tmp_path: Path) -> None:
        team = Team(tmp_path)
        ann = team.token("ann", profile="gone")
        async with team.web() as web:
            assert await listed(web, "/mcp", **ann) == []


async def call(web, name, who):
    from tests.wire.wires import modern_request

    body, routing = modern_request("tools/call", {"name": name, "arguments": {}})
    return (await web.post("/mcp", json=body, headers={**dict(routing), **who})).json()


class TestWithoutRules:
    async def test_who_is_bounded_by_their_token_has_no_rights_to_what_is_no_tool(self, tmp_path: Path) -> None:
        team = Team(tmp_path, SETTINGS.partition("[[access]]")[0])
        ann, bob = team.token("ann"), team.token("bob", profile="readers")
        async with team.web() as web:
            assert [await listed(web, "/mcp", **who) for who in (ann, bob)] == [ALL, READ]
            metrics = [(await web.get("/metrics", headers=who)).status_code for who in (ann, bob)]
            ready = [(await web.get("/ready", headers=who)).json() for who in (ann, bob)]
        assert (metrics, ["server" in told for told in ready]) == ([200, 403], [True, False])

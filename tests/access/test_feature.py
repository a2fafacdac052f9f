"""What a server says of its rules and logins, and what it grants a caller by their rule and their token."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.access.feature import AccessControl
from agent_utilities.errors import SettingsError
from agent_utilities.seam.caller import Caller
from agent_utilities.seam.host import find
from tests.access.team import SETTINGS, Team
from tests.every import every

pytestmark = pytest.mark.anyio
WITHOUT_RULES = SETTINGS.partition("[[access]]")[0]


def access_of(server: AgentServer) -> AccessControl:
    server.complete()
    found = find(server, AccessControl)
    assert found is not None
    return found


def caller(team: Team, name: str, profile: str = "", **claims: str) -> Caller:
    """Return who brings a new token of a name."""
    token = team.token(name, profile)["authorization"].split()[1]
    return Caller("local", name, name, {"iss": "local", "sub": name, **claims}, token=token)


class TestStart:
    def test_is_healthy_before_anything_was_looked_at(self, tmp_path: Path) -> None:
        team = Team(tmp_path)
        team.token("ann")
        server = team.server()
        server.complete()
        assert access_of(server).health() == {}
        assert server.health()["status"] == "starting"

    @every(
        ("transport", "settings", "line"),
        [
            ("stdio", SETTINGS, "rules of access do not apply over stdio: there is no token"),
            ("http", SETTINGS, "2 rules of access: whoever fits none may use nothing"),
            ("http", WITHOUT_RULES, "no rules of access: whoever gets in may use everything permitted"),
        ],
    )
    def test_says_what_rules_there_are(self, transport: str, settings: str, line: str, tmp_path: Path) -> None:
        server = Team(tmp_path, settings).server()
        server.transport = transport
        assert list(access_of(server).start_lines()) == [line]

    def test_needs_no_login_over_stdio_and_makes_one_else_once(self, tmp_path: Path) -> None:
        server = Team(tmp_path).server()
        found = access_of(server)
        server.transport = "stdio"
        assert found.auth() is None
        server.transport = "http"
        login = found.auth()
        assert login is not None
        assert found.auth() is login

    def test_without_a_login_is_refused_with_how_many_rules_would_need_it(self, tmp_path: Path) -> None:
        server = Team(tmp_path, SETTINGS.replace('tokens = "{tokens}"', "")).server()
        server.transport = "http"
        with pytest.raises(SettingsError, match=r"rules of access, and nobody logs in: '2'.*agent-utilities token new"):
            access_of(server).check()

    def test_warns_of_rules_that_can_never_hold(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        team = Team(tmp_path, SETTINGS + '\n[[access]]\nwho = {{ subject = "intern-7" }}\nprofile = "all"\n')
        with caplog.at_level(logging.WARNING):
            access_of(team.server())
        (warned,) = [each.getMessage() for each in caplog.records if each.name == "agent_utilities.access"]
        assert warned.startswith("rule 3 (")
        assert "can never hold: rule 2 (" in warned

    @every("other", ["tokens", "issuer"])
    def test_with_a_login_of_its_author_and_one_of_its_operator_is_refused(self, other: str, tmp_path: Path) -> None:
        from fastmcp.server.auth import StaticTokenVerifier

        given = {"tokens": str(tmp_path / "t.json"), "issuer": "https://login.example"}[other]
        environ = {"MCP_GRAPH": "off", "MCP_CONFIG_FILE": "none", f"MCP_AUTH_{other.upper()}": given}
        server = create_mcp_server("mine", environ=environ, auth=StaticTokenVerifier({}))
        with pytest.raises(SettingsError, match="a login beside the one of the server's author"):
            server.complete()


class TestGrants:
    def test_are_by_the_first_rule_that_fits(self, tmp_path: Path) -> None:
        team = Team(tmp_path)
        found = access_of(team.server())
        people = [caller(team, name) for name in ("ann", "bob", "eve")]
        assert [each.rule if each else None for each in map(found.grant, people)] == [1, 2, None]
        rights = [set(each.may) if each else None for each in map(found.grant, people)]
        assert rights == [{"metrics", "context"}, set(), set()]

    def test_name_the_profiles_of_rule_and_token(self, tmp_path: Path) -> None:
        team = Team(tmp_path)
        found = access_of(team.server())
        bob = caller(team, "bob", profile="no_push")
        assert found.tokens is not None
        found.tokens.file = found.tokens.file.model_validate_json(team.tokens.read_text())
        granted = found.grant(bob)
        assert granted is not None
        assert granted.profiles == {"readers", "no_push"}

    def test_are_the_same_while_token_and_claims_are(self, tmp_path: Path) -> None:
        team = Team(tmp_path)
        found = access_of(team.server())
        ann, bob = caller(team, "ann"), caller(team, "bob")
        assert found.grant(ann) is found.grant(ann)
        renamed = Caller(ann.issuer, "bob", ann.client, bob.claims, token=ann.token)
        granted = found.grant(renamed)
        assert granted is not None
        assert granted.rule == 2  # the claims of one text may change: an issuer's word on it does

    def test_are_none_where_there_are_no_rules_and_the_token_has_no_profile(self, tmp_path: Path) -> None:
        team = Team(tmp_path, WITHOUT_RULES)
        people = [caller(team, "ann"), caller(team, "bob", profile="readers"), caller(team, "eve", profile="ALL")]
        found = access_of(team.server())
        assert [found.grant(each) is None for each in people] == [True, False, True]

    def test_of_a_token_that_ended_or_is_gone_permit_nothing(self, tmp_path: Path) -> None:
        team = Team(tmp_path, WITHOUT_RULES)
        ann, bob = caller(team, "ann"), caller(team, "bob")
        held = json.loads(team.tokens.read_text())
        held["tokens"][0]["expires"] = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
        del held["tokens"][1]
        team.tokens.write_text(json.dumps(held))
        found = access_of(team.server())
        assert [set(each.profiles) if each else None for each in map(found.grant, (ann, bob))] == [{"all", "none"}] * 2

    def test_of_another_issuer_know_nothing_of_the_files_tokens(self, tmp_path: Path) -> None:
        team = Team(tmp_path, WITHOUT_RULES)
        bob = caller(team, "bob", profile="readers")
        found = access_of(team.server())
        elsewhere = Caller("https://login.example", "bob", "bob", {"sub": "bob"}, token=bob.token)
        assert found.grant(elsewhere) is None

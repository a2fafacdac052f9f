"""Who calls, by their verified token: what it says, and nothing that it does not."""

from __future__ import annotations

from typing import Any

from fastmcp.server.auth import AccessToken

from agent_utilities.seam.caller import of_token
from tests.every import every
from tests.laws.given_access import rules_of


def token(client_id: str = "unknown", **fields: Any) -> AccessToken:
    return AccessToken(token="t", client_id=client_id, scopes=[], **fields)


class TestClient:
    @every(
        ("given", "client"),
        [
            (token("cli", claims={"azp": "cli", "client_id": "other"}), "cli"),
            (token("cli", claims={"client_id": "cli"}), "cli"),
            (token("cli"), "cli"),
            (token('["x","cli"]', original_client_id="cli", claims={"sub": "ann"}), "cli"),
        ],
    )
    def test_is_the_one_that_the_token_was_issued_to(self, given: AccessToken, client: str) -> None:
        assert of_token(given).client == client

    @every(
        "given",
        [
            token("trusted-client", subject="trusted-client", claims={"sub": "trusted-client"}),
            token("unknown", claims={"iss": "https://a"}),
            token('["x","ann"]', original_client_id="ann", claims={"sub": "ann"}),
            token("['cli']", claims={"azp": ["cli"]}),
        ],
    )
    def test_is_nobody_where_a_verifier_put_something_else_in_its_place(self, given: AccessToken) -> None:
        assert of_token(given).client == ""

    def test_that_is_not_known_is_unknown_to_a_rule_and_fits_none(self) -> None:
        caller = of_token(token("trusted-client", subject="trusted-client", claims={"sub": "trusted-client"}))
        given = [{"who": {"client": "trusted-*"}, "profile": "all"}, {"who": {}, "profile": "all"}]
        access = rules_of(given).access({**caller.claims, "client": caller.client})
        assert access.rule is None


class TestPerson:
    def test_is_another_with_each_issuer(self) -> None:
        people = {of_token(token(claims={"iss": issuer, "sub": "ann"})).person for issuer in ("local", "https://a")}
        assert people == {("local", "ann"), ("https://a", "ann")}

    def test_is_of_no_name_where_the_token_has_none(self) -> None:
        assert of_token(token("cli", claims={"iss": "https://a"})).person == ("https://a", "")

    @every("name", [["ann"], 7, {"ann": 1}, True])
    def test_is_of_no_name_where_it_is_no_text(self, name: object) -> None:
        assert of_token(token("cli", claims={"iss": name, "sub": name})).person == ("", "")

    def test_tells_nothing_of_the_token(self) -> None:
        assert "secret" not in repr(of_token(AccessToken(token="secret", client_id="cli", scopes=[])))

"""Tokens of an issuer: which let somebody in, as whom, how its keys are followed, and what holds while it is down."""

from __future__ import annotations

import base64
import time
from typing import Any

import anyio
import pytest
from fastmcp.server.auth import RemoteAuthProvider
from joserfc import jwk

from agent_utilities.access import refusals
from agent_utilities.access.feature import Login
from agent_utilities.access.issuer import FRESH_S, KEPT_S, LATER_S, IssuerUnreachable, read_document
from agent_utilities.access.oidc import OPAQUE_S
from agent_utilities.access.refusals import RETRY_S, Reason
from tests.access.local_issuer import RESOURCE, LocalIssuer, ec, rsa
from tests.access.verifying import Clock, served, verdict, verifier_of
from tests.every import every

pytestmark = [pytest.mark.anyio, pytest.mark.outside]


NOW = int(time.time())


class TestLetIn:
    async def test_the_person_client_and_scopes_are_those_of_the_token(self, issuer: LocalIssuer) -> None:
        async with served(verifier_of(issuer)) as ask:
            response = await ask(issuer.token())
        assert response.json()["result"]["structuredContent"] == {
            "subject": "ann",
            "client": "editor",
            "scopes": ["read"],
        }

    @every(
        ("alg", "key"),
        [
            ("PS512", rsa("a")),
            ("ES256", ec("b")),
            ("ES384", ec("c", "P-384")),
            ("ES512", ec("d", "P-521")),
            ("EdDSA", jwk.OKPKey.generate_key("Ed25519", {"kid": "e"})),
            ("Ed25519", jwk.OKPKey.generate_key("Ed25519", {"kid": "f"})),
        ],
    )
    async def test_with_any_algorithm_of_key_pairs(self, issuer: LocalIssuer, alg: str, key: Any) -> None:
        issuer.keys = [rsa("k1"), key]
        assert await verdict(verifier_of(issuer), issuer.token(key, alg)) is None

    @every(
        "changed",
        [
            {"header": {"typ": "application/AT+JWT"}},
            {"header": {"typ": "JWT"}, "typ": "Bearer", "azp": "editor", "sid": "s"},
            {"header": {"typ": None}, "aud": [RESOURCE, "https://x.example/userinfo"]},
            {"header": {"typ": "JWT"}, "scope": None, "gty": "client-credentials"},
            {"header": {"kid": None}},
            {"header": {"x-tenant": "tools", "ver": 2}},  # RFC 7515 §4: what is not understood is ignored
            {"nbf": NOW + 20, "iat": NOW + 20},
            {"aud": f"{RESOURCE}/"},
            {"header": {"jku": "http://elsewhere.example/jwks", "x5c": ["x" * 5_500]}},
        ],
        ids=[
            "RFC 9068",
            "Keycloak",
            "Auth0",
            "a machine of Auth0's",
            "no key id",
            "own fields",
            "clocks",
            "a slash",
            "unread",
        ],
    )
    async def test_as_issuers_write_them(self, issuer: LocalIssuer, changed: dict[str, Any]) -> None:
        assert await verdict(verifier_of(issuer), issuer.token(**changed)) is None

    async def test_where_a_client_is_the_audience_its_id_tokens_are_not(self, issuer: LocalIssuer) -> None:
        verifier = verifier_of(issuer, audience="editor")
        how: dict[str, Any] = {"header": {"typ": "JWT"}, "aud": "editor", "azp": "editor", "client_id": None}
        assert await verdict(verifier, issuer.token(**how)) is None
        assert await verdict(verifier, issuer.token(**how, scope=None)) is refusals.ID_TOKEN

    async def test_scopes_may_be_a_list_or_called_scp(self, issuer: LocalIssuer) -> None:
        verifier = verifier_of(issuer)
        found = [await verifier.verify_token(issuer.token(scope=None, scp=given)) for given in ("a b", ["a", 1, "b"])]
        assert [each and each.scopes for each in found] == [["a", "b"], ["a", "b"]]

    async def test_an_issuer_with_a_path_is_found_where_rfc_8414_has_it(self) -> None:
        issuer = LocalIssuer("/realms/main")
        issuer.discovery = "/.well-known/oauth-authorization-server/realms/main"
        try:
            assert await verdict(verifier_of(issuer), issuer.token()) is None
        finally:
            issuer.down()

    async def test_a_document_of_another_issuer_is_not_believed(
        self, issuer: LocalIssuer, caplog: pytest.LogCaptureFixture
    ) -> None:
        issuer.said["issuer"] = f"{issuer.url}/"
        assert await verdict(verifier_of(issuer), issuer.token()) is refusals.UNREACHABLE
        assert f"it calls itself '{issuer.url}/'; auth_issuer must be that to the letter" in caplog.text

    @every("name", ["jwks_uri", "introspection_endpoint", "token_endpoint"])
    def test_an_issuer_over_https_names_no_address_without_it(self, name: str) -> None:
        issuer, there = "https://login.example", "https://login.example/x"
        said = {"issuer": issuer, "jwks_uri": there, "introspection_endpoint": there, "token_endpoint": there}
        assert read_document(issuer, said) == said
        with pytest.raises(IssuerUnreachable, match=f"its {name} can't be used"):
            read_document(issuer, {**said, name: "http://login.example/x"})


class TestSeenTokens:
    async def test_one_is_answered_with_the_same_object(self, issuer: LocalIssuer) -> None:
        verifier, token = verifier_of(issuer), issuer.token()
        first = await verifier.verify_token(token)
        assert first is not None
        assert await verifier.verify_token(token) is first

    async def test_none_is_taken_past_its_end(self, issuer: LocalIssuer) -> None:
        clock = Clock()
        verifier, token = verifier_of(issuer, clock=clock), issuer.token(exp=int(clock.now) + 60)
        assert await verdict(verifier, token) is None
        clock.now = int(clock.now) + 60
        assert await verdict(verifier, token) is refusals.EXPIRED

    @every(("claim", "too_early"), [("iat", refusals.FROM_THE_FUTURE), ("nbf", refusals.NOT_YET), ("exp", None)])
    async def test_clocks_may_differ_by_half_a_minute_and_no_second_more(
        self, issuer: LocalIssuer, claim: str, too_early: Reason | None
    ) -> None:
        clock = Clock()
        clock.now = float(int(clock.now))
        for later_s, told in ((30, None), (31, too_early)):
            claims = {"exp": int(clock.now) + 600, claim: int(clock.now) + later_s}
            assert await verdict(verifier_of(issuer, clock=clock), issuer.token(**claims)) is told

    async def test_a_key_that_was_withdrawn_is_out_within_the_hour(self, issuer: LocalIssuer) -> None:
        clock = Clock()
        verifier, token = verifier_of(issuer, clock=clock), issuer.token(exp=int(clock.now) + 10 * FRESH_S)
        assert await verdict(verifier, token) is None
        issuer.keys = [rsa("k2")]
        clock.now += FRESH_S
        assert await verdict(verifier, token) is refusals.FOREIGN_KEY

    async def test_none_that_a_key_has_signed_is_taken_once_that_is_known_to_be_withdrawn(
        self, issuer: LocalIssuer
    ) -> None:
        verifier, token = verifier_of(issuer), issuer.token()
        assert await verdict(verifier, token) is None
        issuer.keys = [rsa("k2")]
        assert await verdict(verifier, issuer.token()) is None
        assert await verdict(verifier, token) is refusals.FOREIGN_KEY

    async def test_what_is_kept_of_them_is_bounded(self, issuer: LocalIssuer) -> None:
        verifier = verifier_of(issuer)
        for n in range(300):
            await verifier.verify_token(issuer.token(issuer.keys[1], "ES256", padding="x" * 10_000, n=n))
        assert verifier._seen.currsize <= 16 << 20
        assert 100 < len(verifier._seen) < 300


class TestRotation:
    async def test_under_load_nobody_is_refused_and_the_issuer_is_asked_once(self, issuer: LocalIssuer) -> None:
        clock = Clock()
        verifier = verifier_of(issuer, retry_s=RETRY_S, clock=clock)
        assert await verdict(verifier, issuer.token()) is None
        issuer.keys = [rsa("k2"), issuer.keys[0]]
        clock.now += RETRY_S
        refused: list[Reason | None] = []

        async def call(n: int) -> None:
            refused.append(await verdict(verifier, issuer.token(issuer.keys[n % 2], jti=str(n))))

        async with anyio.create_task_group() as calls:
            for n in range(100):
                calls.start_soon(call, n)
        assert refused == [None] * 100
        assert issuer.asked["/jwks"] == 2

    async def test_a_flood_of_key_ids_costs_the_issuer_one_request(self, issuer: LocalIssuer) -> None:
        clock = Clock()
        verifier, stranger = verifier_of(issuer, retry_s=RETRY_S, clock=clock), ec("zz")
        assert await verdict(verifier, issuer.token()) is None
        clock.now += RETRY_S
        told = []
        for n in range(500):
            told.append(await verdict(verifier, issuer.token(stranger, "ES256", header={"kid": f"z{n}"})))
            clock.now += 0.001
        assert issuer.asked["/jwks"] == 2
        # The first was looked for among keys fetched for it; the others may be of a key that came since.
        assert told == [refusals.FOREIGN_KEY] + [refusals.UNREACHABLE] * 499
        assert await verdict(verifier, issuer.token(jti="another")) is None

    async def test_a_forged_token_that_could_not_be_good_costs_the_issuer_nothing(self, issuer: LocalIssuer) -> None:
        verifier = verifier_of(issuer)
        assert await verdict(verifier, issuer.token(rsa("zz"), aud="other")) is refusals.WRONG_AUDIENCE
        assert not issuer.asked

    async def test_exotic_keys_are_left_out(self, issuer: LocalIssuer) -> None:
        issuer.extra_keys = [
            {"kty": "AKP", "alg": "ML-DSA-44", "kid": "k1", "pub": "x"},
            {"kty": "EC", "crv": "P-999", "kid": "k1", "x": "x", "y": "y"},
            {"kty": "oct", "kid": "k1", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"},
            jwk.OKPKey.generate_key("X25519", {"kid": "k1"}).as_dict(private=False),
            {**rsa("k1").as_dict(private=False), "use": "enc"},
            "no key",  # type: ignore[list-item]
            {},
        ]
        other = jwk.OKPKey.generate_key("Ed25519", {"kid": "k1"})
        issuer.keys.append(other)
        verifier = verifier_of(issuer)
        assert [await verdict(verifier, issuer.token(*how)) for how in ((), (other, "EdDSA"))] == [None, None]

    async def test_a_key_set_without_one_that_checks_signatures_leaves_those_that_are_known(
        self, issuer: LocalIssuer
    ) -> None:
        verifier, known, unknown = verifier_of(issuer), issuer.token(), issuer.token(rsa("k2"))
        assert await verdict(verifier, known) is None
        issuer.keys = []
        assert await verdict(verifier, unknown) is refusals.UNREACHABLE
        assert await verdict(verifier, known) is None


class TestIssuerDown:
    async def test_where_no_key_was_ever_known_it_is_a_503_that_says_when_to_try_again(
        self, issuer: LocalIssuer
    ) -> None:
        verifier, token = verifier_of(issuer), issuer.token()
        async with served(verifier) as ask:
            issuer.down()
            response = await ask(token)
            issuer.up()
            again = await ask(token)
        assert response.status_code == 503
        assert response.headers["retry-after"] == str(RETRY_S)
        assert response.json()["error_description"] == refusals.UNREACHABLE.text
        assert "www-authenticate" not in response.headers
        assert again.status_code == 200

    async def test_known_keys_go_on_for_a_day_and_unknown_ones_are_not_a_401(self, issuer: LocalIssuer) -> None:
        clock = Clock()
        verifier, end = verifier_of(issuer, clock=clock), int(clock.now) + 10 * KEPT_S
        assert await verdict(verifier, issuer.token()) is None
        known, new = issuer.token(exp=end), issuer.token(rsa("k2"), exp=end)
        issuer.down()
        try:
            clock.now += KEPT_S - LATER_S
            assert await verdict(verifier, known) is None
            assert await verdict(verifier, new) is refusals.UNREACHABLE
            clock.now += LATER_S + 1
            assert await verdict(verifier, known) is refusals.UNREACHABLE
        finally:
            issuer.up()
        clock.now += RETRY_S
        assert await verdict(verifier, known) is None

    async def test_an_answer_beyond_all_measure_is_none(self, issuer: LocalIssuer) -> None:
        issuer.said["padding"] = "x" * 300_000
        verifier = verifier_of(issuer)
        assert await verdict(verifier, issuer.token()) is refusals.UNREACHABLE
        assert verifier.issuer.trouble == "an answer of over 262144 bytes"

    async def test_what_is_expired_all_the_same_is_a_401(self, issuer: LocalIssuer) -> None:
        verifier = verifier_of(issuer)
        issuer.down()
        try:
            assert await verdict(verifier, issuer.token(exp=NOW - 1)) is refusals.EXPIRED
        finally:
            issuer.up()

    async def test_it_is_told_once_and_that_it_is_over(
        self, issuer: LocalIssuer, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO", "agent_utilities")
        verifier = verifier_of(issuer)
        login = Login(None, verifier, RemoteAuthProvider(verifier, [], base_url="http://tools.example"))
        assert not login.trouble
        issuer.down()
        for n in range(3):
            await verdict(verifier, issuer.token(jti=str(n)))
        assert login.trouble == "the issuer of tokens can't be asked; known keys are taken for 24 h"
        issuer.up()
        await verdict(verifier, issuer.token())
        assert not login.trouble
        told = [record.getMessage() for record in caplog.records if record.name.startswith("agent_utilities")]
        assert [line.partition(":")[0] for line in told] == ["the issuer http", "the issuer http"]
        assert ("can't be asked" in told[0], told[1].endswith("can be asked again")) == (True, True)


class TestOpaqueTokens:
    CLIENT = ("gate way", "s:cret")

    def said(self, issuer: LocalIssuer, **changed: Any) -> dict[str, Any]:
        return {"active": True, "token_type": "Bearer", **issuer.claims(iss=None), **changed}

    async def test_the_issuer_says_who_it_speaks_for(self, issuer: LocalIssuer) -> None:
        issuer.introspected["opaque"] = self.said(issuer)
        found = await verifier_of(issuer, client=self.CLIENT).verify_token("opaque")
        assert found is not None
        assert (found.subject, found.client_id, found.claims["iss"]) == ("ann", "editor", issuer.url)
        assert issuer.credentials == ["Basic " + base64.b64encode(b"gate+way:s%3Acret").decode()]

    async def test_without_a_client_of_its_own_none_is_asked_for(self, issuer: LocalIssuer) -> None:
        issuer.introspected["opaque"] = self.said(issuer)
        assert await verdict(verifier_of(issuer), "opaque") is refusals.UNREADABLE
        assert not issuer.asked

    @every(
        ("changed", "reason"),
        [
            ({"active": False}, refusals.INACTIVE),
            ({"active": "yes"}, refusals.INACTIVE),
            ({"aud": "another"}, refusals.WRONG_AUDIENCE),
            ({"iss": "https://elsewhere.example"}, refusals.WRONG_ISSUER),
            ({"exp": NOW - 1}, refusals.EXPIRED),
            ({"sub": ""}, refusals.NO_SUBJECT),
            ({"token_type": "refresh_token"}, refusals.WRONG_TYPE),
            ({"scope": ""}, refusals.MISSING_SCOPE),
        ],
    )
    async def test_what_lets_nobody_in_is_refused(
        self, issuer: LocalIssuer, changed: dict[str, Any], reason: Reason
    ) -> None:
        issuer.introspected["opaque"] = self.said(issuer, **changed)
        assert await verdict(verifier_of(issuer, client=self.CLIENT, scopes=["read"]), "opaque") is reason

    async def test_one_that_is_revoked_is_out_within_seconds(self, issuer: LocalIssuer) -> None:
        clock = Clock()
        verifier = verifier_of(issuer, client=self.CLIENT, clock=clock)
        issuer.introspected["opaque"] = self.said(issuer)
        assert await verdict(verifier, "opaque") is None
        del issuer.introspected["opaque"]
        assert await verdict(verifier, "opaque") is None
        clock.now += OPAQUE_S
        assert await verdict(verifier, "opaque") is refusals.INACTIVE
        assert issuer.asked["/introspect"] == 2

    @every("endpoint", ["/introspect", "/nowhere"])
    async def test_where_it_does_not_answer_it_is_no_401(self, issuer: LocalIssuer, endpoint: str) -> None:
        verifier = verifier_of(issuer, client=self.CLIENT)
        issuer.said["introspection_endpoint"] = issuer.url + endpoint
        assert await verdict(verifier, issuer.token()) is None
        if endpoint == "/introspect":
            issuer.down()
        assert await verdict(verifier, "opaque") is refusals.UNREACHABLE
        assert verifier.issuer.trouble.startswith("introspection: ")
        if endpoint == "/introspect":
            issuer.up()

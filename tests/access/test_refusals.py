"""Forged and stale tokens: none lets anybody in, and each is answered with its line."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable

import pytest

from agent_utilities.access import refusals
from agent_utilities.access.refusals import Reason
from tests.access.local_issuer import LocalIssuer, rsa, signed
from tests.access.logged import everything_logged
from tests.access.verifying import served, verifier_of
from tests.every import every

pytestmark = [pytest.mark.anyio, pytest.mark.outside]


def part(value: object) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def swapped(token: str, index: int, value: object) -> str:
    parts = token.split(".")
    parts[index] = part(value)
    return ".".join(parts)


def unsigned(issuer: LocalIssuer, alg: str) -> str:
    return f"{part({'alg': alg, 'typ': 'at+jwt'})}.{part(issuer.claims())}."


def with_the_public_key_as_secret(issuer: LocalIssuer) -> str:
    pem = issuer.keys[0].as_pem(private=False)  # type: ignore[union-attr]
    header = {"alg": "HS256", "kid": "k1", "typ": "at+jwt"}
    data = f"{part(header)}.{part(issuer.claims())}"
    return f"{data}.{part(hmac.digest(pem, data.encode(), hashlib.sha256))}"


THEIRS = rsa("k1", "a stranger")
"""A stranger's key, which bears the id of the issuer's."""
NOW = int(time.time())

FORGED: dict[str, tuple[Callable[[LocalIssuer], str], Reason]] = {
    "expired": (lambda i: i.token(exp=NOW - 1), refusals.EXPIRED),
    "without an end": (lambda i: i.token(exp=None), refusals.NO_EXPIRY),
    "an end that is no number": (lambda i: i.token(exp="9999999999"), refusals.UNREADABLE),
    "an end that is infinite": (lambda i: i.token(exp=float("inf")), refusals.UNREADABLE),
    "not valid before tomorrow": (lambda i: i.token(nbf=NOW + 86_400), refusals.NOT_YET),
    "issued tomorrow": (lambda i: i.token(iat=NOW + 86_400), refusals.FROM_THE_FUTURE),
    "for another audience": (lambda i: i.token(aud="http://tools.example/other"), refusals.WRONG_AUDIENCE),
    "for no audience": (lambda i: i.token(aud=None), refusals.WRONG_AUDIENCE),
    "of another issuer": (lambda i: i.token(iss="http://elsewhere.example"), refusals.WRONG_ISSUER),
    "of an issuer with a slash more": (lambda i: i.token(iss=f"{i.url}/"), refusals.WRONG_ISSUER),
    "without a subject": (lambda i: i.token(sub=None), refusals.NO_SUBJECT),
    "an ID token by its nonce": (lambda i: i.token(header={"typ": "JWT"}, nonce="n"), refusals.ID_TOKEN),
    "an ID token by its hash": (lambda i: i.token(header={"typ": None}, at_hash="h"), refusals.ID_TOKEN),
    "a refresh token of Keycloak's": (lambda i: i.token(header={"typ": "JWT"}, typ="Refresh"), refusals.ID_TOKEN),
    "a logout token": (lambda i: i.token(header={"typ": "logout+jwt"}), refusals.WRONG_TYPE),
    "not signed": (lambda i: unsigned(i, "none"), refusals.UNSIGNED),
    "not signed, spelled otherwise": (lambda i: unsigned(i, "nOnE"), refusals.UNSIGNED),
    "HS256 with the public key as secret": (with_the_public_key_as_secret, refusals.WRONG_ALGORITHM),
    "a key that is not theirs": (lambda i: i.token(THEIRS), refusals.FOREIGN_KEY),
    "a key id that is not theirs": (lambda i: i.token(rsa("zz")), refusals.FOREIGN_KEY),
    "a key that it brings along": (
        lambda i: i.token(THEIRS, header={"jwk": THEIRS.as_dict(private=False)}),
        refusals.FOREIGN_KEY,
    ),
    "keys that it says where to get": (
        lambda i: i.token(THEIRS, header={"jku": "http://elsewhere.example/jwks", "kid": None}),
        refusals.FOREIGN_KEY,
    ),
    "an extension that must be known": (
        lambda i: swapped(i.token(), 0, {"alg": "RS256", "kid": "k1", "typ": "at+jwt", "crit": ["x"], "x": 1}),
        refusals.CRITICAL_HEADER,
    ),
    "a subject changed afterwards": (lambda i: swapped(i.token(), 1, i.claims(sub="eve")), refusals.FOREIGN_KEY),
    "an algorithm changed afterwards": (
        lambda i: swapped(i.token(), 0, {"alg": "PS256", "kid": "k1", "typ": "at+jwt"}),
        refusals.FOREIGN_KEY,
    ),
    "a signature cut off": (lambda i: i.token().rpartition(".")[0] + ".", refusals.FOREIGN_KEY),
    "bound to a key of its sender": (lambda i: i.token(cnf={"jkt": "x"}), refusals.KEY_BOUND),
    "claims that are no object": (
        lambda i: signed(i.keys[0], {"alg": "RS256", "kid": "k1", "typ": "at+jwt"}, ["ann"]),
        refusals.UNREADABLE,
    ),
    "claims nested without end": (lambda i: swapped(i.token(), 1, b"[" * 9_000), refusals.UNREADABLE),
    "encrypted": (lambda i: ".".join([part({"alg": "RSA-OAEP", "enc": "A256GCM"}), *"abcd"]), refusals.UNREADABLE),
    "longer than any token": (lambda i: i.token(padding="x" * 17_000), refusals.UNREADABLE),
}


class TestForgedAndStale:
    @every("name", FORGED)
    async def test_each_is_refused_with_its_line_and_where_to_log_in(self, issuer: LocalIssuer, name: str) -> None:
        make, reason = FORGED[name]
        async with served(verifier_of(issuer)) as ask:
            response = await ask(make(issuer))
        assert (response.status_code, response.json()) == (
            401,
            {"error": "invalid_token", "error_description": reason.text},
        )
        assert response.headers["www-authenticate"] == (
            f'Bearer error="invalid_token", error_description="{reason.text}", '
            'resource_metadata="http://tools.example/.well-known/oauth-protected-resource/mcp"'
        )

    async def test_without_a_token_no_error_is_told_but_where_to_log_in(self, issuer: LocalIssuer) -> None:
        async with served(verifier_of(issuer, scopes=["read"])) as ask:
            response = await ask(None)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == (
            'Bearer scope="read", resource_metadata="http://tools.example/.well-known/oauth-protected-resource/mcp"'
        )
        assert response.json()["error_description"] == refusals.NONE_GIVEN.text

    async def test_a_missing_scope_is_a_403_that_says_which_to_ask_for(self, issuer: LocalIssuer) -> None:
        async with served(verifier_of(issuer, scopes=["read", "write"])) as ask:
            response = await ask(issuer.token())
        assert response.status_code == 403
        assert response.headers["www-authenticate"] == (
            f'Bearer error="insufficient_scope", error_description="{refusals.MISSING_SCOPE.text}", '
            'scope="read write", '
            'resource_metadata="http://tools.example/.well-known/oauth-protected-resource/mcp"'
        )

    async def test_nothing_of_them_is_logged_at_any_level(self, issuer: LocalIssuer) -> None:
        tokens = [issuer.token(), *(make(issuer) for make, _ in FORGED.values())]
        with everything_logged() as lines:
            async with served(verifier_of(issuer)) as ask:
                for token in tokens:
                    await ask(token)
        text, parts = "\n".join(lines), {part for token in tokens for part in token.split(".") if len(part) > 20}
        assert "Auth error returned: invalid_token" in text
        assert [part for part in parts if part in text] == []

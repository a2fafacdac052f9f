"""The caller of a request, as their verified token identifies them, and what the operator grants them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

from fastmcp.server.dependencies import get_access_token
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.requests import Request as HttpRequest
from starlette.types import Scope

from agent_utilities.compat.fastmcp_server import is_over_stdio
from agent_utilities.selection.model import NOTHING, Selection


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of an HTTP request, as their verified token identifies them; nothing else does (law L3).

    Args:
        issuer: the token's issuer; empty without one.
        subject: the token's subject; empty where it is nobody's in particular.
        client: the client that the token was issued to; empty where it names none.
        claims: the token's claims, under their JWT names.
        token: the token itself, to be compared and never shown.
    """

    issuer: str = ""
    subject: str = ""
    client: str = ""
    claims: Mapping[str, Any] = field(default_factory=dict, compare=False)
    token: str = field(default="", repr=False)

    @property
    def person(self) -> tuple[str, str]:
        """The identity that quotas, logins and the record use: a subject is unique only within its issuer."""
        return self.issuer, self.subject


NOBODY = Caller()
"""The sender of an HTTP request without a token."""


def caller_of(request: object) -> Caller | None:
    """Return the sender of an HTTP request; None otherwise, as over stdio, where whoever runs the process calls."""
    if not isinstance(request, HttpRequest):
        return None
    user = request.scope.get("user")
    return of_token(user.access_token) if isinstance(user, AuthenticatedUser) else NOBODY


def address_of(scope: Scope) -> str:
    """Return the client address of a request; for IPv6 its `/64` network, since one client has all of that."""
    address = (scope.get("client") or ("",))[0]
    try:
        parsed = ip_address(address)
    except ValueError:
        return str(address)
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return str(mapped or ip_network((parsed, min(parsed.max_prefixlen, 64)), strict=False).network_address)


def of_token(token: AccessToken) -> Caller:
    """Return the caller that a verified token identifies."""
    claims = dict(getattr(token, "claims", None) or {})
    client = getattr(token, "original_client_id", None) or token.client_id
    claims.setdefault("sub", token.subject)
    named = claims.get("client_id") or claims.get("azp")
    if not isinstance(named, str) and (named or client in (claims["sub"], "unknown")):
        client = ""  # verifiers fill in the subject or `unknown` where the token names no client
    if "scope" not in claims and "scp" not in claims and token.scopes:
        claims["scope"] = token.scopes
    # A claim that is no string identifies nobody: converted to one, it could equal somebody else's.
    issuer, subject = (claims[name] if isinstance(claims.get(name), str) else "" for name in ("iss", "sub"))
    return Caller(issuer, subject, str(client), claims, token.token)


ANONYMOUS = ""
"""The key of callers without a token; everybody may know what they are listed."""


def caller_key() -> str:
    """Return a key that separates callers as far as FastMCP's `auth` checks do: a hash of the token.

    Over stdio there is one caller, to whom no check applies.
    """
    if is_over_stdio():
        return "stdio"
    token = get_access_token()
    return ANONYMOUS if token is None else blake2b(token.token.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Grant:
    """The bounds and rights that the operator gives one caller, beside everybody's.

    Args:
        bounds: the fields of their profiles, on the channels `rule` and `token`.
        may: their rights to what is no tool, such as `metrics`; a feature grants only those in its own `rights`.
        rule: the number of the rule that fits them, from 1; None where none does.
        profiles: the folded names of the profiles that it is made of.
    """

    bounds: Selection = NOTHING
    may: frozenset[str] = frozenset()
    rule: int | None = None
    profiles: frozenset[str] = frozenset()

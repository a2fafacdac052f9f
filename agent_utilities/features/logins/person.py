"""Who calls, as logins are kept by: issuer and subject, as the verified token says them."""

from __future__ import annotations

from fastmcp.server.auth import AccessToken
from fastmcp.server.dependencies import get_access_token

from agent_utilities.mcp.sessions import of_token

Person = tuple[str, str]
"""Issuer and subject: one subject of two issuers is two people."""


def person_of(token: AccessToken | None) -> Person | None:
    """Return whose token it is; None for nobody's, and for one that names no issuer or no subject."""
    person = of_token(token).person if token is not None else ("", "")
    return person if all(person) else None


def present_person() -> Person | None:
    """Return who is served now, in a request or in what is done for one beside it; None where that is not known."""
    return person_of(get_access_token())

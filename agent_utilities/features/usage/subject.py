"""Whom a request's usage counts for, where callers authenticate."""

from __future__ import annotations

import json

from fastmcp.server.dependencies import get_access_token


def subject_of_request() -> str | None:
    """Return what tells the present caller's subject from all others; None where he did not authenticate.

    The subject of one issuer is not that of another, nor a client's own that of a user.
    """
    token = get_access_token()
    if token is None:
        return None
    claims = token.claims or {}
    subject, issuer = claims.get("sub"), claims.get("iss")
    parts = ("sub", issuer, subject) if subject else ("client", issuer, token.client_id)
    return json.dumps(parts, default=str)  # whatever is in a part, it can't pass for two of them

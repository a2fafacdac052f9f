"""What goes wrong with one HTTP exchange, told to the call that it concerns, and to no other."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import mcp_types
from mcp import MCPError

from agent_utilities.upstream.errors import Cause

_KEY = "agent-utilities/upstream"
_REFUSED = (401, 403, 407)
_NOT_NOW = (429, 502, 503, 504)
_LOST = (400, 404)


@dataclass(frozen=True, slots=True)
class HttpTrouble:
    """Why an exchange brought no answer.

    Args:
        cause: what is wrong, in a word.
        detail: what is wrong, for a person.
        is_sent: whether the upstream may have got the message.
        is_lost: whether the upstream has forgotten the session, so that it did not look at the message.
        is_final: whether another message would fare no better.
        status: the HTTP status; None where there is none.
    """

    cause: Cause
    detail: str
    is_sent: bool = True
    is_lost: bool = False
    is_final: bool = False
    status: int | None = None

    def as_error(self) -> mcp_types.ErrorData:
        """Return it as a JSON-RPC error, which reaches the one who waits for the answer."""
        return mcp_types.ErrorData(code=mcp_types.INTERNAL_ERROR, message=self.detail, data={_KEY: asdict(self)})


def http_trouble(error: MCPError) -> HttpTrouble | None:
    """Return the trouble that an error tells of; None where it is the upstream's own."""
    told: Any = error.data.get(_KEY) if isinstance(error.data, dict) else None
    return HttpTrouble(**told) if isinstance(told, dict) else None


def trouble_of_status(status: int, has_session: bool, body: bytes) -> HttpTrouble:
    """Return what an HTTP status above 399 says.

    Args:
        status: the response's.
        has_session: whether the request named a session.
        body: the response's.
    """
    if has_session and (status == 404 or (status in _LOST and b"session" in body[:2_000].lower())):
        return HttpTrouble("unreachable", "it has forgotten the session", is_sent=False, is_lost=True, status=status)
    if status in _REFUSED:
        return HttpTrouble("refused", f"answered HTTP {status}: {_MEANING[status]}", is_final=True, status=status)
    meaning = "there is no such address" if status == 404 else "it is not able to answer"
    return HttpTrouble("unreachable", f"answered HTTP {status}: {meaning}", is_final=status in _NOT_NOW, status=status)


_MEANING = {
    401: "it wants credentials, or other ones; see `headers` and `auth` of its config, or log in by"
    " `agent-utilities gateway login NAME`",
    403: "what it was given for credentials is not enough",
    407: "the proxy on the way wants credentials",
}

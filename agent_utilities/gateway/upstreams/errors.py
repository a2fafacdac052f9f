"""The state of an upstream, and its errors: each names the upstream, what went wrong, and what would help next."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from secrets import token_hex
from typing import Any, Literal

from pydantic_core import from_json, to_json

from agent_utilities.errors import AgentUtilitiesError, InputError

Cause = Literal[
    "not found",
    "did not start",
    "did not answer",
    "died",
    "not MCP",
    "sent too much",
    "refused",
    "unreachable",
    "off",
    "stopping",
]
"""The kinds of trouble of an upstream, in the words of state, metrics and tables."""
StateName = Literal["unseen", "idle", "starting", "ready", "failing", "off"]
"""The states of an upstream, in the words of `/ready`, metrics and tables."""


_INTERNAL_ERROR = -32603  # of JSON-RPC
_OWN = f"agent-utilities/own-{token_hex(8)}"
"""The key of the data of an upstream's own error; drawn at random, so that no upstream can forge it."""


def with_own_error(message: Any, answers: object = None) -> Any:
    """Return a message; an error is marked as the upstream's own, and made valid JSON-RPC.

    Errors without the mark are the transport's: so no text of an upstream's is taken for the end of its connection. A
    code may be a text, as of a database or an operating system, which the caller is to read.

    Args:
        answers: the id of the request, where the server may have answered with another since it did not read that.
    """
    raw = message.get("error") if isinstance(message, Mapping) and "method" not in message else None
    if raw is None or (message.get("result") is not None):
        return message
    error = raw if isinstance(raw, Mapping) else {"message": raw}
    code, text, data = (error.get(key) for key in ("code", "message", "data"))
    if type(code) is not int:
        code, data = _INTERNAL_ERROR, {"code": code} if data is None and code is not None else data
    text = text if isinstance(text, str) else to_json(error if text is None else text).decode()
    answered = message.get("id") if answers is None else answers
    return {"jsonrpc": "2.0", "id": answered, "error": {"code": code, "message": text, "data": {_OWN: data}}}


def read_json(data: bytes | bytearray) -> Any:
    """Return the value of JSON, else `ValueError`; JavaScript's halves of characters and broken UTF-8 are replaced."""
    try:
        return from_json(data)
    except ValueError:
        text = json.dumps(json.loads(data.decode(errors="replace")), ensure_ascii=False)
        return json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def with_own_errors(body: bytes, answers: object = None) -> bytes:
    """Return a message, or a batch of them, as JSON, with the upstream's own errors marked."""
    try:
        value = read_json(body)
    except ValueError:
        return body
    return to_json([*map(with_own_error, value)] if isinstance(value, list) else with_own_error(value, answers))


def own_data(data: Any) -> tuple[bool, Any]:
    """Return whether data is of an upstream's own error, and that error's data."""
    return (True, data[_OWN]) if isinstance(data, dict) and _OWN in data else (False, data)


class ConfigError(InputError):
    """A config file, a server in it, or a value of it that can't be taken."""


class UpstreamError(AgentUtilitiesError, ConnectionError):
    """An upstream can't be used, or failed in a call.

    Args:
        retry_in_s: seconds until it is tried again; None where it is not, or at the next call.
    """

    def __init__(self, upstream: str, cause: Cause, detail: str, *, retry_in_s: float | None = None) -> None:
        self.upstream, self.cause, self.detail, self.retry_in_s = upstream, cause, detail, retry_in_s
        again = f"; tried again in {ceil(retry_in_s)} s" if retry_in_s is not None else ""
        super().__init__(f"upstream {upstream!r} {cause}: {detail}{again}")


@dataclass(frozen=True, slots=True)
class UpstreamState:
    """The state of an upstream.

    Args:
        name: `unseen`: never reached, so that its tools are absent. `idle`: not running, its tools are known.
            `starting`, `ready`: a connection is being made, or is up. `failing`: the last try failed. `off`: disabled.
        cause: of `failing`, in a word.
        detail: of `failing`, for a person; no secret is in it.
        n_failures: tries that failed in a row.
    """

    name: StateName
    cause: Cause | None = None
    detail: str = ""
    n_failures: int = 0

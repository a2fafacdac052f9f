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
"""What is wrong with an upstream, in a word that state, metrics and tables share."""
StateName = Literal["unseen", "idle", "starting", "ready", "failing", "off"]
"""What an upstream does now, as `/ready`, metrics and tables tell it."""


_INTERNAL_ERROR = -32603  # of JSON-RPC
_OWN = f"agent-utilities/own-{token_hex(8)}"
"""Under which an upstream's own error has its data; no upstream knows it, so that none can write it."""


def with_own_error(message: Any, answers: object = None) -> Any:
    """Return a message with its error, if it is one, marked as the upstream's own and made one that JSON-RPC has.

    What isn't marked is the transport's: so no text of an upstream's is taken for the end of its connection. Its code
    may be a text, as a database's or an operating system's is: who calls is to read what it says. Its id may be another
    where the server did not read the request, which it `answers` all the same.
    """
    told = message.get("error") if isinstance(message, Mapping) and "method" not in message else None
    if told is None or (message.get("result") is not None):
        return message
    error = told if isinstance(told, Mapping) else {"message": told}
    code, text, data = (error.get(key) for key in ("code", "message", "data"))
    if type(code) is not int:
        code, data = _INTERNAL_ERROR, {"code": code} if data is None and code is not None else data
    text = text if isinstance(text, str) else to_json(error if text is None else text).decode()
    given = message.get("id") if answers is None else answers
    return {"jsonrpc": "2.0", "id": given, "error": {"code": code, "message": text, "data": {_OWN: data}}}


def read_json(data: bytes | bytearray) -> Any:
    """Return what JSON says.

    So it does of what JavaScript writes of a text that was cut within a character, what is not quite UTF-8, or nested
    deeper.

    Raises:
        ValueError: it is none.
    """
    try:
        return from_json(data)
    except ValueError:
        text = json.dumps(json.loads(data.decode(errors="replace")), ensure_ascii=False)
        return json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def with_own_errors(body: bytes, answers: object = None) -> bytes:
    """Return a message, or a batch of them, as JSON, with the upstream's own errors marked."""
    try:
        told = read_json(body)
    except ValueError:
        return body
    return to_json([*map(with_own_error, told)] if isinstance(told, list) else with_own_error(told, answers))


def own_data(data: Any) -> tuple[bool, Any]:
    """Return whether the data is of an upstream's own error, and what it was there."""
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
    """What an upstream does now.

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

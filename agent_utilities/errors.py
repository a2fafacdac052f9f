"""The error tree. Messages say what is wrong, the value, its source, and what would be accepted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_VALUE_LIMIT = 120


class AgentUtilitiesError(Exception):
    """The root of every error this package raises on purpose."""


class InputError(AgentUtilitiesError, ValueError):
    """Invalid input: refused as a whole, so that nothing is lost or widened silently.

    Args:
        what: what is wrong, lower case and without blame.
        value: the input; shortened to 120 characters for display.
        source: where it came from, such as `header x-mcp-top-k` or `env MCP_TOP_K`.
        hint: the nearest valid input.
    """

    def __init__(self, what: str, value: object, source: str, hint: str) -> None:
        self.what = what
        self.value = shortened(value if isinstance(value, str) else repr(value))
        self.source = source
        self.hint = hint
        super().__init__(f"{what}: {self.value!r} (from {source}); {hint}")

    def as_dict(self) -> dict[str, str]:
        """Return the JSON form that an HTTP 400 carries under `error`."""
        return {"what": self.what, "value": self.value, "source": self.source, "hint": self.hint}


class SelectionError(InputError):
    """A malformed bound or preference."""


class SettingsError(InputError):
    """A malformed operator setting."""


class Asked(AgentUtilitiesError, RuntimeError):
    """A permitted call waits until somebody has answered a question: it is neither made nor refused, and not counted.

    Args:
        result: what its caller is sent in place of a result, such as an `InputRequiredResult`, as it is on the wire.
        question: what is asked, for a feature that makes the call on behalf of another one.
    """

    def __init__(self, result: Mapping[str, Any], question: object = None) -> None:
        super().__init__("the call waits for an answer")
        self.result, self.question = result, question


class RankerError(AgentUtilitiesError, RuntimeError):
    """A ranker failed; a simpler one replaces it."""


def said_of(message: str) -> str:
    """Return pydantic's message in lower case, without the kind of exception that a validator raised."""
    text = " ".join(message.removeprefix("Value error, ").removeprefix("Assertion failed, ").split())
    return text[:1].lower() + text[1:]


def shortened(text: str) -> str:
    """Return the first 120 characters of a text."""
    return text if len(text) <= _VALUE_LIMIT else text[: _VALUE_LIMIT - 1] + "…"

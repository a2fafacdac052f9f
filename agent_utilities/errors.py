"""The error tree. Messages say what is wrong, the value, where it came from, and what would do."""

from __future__ import annotations

_VALUE_LIMIT = 120


class AgentUtilitiesError(Exception):
    """The root of every error this package raises on purpose."""


class InputError(AgentUtilitiesError, ValueError):
    """Input that can't be taken: refused whole, so that nothing is lost or widened silently.

    Args:
        what: what is wrong, lower case and without blame.
        value: the input as it came; shortened to 120 characters for display.
        source: where it came from, such as `header x-mcp-top-k` or `env MCP_TOP_K`.
        hint: the nearest input that would do.
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
    """A malformed selection: a bound or preference that can't be read."""


class SettingsError(InputError):
    """A malformed operator setting."""


class RankerError(AgentUtilitiesError, RuntimeError):
    """A ranker can't do its work; a plainer one takes its place."""


def said_of(message: str) -> str:
    """Return what pydantic says of a value, in lower case, without the kind of exception that a check raised."""
    told = " ".join(message.removeprefix("Value error, ").removeprefix("Assertion failed, ").split())
    return told[:1].lower() + told[1:]


def shortened(text: str) -> str:
    """Return a text as an error shows it: 120 characters of it at most."""
    return text if len(text) <= _VALUE_LIMIT else text[: _VALUE_LIMIT - 1] + "…"

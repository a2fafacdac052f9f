"""What a value of a server's entry is read with, and how it is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_utilities.upstream.configuration.config_keys import Key
from agent_utilities.upstream.configuration.shown import described, shown
from agent_utilities.upstream.configuration.variables import Variables


class Unusable(ValueError):
    """A value that can't be taken.

    Args:
        what: what is wrong; no secret is in it.
        hint: what would do.
    """

    def __init__(self, what: str, hint: str) -> None:
        self.what, self.hint = what, hint
        super().__init__(f"{what}; {hint}")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a value is read with.

    Args:
        key: its key in the table.
        variables: what fills the variables in it.
        folder: what relative paths are of.
        is_in_seconds: whether `timeout` is in seconds whatever its size.
    """

    key: Key
    variables: Variables
    folder: Path
    is_in_seconds: bool

    def wrong(self, value: object, expected: str) -> Unusable:
        """Return the error for a value of a wrong type; a secret's is told without the value."""
        told = described(value) if self.key.is_secret or isinstance(value, dict | list) else shown(repr(value))
        return Unusable(f"is {told}", f"write {expected}")

    def text(self, value: object, expected: str = "a text") -> str:
        """Return a text, with its variables filled in."""
        if not isinstance(value, str):
            raise self.wrong(value, expected)
        filled = self.variables.fill(value)
        if "\0" in filled or not is_encodable(filled):
            raise Unusable("has a character that no program or address can take", f"write {expected} without it")
        return filled

    def objects(self, value: object, expected: str) -> Mapping[str, Any]:
        """Return an object."""
        if not isinstance(value, dict):
            raise self.wrong(value, expected)
        return value

    def items(self, value: object, expected: str) -> list[Any]:
        """Return a list."""
        if not isinstance(value, list):
            raise self.wrong(value, expected)
        return value

    def names(self, value: object) -> tuple[str, ...]:
        """Return a list of names, each once."""
        expected = 'a list of names, such as ["read_file", "list_*"]'
        names = self.items(value, expected)
        if not all(isinstance(name, str) and name.strip() and is_encodable(name) for name in names):
            raise Unusable("has what is no name", f"write {expected}")
        return tuple(dict.fromkeys(name.strip() for name in names))

    def scalars(self, value: object, expected: str) -> dict[str, str]:
        """Return an object's values as texts; those that are null are left out."""
        values = {}
        for name, given in self.objects(value, expected).items():
            if given is None:
                continue
            if isinstance(given, bool):
                values[name] = "true" if given else "false"
            elif isinstance(given, int | float):
                values[name] = str(given)
            elif isinstance(given, str):
                values[name] = self.text(given)
            else:
                raise Unusable(f"has {described(given)} under {shown(name)!r}", f"write {expected}")
        return values


def is_encodable(text: str) -> bool:
    """Whether a text can be written as UTF-8; half a surrogate pair, which an escape can spell, can't."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

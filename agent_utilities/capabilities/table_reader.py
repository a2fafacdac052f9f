"""Values of a TOML table, each of the type that its key has; what is of another is a problem."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from agent_utilities.capabilities.notes import Notes, quoted


class TableReader:
    """Reads one table of a file.

    Args:
        told: what stands there.
        file: the file, as messages name it.
        notes: what is told is added here.
        place: the table's own key, such as `roles.mcp`; empty for the file itself.
    """

    def __init__(self, told: Mapping[str, Any], file: str, notes: Notes, place: str = "") -> None:
        self._told, self._file, self._notes, self._place = told, file, notes, place

    def where(self, key: str = "") -> str:
        """Return how messages name a key, such as `browser/playwright.toml: deps.require`."""
        place = ".".join(part for part in (self._place, key) if part)
        return f"{self._file}: {place}" if place else self._file

    def has(self, key: str) -> bool:
        """Whether a key stands there."""
        return key in self._told

    def knows(self, keys: Collection[str]) -> None:
        """Have keys passed over that are not among these."""
        self._notes.pass_over(self.where(), (key for key in self._told if key not in keys))

    def table(self, key: str) -> TableReader:
        """Return a table's reader; an empty one's where there is none."""
        value = self._told.get(key, {})
        if not isinstance(value, dict):
            self.wrong(key, f"is {described(value)}", f"write it as a table: [{self._joined(key)}]")
            value = {}
        return TableReader(value, self._file, self._notes, self._joined(key))

    def tables(self, key: str) -> list[TableReader]:
        """Return the readers of a list of tables, named by their places in it."""
        value = self._told.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            self.wrong(key, "is no list of tables", f"write each as a table: [[{self._joined(key)}]]")
            return []
        joined = self._joined(key)
        return [TableReader(each, self._file, self._notes, f"{joined}[{i}]") for i, each in enumerate(value)]

    def named(self, name: str) -> TableReader:
        """Return the same table's reader, named by what it is called in place of its index."""
        return TableReader(self._told, self._file, self._notes, f"{self._place.partition('[')[0]}.{name}")

    def text(self, key: str) -> str:
        """Return a text; empty where there is none."""
        value = self._told.get(key, "")
        if not isinstance(value, str):
            self.wrong(key, f"is {described(value)}", "write a text")
            return ""
        return value.strip()

    def texts(self, key: str, example: str) -> tuple[str, ...]:
        """Return a list of texts, stripped, without blank ones, each once.

        Args:
            key: the key.
            example: what would do.
        """
        value = self._told.get(key, [])
        if not isinstance(value, list):
            self.wrong(key, f"is {described(value)}", f"write a list of texts, such as {example}")
            return ()
        if odd := [each for each in value if not isinstance(each, str)]:
            self.wrong(key, f"has {described(odd[0])}", f"write a list of texts, such as {example}")
            return ()
        return tuple(dict.fromkeys(each for each in map(str.strip, value) if each))

    def words(self, key: str) -> list[str]:
        """Return a list of a program's words as they are; numbers are taken as texts."""
        value = self._told.get(key, [])
        if not isinstance(value, list) or not all(_is_word(each) for each in value):
            self.wrong(key, "is no list of texts", 'write a list of texts, such as ["-y", "NAME"]')
            return []
        return [str(each) for each in value]

    def values(self, key: str) -> dict[str, str]:
        """Return a table of texts; numbers and switches are taken as texts."""
        value = self._told.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(each, str | int | float) for each in value.values()):
            self.wrong(key, "is no table of texts", 'write a table of texts, such as { NAME = "value" }')
            return {}
        return {name: str(each).lower() if isinstance(each, bool) else str(each) for name, each in value.items()}

    def seconds(self, key: str) -> float | None:
        """Return a time in seconds; None where there is none."""
        value = self._told.get(key)
        if value is None:
            return None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or value <= 0:
            self.wrong(key, f"is {quoted(str(value))}", "write a number of seconds above 0, such as 60")
            return None
        return float(value)

    def wrong(self, key: str, what: str, hint: str) -> None:
        """Tell a problem with a key."""
        self._notes.problem(self.where(key), what, hint)

    def _joined(self, key: str) -> str:
        return f"{self._place}.{key}" if self._place else key


def described(value: object) -> str:
    """Return what a value is, without the value."""
    names = {dict: "a table", list: "a list", str: "a text", bool: "a switch", int: "a number", float: "a number"}
    return next((name for kind, name in names.items() if isinstance(value, kind)), "a date or time")


def _is_word(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)

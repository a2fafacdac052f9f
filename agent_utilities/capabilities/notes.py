"""What is told while folders are read: problems, notices, and the files that were looked at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

_LONGEST_LINE = 1000
_LONGEST_VALUE = 120
_MOST_NOTICES = 200


@dataclass(slots=True)
class Notes:
    """Collects what is told of the files.

    Args:
        problems: a line for each thing that leaves a bundle out.
        notices: a line for each thing that is passed over.
        files: every file that was read or looked for.
        unknown: by key, the places where it stands, where nobody knows it.
    """

    problems: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    unknown: dict[str, list[str]] = field(default_factory=dict)

    def problem(self, where: object, what: str, hint: str) -> None:
        """Add a problem: where it is, what is wrong, what would do."""
        self.problems.append(one_line(f"{where}: {what}; {hint}"))

    def notice(self, where: object, what: str) -> None:
        """Add a notice; beyond 200 they are counted, no longer told."""
        self.notices.append(one_line(f"{where}: {what}"))

    def pass_over(self, where: object, keys: Iterable[str]) -> None:
        """Remember keys that nobody knows: each is told once, however often it stands."""
        for key in keys:
            self.unknown.setdefault(key, []).append(str(where))

    def all_notices(self) -> tuple[str, ...]:
        """Return every notice, those of unknown keys last."""
        told = list(self.notices)
        for key, places in self.unknown.items():
            more = f" and {len(places) - 1} more" if len(places) > 1 else ""
            told.append(one_line(f"{places[0]}{more}: the key {quoted(key)} is not known, and passed over"))
        if (n_more := len(told) - _MOST_NOTICES) > 0:
            told = [*told[:_MOST_NOTICES], f"{n_more} more notices are not shown"]
        return tuple(told)


def one_line(text: str) -> str:
    """Return a text on one line of at most 1,000 characters, in which nothing acts on a terminal.

    Names and values may be a stranger's: what is not printable, line ends too, is shown as an escape.
    """
    cut = text if len(text) <= _LONGEST_LINE else text[: _LONGEST_LINE - 1] + "…"
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode("ascii") for char in cut
    )


def quoted(text: str) -> str:
    """Return a value as messages show it: in quotes, 120 characters of it at most."""
    return repr(text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…")

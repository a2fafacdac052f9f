"""Glob patterns matched name by name along a path, in time linear in pattern and path."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import translate

from filesystem_agent.errors import refusal

N_MAX_PATTERN_CHARS = 1_000

States = frozenset[int]


@dataclass(frozen=True)
class Glob:
    """A pattern as one matcher per name; `None` stands for `**`, any number of directories."""

    matchers: tuple[re.Pattern[str] | None, ...]

    @property
    def start(self) -> States:
        """Where matching stands before the first name."""
        return self._closure({0})

    def step(self, states: States, name: str) -> States:
        """Return where matching stands after one more name; empty means nothing below can match."""
        after: set[int] = set()
        for state in states:
            if state == len(self.matchers):
                continue
            matcher = self.matchers[state]
            if matcher is None:
                after.add(state)
            elif matcher.match(name):
                after.add(state + 1)
        return self._closure(after)

    def accepts(self, states: States) -> bool:
        """Tell whether the names so far match the whole pattern."""
        return len(self.matchers) in states

    def _closure(self, states: set[int]) -> States:
        for state in sorted(states):
            while state < len(self.matchers) and self.matchers[state] is None:
                state += 1
                states.add(state)
        return frozenset(states)


def parse_glob(pattern: str) -> Glob:
    """Return the matcher of a pattern: `*`, `?`, `[…]` within a name, `**` for directories, case-sensitive.

    A pattern without a slash matches names at any depth, as in `.gitignore`.

    Raises:
        ToolError: the pattern is empty, too long, or leaves the directory it starts in.
    """
    if len(pattern) > N_MAX_PATTERN_CHARS:
        raise refusal(f"pattern is longer than {N_MAX_PATTERN_CHARS} characters", pattern)
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if not parts or pattern.startswith("/") or ".." in parts:
        raise refusal("pattern must be relative to path, without '..'", pattern, "e.g. 'src/**/*.py'")
    if "/" not in pattern.removeprefix("./") and parts != ["**"]:
        parts.insert(0, "**")
    if parts[-1] == "**":
        parts.append("*")
    return Glob(tuple(None if part == "**" else re.compile(translate(part)) for part in parts))

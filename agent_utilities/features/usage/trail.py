"""What one session asked for and called: by it calls are told apart in the usage log, and its next list is shaped."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from agent_utilities.usage.model import N_NEAR

LONGEST = 5_000
"""Characters of words that are remembered: more than are ever looked through for secrets before they are written, so
that it is seen there that they go on. A secret that ends here in its middle would look like none."""


@dataclass(frozen=True, slots=True)
class SessionUse:
    """What a session asked for and called so far; each method returns what it is after one more step.

    Args:
        n_turns: how many turns there were.
        words: the words of its last turn.
        called: names of the tools that it called with success, the last one first; at most 8.
        is_sought: whether a list of this turn was told as a search already.
        searched: the words of its last search.
        found: what that found.
    """

    n_turns: int = 0
    words: str = ""
    called: tuple[str, ...] = ()
    is_sought: bool = False
    searched: str = ""
    found: frozenset[str] = frozenset()

    def asked(self, words: str) -> SessionUse:
        """Take the words of a request: they open a turn unless they are those of the last one."""
        words = words[:LONGEST]
        if not words or words == self.words:
            return self
        return SessionUse(self.n_turns + 1, words, self.called)

    def sought(self) -> SessionUse:
        """Take note that a list of this turn was told as a search."""
        return self if self.is_sought else replace(self, is_sought=True)

    def found_by(self, words: str, found: Collection[str]) -> SessionUse:
        """Take the words of a search, and what it found."""
        return replace(self, searched=words[:LONGEST], found=frozenset(found))

    def words_for(self, tool: str) -> str:
        """Return the words that led to a call: of the search that found the tool, or else of the turn."""
        return self.searched if tool in self.found else self.words

    def used(self, tool: str) -> SessionUse:
        """Take a call that succeeded."""
        if self.called[:1] == (tool,):
            return self
        return replace(self, called=(tool, *(name for name in self.called if name != tool))[:N_NEAR])


NOT_USED = SessionUse()
"""Where every session begins."""

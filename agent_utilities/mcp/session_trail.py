"""What one session asked for and called: by it calls are told apart in the usage log, and its next list is shaped."""

from __future__ import annotations

from collections.abc import Collection
from secrets import token_hex

from agent_utilities.resolution.trail import N_NEAR

_LONGEST = 5_000
"""Characters of words that are remembered: more than are ever looked through for secrets before they are written, so
that it is seen there that they go on. A secret that ends here in its middle would look like none."""


class SessionTrail:
    """The trail of a session of the handshake era; it dies with its connection.

    The session is known by a name drawn at random, which tells nothing of the protocol's own session id.
    """

    __slots__ = ("_found", "_is_sought", "_searched", "called", "n_turns", "session", "words")

    def __init__(self) -> None:
        self.session = token_hex(8)
        self.n_turns = 0
        self.words = ""
        """The words of its last turn."""
        self.called: tuple[str, ...] = ()
        """Names of the tools that it called with success, the last one first; at most 8."""
        self._searched = ""
        self._found: frozenset[str] = frozenset()
        self._is_sought = False

    def asked(self, words: str) -> bool:
        """Take the words of a request, mostly those of the last one; return whether they open a turn."""
        words = words[:_LONGEST]
        if not words or words == self.words:
            return False
        self.words = words
        self.n_turns += 1
        self._searched, self._found = "", frozenset()
        self._is_sought = False
        return True

    def is_sought_first(self) -> bool:
        """Whether this is the first list of its turn."""
        is_first, self._is_sought = not self._is_sought, True
        return is_first

    def searched(self, words: str, found: Collection[str]) -> None:
        """Take the words of a search, and what it found."""
        self._searched, self._found = words[:_LONGEST], frozenset(found)

    def words_for(self, tool: str) -> str:
        """Return the words that led to a call: of the search that found the tool, or else of the turn."""
        return self._searched if tool in self._found else self.words

    def used(self, tool: str) -> None:
        """Take a call that succeeded."""
        if self.called[:1] != (tool,):
            self.called = (tool, *(name for name in self.called if name != tool))[:N_NEAR]

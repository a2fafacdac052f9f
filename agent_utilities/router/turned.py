"""What came of a turn of an agent loop."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Turned:
    """What one message changed.

    Args:
        added: names of the tools that it made visible, in order.
        evicted: names of loaded tools that went out for them.
        n_turns: how many turns there were so far.
        frozen: whether further messages add nothing: only search, load and calls do.
        cause: why it made nothing visible, and why the ranking was less than it could be, in the words of a list's
            `_meta`; empty where neither is so.
    """

    added: tuple[str, ...] = ()
    evicted: tuple[str, ...] = ()
    n_turns: int = 0
    frozen: bool = False
    cause: str = ""

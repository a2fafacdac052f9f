"""What calls teach of one server, as of a moment: plain data, made from the log alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Learned:
    """What the calls of everybody, or of one subject, teach.

    Args:
        version: differs where anything below does; empty where nothing was learned.
        uses: how much each tool was used of late, by name: calls that count half after each half-life, many calls of
            one session hardly more than a few.
        past_requests: the requests that each tool answered, by name, oldest first; at most 20 each.
        used_with: how many sessions called both tools of a pair, the names in order of the alphabet.
        followed_by: how often the second tool of a pair was the next one called in a session after the first.
    """

    version: str = ""
    uses: Mapping[str, float] = field(default_factory=dict)
    past_requests: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    used_with: Mapping[tuple[str, str], int] = field(default_factory=dict)
    followed_by: Mapping[tuple[str, str], int] = field(default_factory=dict)


NOTHING_LEARNED = Learned()
"""Of an empty log, or none."""

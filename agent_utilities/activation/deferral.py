"""When tools are deferred, and how many of them are made visible again."""

from __future__ import annotations

from dataclasses import dataclass

AUTO_OVER = 50
"""More permitted tools than this are deferred where nobody says how many."""
N_ENTRY_TOOLS = 2
"""`tool_search` and `call_tool`, which are listed beside the tools while any is deferred."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A value of `tool_search`: tools are deferred where more than `over` are permitted, or never where it is None."""

    over: int | None = None

    @property
    def spelled(self) -> str:
        """The value as channels spell it."""
        match self.over:
            case None:
                return "off"
            case 0:
                return "on"
            case over:
                return "auto" if over == AUTO_OVER else f"auto:{over}"


OFF = Threshold()
ON = Threshold(0)
AUTO = Threshold(AUTO_OVER)


@dataclass(frozen=True, slots=True)
class Deferral:
    """What holds of tool search for one caller; `Deferral()` defers nothing.

    Args:
        over: tools are deferred where more than this many are permitted; None for never.
        initial_k: the most tools that the first turn attaches.
        search_k: the most that each later turn adds.
        search_turns: turns after which the set is frozen: only search, load and calls add to it. 0 defers nothing.
        max_active: the most tools that search, load and calls keep active; 0 for no cap.
        max_tools: the most tools that a list may have, entry tools and pins counted; None for no limit.
        only_unanswered: whether tools are deferred in those lists alone whose query could not be answered.
    """

    over: int | None = None
    initial_k: int = 30
    search_k: int = 10
    search_turns: int = 7
    max_active: int = 24
    max_tools: int | None = None
    only_unanswered: bool = False

    def defers(self, n_permitted: int, *, is_unanswered: bool = False) -> bool:
        """Whether tools are deferred in a list of a caller to whom so many are permitted.

        Args:
            n_permitted: how many.
            is_unanswered: whether the list's query could not be answered.
        """
        return (is_unanswered or not self.only_unanswered) and self.may_defer(n_permitted)

    def may_defer(self, n_permitted: int) -> bool:
        """Whether tools are deferred in any list of such a caller, so that entry tools answer on every request."""
        if self.over is None or self.search_turns == 0:
            return False
        return n_permitted > (self.over if self.max_tools is None else min(self.over, self.max_tools))

    def room(self, n_pins: int) -> int | None:
        """Return how many tools a list has room for beside entry tools and pins; None for any number."""
        return None if self.max_tools is None else max(0, self.max_tools - N_ENTRY_TOOLS - n_pins)

    def room_to_attach(self, room: int | None) -> int | None:
        """Return how much of a list's room turns may fill, so that search still has some; None for any number."""
        if room is None:
            return None
        return room - min(self.max_active or room, (room + 1) // 2)


NO_DEFERRAL = Deferral()
"""Defers nothing."""

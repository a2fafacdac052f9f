"""What an observer is told, and how all of them are told without one keeping a request from its answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agent_utilities.capabilities.routing import Outcome
from agent_utilities.mcp.session_trail import SessionTrail
from agent_utilities.visibility.decision import Decision

logger = logging.getLogger("agent_utilities.observers")


@dataclass(frozen=True, slots=True)
class ToolsListed:
    """A list of tools that a caller was given.

    Args:
        asked: the method or route, such as `tools/list` or `GET /tools`.
        decision: what the list was made by.
        summary: what the caller is told of it beside the list.
    """

    asked: str
    decision: Decision
    summary: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """A call of a tool, over.

    Args:
        name: as the caller spelled it.
        revision: of the surface it was made under.
        ok: whether the tool answered without an error.
        seconds: how long it took.
        decision: what its caller may use.
        trail: of his session; None where the request stood alone.
        words: the user's, as far as the caller gave any with the call. They are not to be logged as they are.
    """

    name: str
    revision: str
    ok: bool
    seconds: float
    decision: Decision
    trail: SessionTrail | None = None
    words: str = ""


@dataclass(frozen=True, slots=True)
class ToolsSought:
    """Words that tools were sought by: of a search, or of a list.

    Args:
        words: the user's or the model's. They are not to be logged as they are.
        n_found: how many tools were found.
        trail: of the caller's session; None where the request stood alone.
    """

    words: str
    n_found: int
    trail: SessionTrail | None = None


EventName = Literal["tools_attached", "tool_search", "window_step", "ranker_fallback", "evicted"]
"""What is told of tool search: tools were attached by a turn, or loaded by a call · a search was answered · a turn was
counted · a search or turn was answered by less than the ranker · loaded tools went out for others."""


@dataclass(frozen=True, slots=True)
class SearchEvent:
    """Something that tool search did; there are no words of the user in it.

    Counts are of what the caller may use. A tool that becomes visible is counted as `added` of `tools_attached`, one
    that goes out as `evicted` of `evicted`. A `tool_search` that it was for tells both too, as `loaded` and `evicted`.

    Args:
        name: what.
        counts: how much of what: `added`, `loaded`, `evicted`, `found`, `deferred`, `turn`, in the order in which they
            are to be told; which there are depends on the event.
        cause: why, in words of ours; empty where there is nothing to explain.
        seconds: how long it took; None where that was not measured.
    """

    name: EventName
    counts: Mapping[str, int]
    cause: str = ""
    seconds: float | None = None


SwitchedBy = Literal["words", "name", "tool", "skill"]
"""What switched capabilities on or off: a caller's words, the names that he brought, the `capability` tool, a skill."""


@dataclass(frozen=True, slots=True)
class CapabilitiesSwitched:
    """Capabilities were switched for a caller.

    Args:
        by: what switched them.
        on, off: names of those that came, and of those that went or gave way.
    """

    by: SwitchedBy
    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WordsRouted:
    """A caller's words were routed to capabilities; there are none of them in it.

    Args:
        outcome: what came of it.
        nearest: names and scores of the nearest three, best first.
        seconds: how long it took, the embedding with it.
        cause: why nothing was switched on; empty where something was, or was on.
    """

    outcome: Outcome
    nearest: tuple[tuple[str, float], ...]
    seconds: float
    cause: str = ""


class Observer:
    """Is told what a server did; each method does nothing unless it is overridden."""

    def decided(self, seconds: float) -> None:
        """A list was decided that no memo held; it took so many seconds."""

    def listed(self, listing: ToolsListed) -> None:
        """Tools were listed to a caller."""

    def called(self, call: ToolCalled) -> None:
        """A tool was called."""

    def searched(self, event: SearchEvent) -> None:
        """Tool search did something."""

    def sought(self, search: ToolsSought) -> None:
        """Tools were sought by words."""

    def switched(self, event: CapabilitiesSwitched) -> None:
        """Capabilities were switched on or off for a caller."""

    def routed(self, event: WordsRouted) -> None:
        """A caller's words were routed."""

    def served(self, method: str, outcome: str) -> None:
        """A request was served; its outcome is `ok` or `error`."""


class Observers(Observer):
    """Tells every observer; one that raises is logged, and neither the request nor the others know of it."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = list(observers)

    def add(self, observer: Observer) -> None:
        """Tell this one too, from now on."""
        self._observers.append(observer)

    def decided(self, seconds: float) -> None:
        """Tell all of a decision."""
        self._tell(lambda observer: observer.decided(seconds))

    def listed(self, listing: ToolsListed) -> None:
        """Tell all of a list."""
        self._tell(lambda observer: observer.listed(listing))

    def called(self, call: ToolCalled) -> None:
        """Tell all of a call."""
        self._tell(lambda observer: observer.called(call))

    def searched(self, event: SearchEvent) -> None:
        """Tell all of what tool search did."""
        self._tell(lambda observer: observer.searched(event))

    def sought(self, search: ToolsSought) -> None:
        """Tell all of a search's words."""
        self._tell(lambda observer: observer.sought(search))

    def switched(self, event: CapabilitiesSwitched) -> None:
        """Tell all of capabilities that were switched."""
        self._tell(lambda observer: observer.switched(event))

    def routed(self, event: WordsRouted) -> None:
        """Tell all where words led."""
        self._tell(lambda observer: observer.routed(event))

    def served(self, method: str, outcome: str) -> None:
        """Tell all of a request."""
        self._tell(lambda observer: observer.served(method, outcome))

    def remove(self, observer: Observer) -> None:
        """Tell this one no more."""
        self._observers.remove(observer)

    def _tell(self, call: Callable[[Observer], None]) -> None:
        for observer in self._observers:
            try:
                call(observer)
            except Exception:
                logger.exception("an observer failed; the request goes on without it")

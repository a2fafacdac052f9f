"""The verdict: what holds for one request, from its first read to its last byte."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field

from agent_utilities.catalog.model import ComponentKind
from agent_utilities.selection.merge import Effective
from agent_utilities.visibility.bounds import Bounds, Refusals
from agent_utilities.visibility.curation import NO_PREFERENCES, Preferences
from agent_utilities.visibility.decision import Decision


@dataclass(frozen=True, eq=False, slots=True)
class Verdict:
    """What holds for one request.

    Args:
        surface: that of the server that the request reached, to be told from others; a server mounted in it holds its
            own operator's bounds besides, see `Surface.own`.
        effective: the settings that hold.
        bounds: the rules they come to.
        preferences: what was asked for to be shown, the query resolved where tools are listed.
        shapes_lists: whether the preferences apply: only where tools are listed to a caller.
        by_caller: whether the caller gave any setting, or a feature narrows for this request alone.
        asked: digest of what the caller alone asked for.
        judgements: by a catalog's digest, what the bounds come to on it, for as long as the request lasts.
        unlisted: by a catalog's digest, the permitted names in it that the author's middleware keeps off lists.
    """

    surface: object
    effective: Effective
    bounds: Bounds
    preferences: Preferences = NO_PREFERENCES
    shapes_lists: bool = False
    by_caller: bool = False
    asked: str = ""
    judgements: dict[str, Refusals] = field(default_factory=dict)
    unlisted: dict[str, frozenset[str]] = field(default_factory=dict)

    def preferences_for(self, kind: ComponentKind) -> Preferences:
        """Return what is to be shown of a kind of component: preferences are of listed tools only."""
        return self.preferences if self.shapes_lists and kind == "tool" else NO_PREFERENCES


class CollectingDecisions:
    """A block that is given the decisions made within it under a verdict, the last one on each kind of component.

    FastMCP's listing gives back components only: what they were chosen by comes back to the caller this way. A class,
    since every listing enters two.

    Args:
        verdict: the verdict; decisions under others, as for what is unknown, are not the block's.
    """

    __slots__ = ("_token", "decisions", "outer", "verdict")

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.decisions: dict[ComponentKind, Decision] = {}
        self.outer: CollectingDecisions | None = None

    def __enter__(self) -> dict[ComponentKind, Decision]:
        self.outer = _collector.get()
        self._token = _collector.set(self)
        return self.decisions

    def __exit__(self, *_: object) -> None:
        _collector.reset(self._token)


_verdict: ContextVar[Verdict | None] = ContextVar("agent_utilities_verdict", default=None)
_collector: ContextVar[CollectingDecisions | None] = ContextVar("agent_utilities_collector", default=None)


def verdict_in_force() -> Verdict | None:
    """Return the verdict of the request that is being served, or None without one."""
    return _verdict.get()


class UnderVerdict:
    """A block in which a verdict is in force; a class, since every listing enters several.

    Args:
        verdict: what is in force.
        is_set: whether it is already, so that there is nothing to do.
    """

    __slots__ = ("_is_set", "_token", "_verdict")

    def __init__(self, verdict: Verdict, *, is_set: bool) -> None:
        self._verdict = verdict
        self._is_set = is_set

    def __enter__(self) -> Verdict:
        if not self._is_set:
            self._token = _verdict.set(self._verdict)
        return self._verdict

    def __exit__(self, *_: object) -> None:
        if not self._is_set:
            _verdict.reset(self._token)


def hand_back(kind: ComponentKind, decision: Decision, verdict: Verdict) -> None:
    """Give a decision made under a verdict to the blocks that collect those of this verdict."""
    collector = _collector.get()
    while collector is not None:
        if collector.verdict is verdict:
            collector.decisions[kind] = decision
        collector = collector.outer

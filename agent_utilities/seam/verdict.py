"""The verdict: what holds for one request, and the one that is in force."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from agent_utilities.catalog.model import ComponentKind
from agent_utilities.policy.bounds import Bounds, Refusals
from agent_utilities.policy.curation import NO_PREFERENCES, Preferences
from agent_utilities.policy.decision import Decision
from agent_utilities.selection.merge import Effective, Narrowings
from agent_utilities.selection.model import NOTHING, Selection


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
        selection: what the caller asked for, and what the operator permits them beside what everybody may.
        narrowings: what features take away for this request; what they do from everybody who selects so where None.
        outer: what holds for the requests that this one is made in.
        searched_by_caller: whether it was a caller who asked that tools be deferred.
        judgements: by a catalog's digest, what the bounds come to on it, for as long as the request lasts.
        decisions: by surface and kind, the last decision that a listing was made by under this very verdict. FastMCP's
            listing gives back components only: what they were chosen by is found here.
        unlisted: by a catalog's digest, the permitted names in it that the author's middleware keeps off lists.
    """

    surface: object
    effective: Effective
    bounds: Bounds
    preferences: Preferences = NO_PREFERENCES
    shapes_lists: bool = False
    by_caller: bool = False
    asked: str = ""
    selection: Selection = NOTHING
    narrowings: Narrowings | None = None
    outer: tuple[Verdict, ...] = ()
    searched_by_caller: bool = False
    judgements: dict[str, Refusals] = field(default_factory=dict)
    unlisted: dict[str, frozenset[str]] = field(default_factory=dict)
    decisions: dict[tuple[object, ComponentKind], Decision] = field(init=False, default_factory=dict)

    @property
    def granted(self) -> Selection:
        """What the operator permits this caller, beside what everybody may."""
        return self.selection.granted

    @property
    def bounds_alone(self) -> Verdict:
        """The same bounds without anything that is preferred, and so without the caller's words."""
        bounds = self.effective.bounds_only
        return replace(self, effective=bounds, preferences=NO_PREFERENCES, shapes_lists=False, selection=self.granted)

    def preferences_for(self, kind: ComponentKind) -> Preferences:
        """Return what is to be shown of a kind of component: preferences are of listed tools only."""
        return self.preferences if self.shapes_lists and kind == "tool" else NO_PREFERENCES


_in_force: ContextVar[tuple[Verdict | None, bool]] = ContextVar("agent_utilities_verdict", default=(None, False))


def verdict_in_force() -> Verdict | None:
    """Return the verdict of the request that is being served, or None without one."""
    return _in_force.get()[0]


def is_looking_up() -> bool:
    """Whether no more is done than to look up what there is, to be judged afterwards: no component runs."""
    return _in_force.get()[1]


class UnderVerdict:
    """A block in which a verdict is in force; a class, since every listing enters several."""

    __slots__ = ("_looks_up", "_token", "_verdict")

    def __init__(self, verdict: Verdict, *, looks_up: bool = False) -> None:
        self._verdict, self._looks_up = verdict, looks_up

    def __enter__(self) -> Verdict:
        self._token = _in_force.set((self._verdict, self._looks_up))
        return self._verdict

    def __exit__(self, *_: object) -> None:
        _in_force.reset(self._token)

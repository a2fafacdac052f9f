"""The verdict: what holds for one request, from its first read to its last byte."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field, replace

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
    judgements: dict[str, Refusals] = field(default_factory=dict)
    unlisted: dict[str, frozenset[str]] = field(default_factory=dict)
    decisions: dict[tuple[object, ComponentKind], Decision] = field(init=False, default_factory=dict)

    @property
    def bounds_alone(self) -> Verdict:
        """The same bounds without anything that is preferred, and so without the caller's words."""
        return replace(self, effective=self.effective.bounds_only, preferences=NO_PREFERENCES, shapes_lists=False)

    def preferences_for(self, kind: ComponentKind) -> Preferences:
        """Return what is to be shown of a kind of component: preferences are of listed tools only."""
        return self.preferences if self.shapes_lists and kind == "tool" else NO_PREFERENCES


_verdict: ContextVar[Verdict | None] = ContextVar("agent_utilities_verdict", default=None)


def verdict_in_force() -> Verdict | None:
    """Return the verdict of the request that is being served, or None without one."""
    return _verdict.get()


class UnderVerdict:
    """A block in which a verdict is in force; a class, since every listing enters several.

    Args:
        verdict: what is in force.
    """

    __slots__ = ("_token", "_verdict")

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict

    def __enter__(self) -> Verdict:
        self._token = _verdict.set(self._verdict)
        return self._verdict

    def __exit__(self, *_: object) -> None:
        _verdict.reset(self._token)

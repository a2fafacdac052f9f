"""What a caller's selection comes to, and about how many bytes that and a decision take where they are remembered."""

from __future__ import annotations

from dataclasses import dataclass

from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import Selection
from agent_utilities.visibility.bounds import Bounds
from agent_utilities.visibility.curation import Preferences
from agent_utilities.visibility.decision import Decision
from agent_utilities.visibility.narrowing import Narrowings

SettledKey = tuple[Selection, Narrowings]
"""A caller's selection, and what features take away besides."""
DecisionKey = tuple[str, Effective, Preferences]
"""Digest of the catalog, the bounds that hold, and what is to be shown: all that `decide` reads."""


@dataclass(frozen=True, eq=False, slots=True)
class Settled:
    """What one caller's selection comes to together with the operator's.

    Args:
        effective: the settings that hold.
        bounds: the rules they come to.
        preferences: what was asked for to be shown, the query not yet resolved.
        asked: digest of what the caller alone asked for.
    """

    effective: Effective
    bounds: Bounds
    preferences: Preferences
    asked: str


def weigh_settled(key: SettledKey, settled: Settled) -> int:
    """Return about how many bytes a caller's selection takes, and all that follows from it."""
    caller, _ = key
    return 3_000 + 700 * len(settled.bounds.rules) + settled.bounds.n_copied_bytes + caller.n_bytes


def weigh_decision(key: DecisionKey, decision: Decision) -> int:
    """Return about how many bytes a decision takes: its catalog is shared, its tuples of places are not.

    The bounds in its key may outlive what they were settled from, so that they are counted here too.
    """
    n_places = len(decision.permitted)
    if decision.visible is not decision.permitted:
        n_places += len(decision.visible)
    return 3_000 + key[1].caller_bytes + key[2].n_bytes + 16 * len(decision.catalog) + 40 * n_places

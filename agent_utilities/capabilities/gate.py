"""Whether a user's words switch a capability on: what the best score must clear, and where scores lead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LEAST_CHARACTERS = 8
"""Fewer are routed to nothing, once what no user wrote is stripped."""


@dataclass(frozen=True, slots=True)
class Gate:
    """When a capability is activated unasked.

    Args:
        threshold: the least score of the best.
        margin: the least that it must be ahead of the second.
        margin_of_one: the same where one word alone says something, and over the square of how many do. `send it to
            her` fits seven capabilities alike, and one of them is ahead by chance.
    """

    threshold: float
    margin: float
    margin_of_one: float = 0.0

    def of_words(self, n_words: int) -> Gate:
        """Return the gate for what was said, of which so many different words say something by themselves."""
        return Gate(self.threshold, max(self.margin, self.margin_of_one / max(1, n_words) ** 2))


Outcome = Literal["activated", "below", "ambiguous", "unrouted"]
"""What comes of routing: one clears the gate; none is near; two are; nothing was compared."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where a user's words lead.

    Args:
        scores: name and score of every capability that was scored, best first; equal ones by name.
        activated: the best, where it clears the gate.
        gate: what had to be cleared, its margin as it was for what was said; None where nothing was scored.
        cause: why nothing is activated, as a person reads it; empty where something is.
        by_words: whether words alone were compared, for want of vectors.
    """

    scores: tuple[tuple[str, float], ...] = ()
    activated: str | None = None
    gate: Gate | None = None
    cause: str = ""
    by_words: bool = False

    @property
    def outcome(self) -> Outcome:
        """What came of it, for those who count."""
        if self.activated is not None:
            return "activated"
        if self.gate is None or not self.scores:
            return "unrouted"
        return "below" if self.scores[0][1] < self.gate.threshold else "ambiguous"


def routed(scores: tuple[tuple[str, float], ...], gate: Gate, n_words: int, *, by_words: bool = False) -> Route:
    """Return the route that scores, best first, come to under a gate; for `n_words` see `Gate.of_words`."""
    if not scores:
        return Route(gate=gate, cause="no capability has triggers", by_words=by_words)
    gate = gate.of_words(n_words)
    name, best = scores[0]
    second = scores[1][1] if len(scores) > 1 else 0.0
    cause = ""
    if best < gate.threshold:
        cause = f"{name} is nearest at {best:.3f}, under the threshold of {gate.threshold:.3f}"
    elif len(scores) > 1 and best - second < gate.margin:
        cause = f"{name} is ahead of {scores[1][0]} by {best - second:.3f}, under the margin of {gate.margin:.3f}"
    return Route(scores, None if cause else name, gate, cause, by_words)

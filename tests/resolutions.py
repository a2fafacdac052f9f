"""Answers as tests expect them."""

from __future__ import annotations

from collections.abc import Iterable

from agent_utilities.selection.model import RankedTool, Resolution, Status


def answer_of(status: Status, names: Iterable[str], cause: str = "") -> Resolution:
    """Return an answer of which nothing but the names is known, best first."""
    return Resolution(status, tuple(map(RankedTool, names)), cause)

"""What each part of what usage teaches is worth: figures with it alone, and with all others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agent_utilities.cli.evaluation.parts import PARTS, Part

Figures = dict[str, float]
"""Shares from 0 to 1, by the name of what they measure."""


@dataclass(frozen=True, slots=True)
class Row:
    """What a choice of parts comes to.

    Args:
        name: for people, which parts.
        figures: with these parts.
    """

    name: str
    figures: Figures


def ablation(parts: Iterable[Part], figures_with: Callable[[frozenset[Part]], Figures]) -> list[Row]:
    """Return the figures by words alone, with each part alone, with all, and with all but each.

    Args:
        parts: those of which anything was learned, and that are not left out.
        figures_with: returns the figures that some parts come to.
    """
    whole = frozenset(parts)
    ordered = [part for part in PARTS if part in whole]
    wanted = [("words alone", frozenset[Part]())]
    if len(ordered) > 1:
        wanted += [(f"words and {part}", frozenset((part,))) for part in ordered]
    wanted += [("words and all parts" if len(ordered) > 1 else f"words and {''.join(ordered)}", whole)] * bool(whole)
    if len(ordered) > 2:
        wanted += [(f"all without {part}", whole - {part}) for part in ordered]
    return [Row(name, figures_with(chosen)) for name, chosen in wanted]


def as_json(rows: Iterable[Row]) -> dict[str, Figures]:
    """Return the rows by name."""
    return {row.name: row.figures for row in rows}

"""Where a tool stands in the answer to a query: its rank, its score, and the words it was found by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_utilities.selection.resolution import Resolution


def reasons_by_name(resolution: Resolution) -> dict[str, dict[str, Any]]:
    """Return for each tool that answers its `rank`, and where a ranker was asked its `score` and `words`."""
    if not resolution.answered:
        return {}
    found: dict[str, dict[str, Any]] = {}
    for place, name in enumerate(resolution.names):
        ranked = {"score": resolution.scores[place], "words": resolution.words[place]} if resolution.scores else {}
        found.setdefault(name, {"rank": place + 1, **ranked})
    return found


def reason_text(found: Mapping[str, Any]) -> str:
    """Return a standing as a reason for people; empty where there is none."""
    if "rank" not in found:
        return ""
    score, words = found.get("score"), found.get("words")
    scored = f", score {score:.2f}" if score is not None else ""
    return f"rank {found['rank']}{scored}" + (f", for {', '.join(words)}" if words else "")


def answered(status: str, cause: str, n_left_out: int) -> str:
    """Return how a query was answered, and what of that fell short, for people."""
    left_out = f"{n_left_out} more answer it, beyond top_k" if n_left_out else ""
    return ", ".join(note for note in (status, cause, left_out) if note)

"""Why tools are shown or not, as text for callers and operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_utilities.policy.decision import Decision
from agent_utilities.selection.model import Resolution


def reasons_by_name(resolution: Resolution) -> dict[str, dict[str, Any]]:
    """Return each answering tool's `rank`, a ranker's `score` and `words`, and `by_usage` where past calls rank it."""
    if not resolution.answered:
        return {}
    was_ranked = any(tool.score is not None for tool in resolution.tools)
    reasons: dict[str, dict[str, Any]] = {}
    for place, tool in enumerate(resolution.tools, 1):
        ranked = {"score": tool.score, "words": tool.words} if was_ranked else {}
        used = {"by_usage": True} if tool.by_usage else {}
        reasons.setdefault(tool.name, {"rank": place, **ranked, **used})
    return reasons


def reason_text(reason: Mapping[str, Any]) -> str:
    """Return a reason as text; empty where there is none."""
    if "rank" not in reason:
        return ""
    score, words = reason.get("score"), reason.get("words")
    scored = f", score {score:.2f}" if score is not None else ""
    why = f", for {', '.join(words)}" if words else ", by usage" if reason.get("by_usage") else ""
    return f"rank {reason['rank']}{scored}{why}"


def reasons_of(decision: Decision) -> list[tuple[str, str]]:
    """Return for each entry of a decision's catalog `visible`, `deferred` or `denied`, and why, for operators."""
    visible, ranks = frozenset(decision.visible), reasons_by_name(decision.preferences.resolution)
    return [
        ("denied", rule.text)
        if (rule := decision.refusals[i]) is not None
        else ("visible", reason_text(ranks.get(entry.name, {})))
        if i in visible
        else ("deferred", "permitted, and not among the shown")
        for i, entry in enumerate(decision.catalog.entries)
    ]


def status_text(status: str, cause: str, n_left_out: int) -> str:
    """Return how a query was answered, and what is missing from the answer, as text."""
    left_out = f"{n_left_out} more answer it, beyond top_k" if n_left_out else ""
    return ", ".join(note for note in (status, cause, left_out) if note)

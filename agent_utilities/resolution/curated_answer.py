"""The answer to one caller: what everybody would be answered, moved by what was called before, cut to its limit."""

from __future__ import annotations

from dataclasses import replace

from agent_utilities.resolution.prior import Prior, with_prior
from agent_utilities.resolution.scope import CallerScope
from agent_utilities.selection.resolution import RankedTool, Resolution

_MARGIN = 10
"""How many more tools are asked for than are named: usage may bring one of them forward."""


def wide_limit(limit: int | None, prior: Prior | None) -> int | None:
    """Return how many tools to ask for, where usage may change their order."""
    return limit if limit is None or prior is None else limit + _MARGIN


def curated(answer: Resolution, prior: Prior | None, scope: CallerScope, limit: int | None) -> Resolution:
    """Return an answer moved by usage, of at most `limit` tools; where nothing was learned, the answer itself.

    The tool that the ranker found best stays in it, however many others bear the query as it stands.

    Args:
        answer: what the words find in scope, of as many tools as `wide_limit` says.
        prior: how much tools were used; None where nothing was learned.
        scope: the tools that the caller may use.
        limit: the most to name; None for all.
    """
    if prior is None or not answer.answered:
        return answer
    moved = with_prior(answer, prior, scope.names(), limit)
    n_found = len(answer.tools) + answer.n_left_out
    n_named = sum(not tool.by_usage for tool in moved.tools)
    tools = moved.tools
    if (best := _best(answer)) is not None and best not in tools and tools:
        tools = (*tools[:-1], best)
    return replace(moved, tools=tools, n_left_out=max(0, n_found - n_named))


def _best(answer: Resolution) -> RankedTool | None:
    scored = [tool for tool in answer.tools if tool.score is not None]
    return max(scored, key=lambda tool: tool.score or 0.0) if scored else None

"""An evaluation's measures, such as recall, claims, rejections and tokens saved; print and write them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median, quantiles

from rich.console import Console
from rich.markup import escape

from agent_utilities.cli.evaluation.data import Request, Tool, write_rows
from agent_utilities.server.command_line.terminal import NamesTable

_COUNTS = ("queries", "negatives", "tools", "sessions", "next tools")
_FRACTIONS = ("mrr@10", "abstention auroc")
Figures = dict[str, float]
"""Shares from 0 to 1, by the name of what they measure."""


@dataclass(frozen=True, slots=True)
class RankedRequest:
    """A request with the ranking of tools for it.

    Args:
        ranked: tool ids, best first.
        scores: aligned with `ranked`, as words gave them.
        abstained: whether the ranker said that nothing fits.
        n_claimed: how many of `ranked` the ranker claims to fit, from the first.
    """

    request: Request
    ranked: tuple[str, ...]
    scores: tuple[float, ...]
    abstained: bool
    ms: float
    n_claimed: int

    def n_shown(self, top_k: int) -> int:
        """Return how many tools an agent sees that is shown at most k."""
        return min(top_k, len(self.ranked), self.n_claimed)

    @property
    def confidence(self) -> float:
        """The best score; below every other where there is none."""
        return max(self.scores, default=float("-inf"))

    def recall(self, k: int) -> float:
        """Return the share of the tools needed that are among the first k."""
        first = set(self.ranked[:k])
        return fmean(bool(group & first) for group in self.request.groups)

    def reciprocal_rank(self, k: int) -> float:
        """Return one over the place of the first tool needed, 0 where none is among the first k."""
        needed = frozenset().union(*self.request.groups)
        return next((1 / place for place, tool_id in enumerate(self.ranked[:k], 1) if tool_id in needed), 0.0)


def measure(
    answerable: Sequence[RankedRequest], unanswerable: Sequence[RankedRequest], tools: Sequence[Tool], top_k: int
) -> Figures:
    """Return the measures by name, shares from 0 to 1.

    Args:
        top_k: how many tools an agent is shown at most: `recall@top_k` is of the first k, `recall claimed` of those
            among them that are claimed; `claimed` is how many those are. All three are of requests not abstained from.
    """
    measures = {"queries": float(len(answerable)), "tools": float(len(tools))}
    if answerable:
        measures |= _measure_ranks(answerable, top_k)
    if unanswerable:
        measures["negatives"] = float(len(unanswerable))
        measures["rejected"] = fmean(request.abstained for request in unanswerable)
        if answerable:
            measures["rejected at 95 % kept"] = rejected_at(answerable, unanswerable)
            measures["abstention auroc"] = auroc(answerable, unanswerable)
    times_ms = [request.ms for request in (*answerable, *unanswerable)]
    if times_ms:
        measures["tokens saved"] = tokens_saved(answerable or unanswerable, tools, top_k)
        measures["ms p50"] = median(times_ms)
        measures["ms p95"] = quantiles(times_ms * 2, n=20)[-1]
    return measures


def _measure_ranks(requests: Sequence[RankedRequest], top_k: int) -> Figures:
    measures = {"hit@1": fmean(request.reciprocal_rank(1) for request in requests)}
    measures |= {f"recall@{k}": fmean(request.recall(k) for request in requests) for k in (1, 3, 5, 10)}
    measures["mrr@10"] = fmean(request.reciprocal_rank(10) for request in requests)
    measures["all@10"] = fmean(request.recall(10) == 1 for request in requests)
    measures["kept"] = fmean(not request.abstained for request in requests)
    if claiming := [request for request in requests if not request.abstained]:
        measures["recall@top_k"] = fmean(request.recall(top_k) for request in claiming)
        measures["recall claimed"] = fmean(request.recall(request.n_shown(top_k)) for request in claiming)
        measures["claimed"] = fmean(request.n_shown(top_k) for request in claiming)
    return measures


def rejected_at(answerable: Sequence[RankedRequest], unanswerable: Sequence[RankedRequest]) -> float:
    """Return the share of unanswerable requests under the highest cut that keeps 95 % of the answerable ones."""
    ordered = sorted(request.confidence for request in answerable)
    cut = ordered[int(0.05 * len(ordered) + 1e-9)]
    return fmean(request.confidence < cut for request in unanswerable)


def auroc(answerable: Sequence[RankedRequest], unanswerable: Sequence[RankedRequest]) -> float:
    """Return how often an answerable request has a better best score than an unanswerable one; ties count half.

    Source: Mann & Whitney 1947.
    """
    below = sum(
        (negative.confidence < positive.confidence) + 0.5 * (negative.confidence == positive.confidence)
        for positive in answerable
        for negative in unanswerable
    )
    return below / (len(answerable) * len(unanswerable))


def tokens_saved(requests: Sequence[RankedRequest], tools: Sequence[Tool], top_k: int) -> float:
    """Return the share of the catalog's tokens that an agent saves; none where the ranker abstained.

    The agent is shown the claimed tools, at most k.
    """
    cost = {tool.id: tool.n_tokens for tool in tools}
    total = max(1, sum(cost.values()))
    shown = [
        total if request.abstained else sum(cost[tool_id] for tool_id in request.ranked[: request.n_shown(top_k)])
        for request in requests
    ]
    return 1 - fmean(shown) / total


def print_report(
    title: str, ranker: str, cause: str, measures: Figures, ablation: Mapping[str, Figures], *, as_json: bool
) -> None:
    """Print the measures and the ablation, as tables or in JSON.

    Tables have shares in percent; the ablation also has the gain in points over words alone, its first row.
    """
    if as_json:
        print(
            json.dumps({"ranker": ranker, "cause": cause, **measures, **({"ablation": ablation} if ablation else {})})
        )
        return
    table = NamesTable(escape(title), "measure", "value")
    for name, value in measures.items():
        table.add_row(name, _format(name, value))
    Console().print(table)
    if ablation:
        words_alone = next(iter(ablation.values()))
        table = NamesTable("what usage adds: percent, and points more", "with", *words_alone)
        for parts, figures in ablation.items():
            gains = {name: 100 * (value - words_alone[name]) for name, value in figures.items()}
            table.add_row(parts, *(f"{100 * figures[name]:.1f} {gain:+5.1f}" for name, gain in gains.items()))
        Console().print(table)


def _format(name: str, value: float) -> str:
    if name in _COUNTS:
        return f"{value:.0f}"
    if name in _FRACTIONS:
        return f"{value:.3f}"
    return f"{value:.2f}" if name.startswith("ms ") or name == "claimed" else f"{100 * value:.1f} %"


def write_ranks(path: Path, requests: Sequence[RankedRequest]) -> None:
    """Write a JSON line for each request."""
    ranks = [{"id": each.request.id, **asdict(each), "ms": round(each.ms, 4)} for each in requests]
    left_out = ("request", "n_claimed")
    write_rows(path, [{key: row[key] for key in row if key not in left_out} for row in ranks], "--ranks-out")

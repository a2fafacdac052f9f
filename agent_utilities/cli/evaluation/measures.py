"""How well rankings answer requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, quantiles

from agent_utilities.cli.evaluation.data import Request, Tool

KEPT_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class Answer:
    """What a ranker answered to one request.

    Args:
        request: what was asked.
        ranked: tool ids, best first.
        scores: aligned with `ranked`.
        abstained: whether the ranker said that nothing fits.
        ms: milliseconds that ranking took.
        n_claimed: how many of `ranked` the ranker claims to fit, from the first; None for all.
    """

    request: Request
    ranked: tuple[str, ...]
    scores: tuple[float, ...]
    abstained: bool
    ms: float
    n_claimed: int | None = None

    def n_shown(self, top_k: int) -> int:
        """Return how many tools an agent is shown that is shown no more than k."""
        n_ranked = len(self.ranked)
        return min(top_k, n_ranked, n_ranked if self.n_claimed is None else self.n_claimed)

    @property
    def confidence(self) -> float:
        """The best score; below every other where there is none."""
        return self.scores[0] if self.scores else float("-inf")

    def share_found(self, k: int) -> float:
        """Return the share of the tools needed that are among the first k."""
        first = set(self.ranked[:k])
        return fmean(bool(group & first) for group in self.request.groups)

    def reciprocal_rank(self, k: int) -> float:
        """Return one over the place of the first tool needed, 0 where none is among the first k."""
        wanted = frozenset().union(*self.request.groups)
        return next((1 / place for place, name in enumerate(self.ranked[:k], 1) if name in wanted), 0.0)


def measure(
    answers: Sequence[Answer], negatives: Sequence[Answer], tools: Sequence[Tool], top_k: int
) -> dict[str, float]:
    """Return the measures by name, shares from 0 to 1.

    Args:
        answers: to requests that tools answer.
        negatives: to requests that no tool need answer.
        tools: the catalog.
        top_k: how many tools an agent is shown at most: `recall@top_k` is of the first k, `recall claimed` of those
            among them that are claimed; `claimed` is how many those are. All three are of requests not abstained from.
    """
    found = {"queries": float(len(answers)), "tools": float(len(tools))}
    if answers:
        found["hit@1"] = fmean(answer.reciprocal_rank(1) for answer in answers)
        found |= {f"recall@{k}": fmean(answer.share_found(k) for answer in answers) for k in (1, 3, 5, 10)}
        found["mrr@10"] = fmean(answer.reciprocal_rank(10) for answer in answers)
        found["all@10"] = fmean(answer.share_found(10) == 1 for answer in answers)
        found["kept"] = fmean(not answer.abstained for answer in answers)
        if kept := [answer for answer in answers if not answer.abstained]:
            found["recall@top_k"] = fmean(answer.share_found(top_k) for answer in kept)
            found["recall claimed"] = fmean(answer.share_found(answer.n_shown(top_k)) for answer in kept)
            found["claimed"] = fmean(answer.n_shown(top_k) for answer in kept)
    if negatives:
        found["negatives"] = float(len(negatives))
        found["rejected"] = fmean(answer.abstained for answer in negatives)
        if answers:
            found["rejected at 95 % kept"] = rejected_at(answers, negatives)
            found["abstention auroc"] = auroc(answers, negatives)
    everything = [*answers, *negatives]
    if everything:
        found["tokens saved"] = tokens_saved(answers or negatives, tools, top_k)
        found["ms p50"] = median(answer.ms for answer in everything)
        found["ms p95"] = quantiles([answer.ms for answer in everything] * 2, n=20)[-1]
    return found


def rejected_at(answers: Sequence[Answer], negatives: Sequence[Answer], kept: float = KEPT_SHARE) -> float:
    """Return the share of negatives under the highest cut that keeps a share of the requests."""
    ordered = sorted(answer.confidence for answer in answers)
    cut = ordered[int((1 - kept) * len(ordered) + 1e-9)]
    return fmean(answer.confidence < cut for answer in negatives)


def auroc(answers: Sequence[Answer], negatives: Sequence[Answer]) -> float:
    """Return how often a request has a better best score than a negative; ties count half.

    Source: Mann & Whitney 1947.
    """
    below = sum(
        (negative.confidence < answer.confidence) + 0.5 * (negative.confidence == answer.confidence)
        for answer in answers
        for negative in negatives
    )
    return below / (len(answers) * len(negatives))


def tokens_saved(answers: Sequence[Answer], tools: Sequence[Tool], top_k: int) -> float:
    """Return the share of the catalog's tokens that an agent is spared; nothing where the ranker abstained.

    It is shown what is claimed, and no more than k of it.
    """
    cost = {tool.id: tool.n_tokens for tool in tools}
    total = max(1, sum(cost.values()))
    shown = [
        total if answer.abstained else sum(cost[name] for name in answer.ranked[: answer.n_shown(top_k)])
        for answer in answers
    ]
    return 1 - fmean(shown) / total

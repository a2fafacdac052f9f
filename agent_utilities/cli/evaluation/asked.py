"""All that one evaluation asks of a catalog, and the figures that it comes to with some parts of what usage teaches."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from agent_utilities.cli.evaluation.ablation import Figures, Row, ablation
from agent_utilities.cli.evaluation.data import Request
from agent_utilities.cli.evaluation.next_tool import N_NEXT, NextTool
from agent_utilities.cli.evaluation.parts import Part, parts_of
from agent_utilities.cli.evaluation.ranking import EvaluatedCatalog
from agent_utilities.cli.evaluation.sessions import Session

NEXT_TOOL = f"next tool hit@{N_NEXT}"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a catalog.

    Args:
        requests: those that tools answer.
        negatives: those that no tool need answer.
        sessions: each is asked for its next tools, taught by all others.
    """

    requests: tuple[Request, ...] = ()
    negatives: tuple[Request, ...] = ()
    sessions: tuple[Session, ...] = ()


def measure_sessions(catalog: EvaluatedCatalog, asked: Asked, parts: frozenset[Part]) -> Figures:
    """Return how often the next tool of a session is found; nothing where there is none."""
    if not asked.sessions:
        return {}
    next_tools = _next_tool(catalog, asked, parts).measure(parts)
    return {
        "sessions": float(next_tools.n_sessions),
        "next tools": float(next_tools.n_steps),
        "of them linked": next_tools.n_linked / max(1, next_tools.n_steps),
        NEXT_TOOL: next_tools.hit_rate,
    }


def ablate(catalog: EvaluatedCatalog, asked: Asked, parts: frozenset[Part]) -> list[Row]:
    """Return what each part of what was learned adds; nothing where nothing was learned.

    Args:
        catalog: with what a usage log teaches.
        asked: the requests and sessions.
        parts: those that are not left out.
    """
    taught = parts_of(catalog.learned)
    if asked.sessions:
        taught |= {"recency", "used_with", "followed_by"}
    if not asked.sessions:
        taught -= {"used_with", "followed_by"}  # of which requests that stand alone learn nothing
    if not taught & parts or not (asked.requests or asked.sessions):
        return []
    return ablation(taught & parts, lambda chosen: _figures(catalog, asked, chosen))


def _figures(catalog: EvaluatedCatalog, asked: Asked, parts: frozenset[Part]) -> Figures:
    figures: Figures = {}
    if asked.requests:
        ranked = catalog.rank(asked.requests, parts)
        figures["hit@1"] = fmean(request.reciprocal_rank(1) for request in ranked)
        figures["recall@5"] = fmean(request.recall(5) for request in ranked)
    if asked.sessions:
        figures[NEXT_TOOL] = _next_tool(catalog, asked, parts).measure(parts).hit_rate
    return figures


def _next_tool(catalog: EvaluatedCatalog, asked: Asked, parts: frozenset[Part]) -> NextTool:
    return NextTool(asked.sessions, catalog.search(parts), catalog.ids, catalog.learned)

"""What an evaluation prints, writes and plots."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from agent_utilities.cli.evaluation.data import write_rows
from agent_utilities.cli.evaluation.measures import RankedRequest
from agent_utilities.errors import AgentUtilitiesError, InputError
from agent_utilities.mcp.command_line.tables import NamesTable

_COUNTS = ("queries", "negatives", "tools", "sessions", "next tools")
_FRACTIONS = ("mrr@10", "abstention auroc")


Figures = dict[str, float]
"""Shares from 0 to 1, by the name of what they measure."""


class PlotError(AgentUtilitiesError, RuntimeError):
    """A plot can't be made."""


def print_report(
    title: str, ranker: str, cause: str, measures: Figures, ablation: Mapping[str, Figures], *, as_json: bool
) -> None:
    """Print measures, and what each part of what was learned is worth, as tables or in JSON.

    Tables have shares in percent, and worth in points more than by words alone, which come first.
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


def plot_ranks(
    path: Path, title: str, answerable: Sequence[RankedRequest], unanswerable: Sequence[RankedRequest], n_ranked: int
) -> None:
    """Draw recall by how many tools are shown, and what each cut keeps and rejects; the suffix decides the format."""
    if not answerable:
        raise InputError("no requests to plot", str(path), "--plot", "give --queries")
    try:
        figure = import_module("matplotlib.figure").Figure(figsize=(11, 4.5), layout="constrained")
    except ImportError:
        raise PlotError("--plot needs matplotlib; install agent-utilities[plot]") from None
    recall_axes, cut_axes = figure.subplots(1, 2)
    _plot_recall(recall_axes, title, answerable, n_ranked)
    _plot_cuts(cut_axes, answerable, unanswerable)
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise PlotError(f"the plot can't be written to {str(path)!r}: {error}") from None


def _plot_recall(axes: Any, title: str, requests: Sequence[RankedRequest], n_ranked: int) -> None:
    n_shown = range(1, n_ranked + 1)
    recalls = [[request.recall(k) for request in requests] for k in n_shown]
    needed = [100 * sum(shares) / len(shares) for shares in recalls]
    complete = [100 * sum(share == 1 for share in shares) / len(shares) for shares in recalls]
    axes.plot(n_shown, needed, marker=".", label="tools needed that are shown")
    axes.plot(n_shown, complete, marker=".", label="requests wholly answered")
    axes.set(xlabel="tools shown", ylabel="%", ylim=(0, 101), title=title)
    axes.legend(loc="lower right")


def _plot_cuts(axes: Any, answerable: Sequence[RankedRequest], unanswerable: Sequence[RankedRequest]) -> None:
    cuts = sorted({request.confidence for request in (*answerable, *unanswerable) if request.scores})
    for label, requests in (("requests kept", answerable), ("negatives kept", unanswerable)):
        if requests:
            shares = [100 * sum(request.confidence >= cut for request in requests) / len(requests) for cut in cuts]
            axes.plot(cuts, shares, label=label)
    axes.set(xlabel="cut on the best score", ylabel="%", ylim=(0, 101), title="abstention")
    axes.legend()

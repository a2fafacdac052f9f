"""What an evaluation prints, writes and plots."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

from agent_utilities.cli.evaluation.measures import Answer
from agent_utilities.errors import AgentUtilitiesError, InputError

_PLAIN = ("queries", "negatives", "tools")
_FIGURES = ("mrr@10", "abstention auroc")


class PlotError(AgentUtilitiesError, RuntimeError):
    """A plot can't be made."""


def print_table(title: str, measures: Mapping[str, float]) -> None:
    """Print measures as a table, shares in percent."""
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column("measure")
    table.add_column("value", justify="right")
    for name, value in measures.items():
        table.add_row(name, _shown(name, value))
    Console().print(table)


def _shown(name: str, value: float) -> str:
    if name in _PLAIN:
        return f"{value:.0f}"
    if name in _FIGURES:
        return f"{value:.3f}"
    return f"{value:.2f}" if name.startswith("ms ") or name == "claimed" else f"{100 * value:.1f} %"


def write_ranks(path: Path, answers: Sequence[Answer]) -> None:
    """Write a JSON line for each request.

    Raises:
        InputError: the file can't be written.
    """
    lines = [
        json.dumps(
            {
                "id": answer.request.id,
                "ranked": answer.ranked,
                "scores": answer.scores,
                "abstained": answer.abstained,
                "ms": round(answer.ms, 4),
            },
            ensure_ascii=False,
        )
        for answer in answers
    ]
    try:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise InputError("the file can't be written", str(path), "option --ranks-out", str(error)) from None


def plot(path: Path, title: str, answers: Sequence[Answer], negatives: Sequence[Answer], n_ranked: int) -> None:
    """Draw recall by how many tools are shown, and what each cut keeps and rejects; the suffix decides the format.

    Raises:
        PlotError: matplotlib is absent, or the file can't be written.
    """
    try:
        figure = import_module("matplotlib.figure").Figure(figsize=(11, 4.5), layout="constrained")
    except ImportError:
        raise PlotError("--plot needs matplotlib; install agent-utilities[plot]") from None
    found, cuts = figure.subplots(1, 2)
    places = range(1, n_ranked + 1)
    for label, curve in (
        ("tools needed that are shown", [sum(a.share_found(k) for a in answers) / len(answers) for k in places]),
        ("requests wholly answered", [sum(a.share_found(k) == 1 for a in answers) / len(answers) for k in places]),
    ):
        found.plot(places, [100 * value for value in curve], marker=".", label=label)
    found.set(xlabel="tools shown", ylabel="%", ylim=(0, 101), title=title)
    found.legend(loc="lower right")
    bounds = sorted({answer.confidence for answer in (*answers, *negatives) if answer.scores})
    for label, group in (("requests kept", answers), ("negatives kept", negatives)):
        if group:
            kept = [100 * sum(answer.confidence >= bound for answer in group) / len(group) for bound in bounds]
            cuts.plot(bounds, kept, label=label)
    cuts.set(xlabel="cut on the best score", ylabel="%", ylim=(0, 101), title="abstention")
    cuts.legend()
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise PlotError(f"the plot can't be written to {str(path)!r}: {error}") from None

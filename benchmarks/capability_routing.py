"""Which of 58 capabilities messages call for: top-1, and what the gate hits and abstains from, beside the plain mean.

The gate is chosen five times on four fifths of the rows and measured on the fifth; a capability's rows stay together.
Of pastes and of short requests that fit several alike, the rules were made with one half seen; the other is held back.
Below the table: what is refused of messages that call for a capability which their user doesn't have.
It reads `../shared/data/capability-routing/catalog.json` (`--data FILE`) and says where that is absent.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from agent_utilities.errors import RankerError
from agent_utilities.gateway.capabilities.model import LEAST_CHARACTERS, Gate
from agent_utilities.gateway.capabilities.router import BY_MODEL, BY_WORDS, intent_text, n_said
from agent_utilities.query.ranking.embedding import Embedder, read_request
from agent_utilities.query.ranking.open import open_provider
from agent_utilities.query.ranking.triggers import Scored, TriggerIndex, TriggerView

HERE = Path(__file__).parent
DATA = HERE.parent.parent / "shared/data/capability-routing/catalog.json"
ROWS = HERE / "capability_rows.jsonl"
PLAIN = Gate(0.55, 0.08)
N_FOLDS = 5
THRESHOLDS, MARGINS_OF_ONE = np.arange(-0.3, 2.0, 0.01), (0.0, 0.5, 1.0, 1.15, 1.3)
HANDS = ("first", "second", "third", "fourth hand")
HARD = ("pastes", "pastes held", "short", "short held")
SETS: dict[str, Sequence[str]] = {
    **{name: (name,) for name in (*HANDS, *HARD)},
    "first three": HANDS[:3],
    "four hands": HANDS,
    "all": (*HANDS, *HARD),
}


class Row(NamedTuple):
    """A message as it was scored."""

    origin: str
    label: str | None
    scores: Scored
    n_words: int

    def clears(self, gate: Gate) -> bool:
        """Return whether the best is activated; nothing is where all was pasted or next to nothing said."""
        if not self.scores:
            return False
        (_, best), (_, second) = self.scores[:2]
        own = gate.for_best(best, self.n_words)
        return best >= own.threshold and best - second >= own.margin

    @property
    def is_best(self) -> bool:
        """Whether the best is what was called for."""
        return bool(self.scores) and self.scores[0][0] == self.label


def under(gate: Gate) -> Callable[[Row], bool]:
    """Return whether a gate is cleared."""
    return lambda row: row.clears(gate)


def rates(rows: Sequence[Row], clears: Callable[[Row], bool]) -> tuple[float, float, float]:
    """Return the shares of top-1, of hits and of abstentions."""
    calls, others = [row for row in rows if row.label], [row for row in rows if not row.label]
    return (
        sum(row.is_best for row in calls) / max(1, len(calls)),
        sum(row.is_best and clears(row) for row in calls) / max(1, len(calls)),
        sum(not clears(row) for row in others) / max(1, len(others)),
    )


def cross_validated(rows: Sequence[Row], margin: float, least_abstained: float) -> tuple[float, float, float]:
    """Return the shares under gates that are each chosen on the other folds: of those that abstain enough, the best."""
    labels = sorted({row.label for row in rows if row.label})
    fold_of = {label: place % N_FOLDS for place, label in enumerate(labels)}
    n_others, cleared = 0, set[int]()
    folds = []
    for row in rows:
        folds.append(fold_of[row.label] if row.label else n_others % N_FOLDS)
        n_others += not row.label
    for fold in range(N_FOLDS):
        known = [row for row, own in zip(rows, folds, strict=True) if own != fold]
        chosen = best_gate(known, margin, least_abstained)
        own = [row for row, place in zip(rows, folds, strict=True) if place == fold]
        cleared |= {id(row) for row in own if under(chosen)(row)}
    return rates(rows, lambda row: id(row) in cleared)


def best_gate(rows: Sequence[Row], margin: float, least_abstained: float) -> Gate:
    """Return the gate that hits most of those that abstain enough; of equals the one of the least threshold."""
    chosen, most = Gate(1.0, margin), -1.0
    for margin_of_one in MARGINS_OF_ONE:
        gates = [Gate(float(threshold), margin, margin_of_one) for threshold in THRESHOLDS]
        # The first that abstains enough hits most: those after it abstain more.
        gate = next(gate for gate in gates if rates(rows, under(gate))[2] >= least_abstained)
        if (hit := rates(rows, under(gate))[1]) > most:
            chosen, most = gate, hit
    return chosen


def by_meaning(view: TriggerView, embedder: Embedder, said: str) -> Scored:
    """Return the scores as the router has them."""
    texts = read_request(said, view.evidence)
    return view.by_meaning(texts.whole, texts.vectors(embedder.embed_request(texts.to_embed)))


def foreign_refused(index: TriggerIndex, embedder: Embedder, messages: Sequence[dict[str, Any]], gate: Gate) -> float:
    """Return the share that is refused of messages whose capability is left out with 27 others, ten times by seed."""
    refused = []
    for seed in range(10):
        view = index.view(frozenset(Random(seed).sample(sorted(index.triggers), 30)))
        for message in messages:
            said = intent_text(message["intent"])
            if message["label"] and message["label"] not in view.names and len(said.strip()) >= LEAST_CHARACTERS:
                refused.append(not Row("", None, by_meaning(view, embedder, said), n_said(said)).clears(gate))
    return statistics.fmean(refused)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--quick", action="store_true", help="every fourth row alone")
    options = parser.parse_args()
    if not options.data.is_file():
        sys.exit(f"no catalog of capabilities at {options.data}; name one with --data")
    catalog = json.loads(options.data.read_text())["capabilities"]
    triggers = {name: tuple(each["triggers"]) for name, each in catalog.items() if each["triggers"]}
    try:
        embedder = Embedder(lambda: open_provider("minilm"))
    except RankerError as error:
        sys.exit(f"no model: {error}")
    embed = partial(embedder.embed, role="query")
    index = TriggerIndex(triggers, embed)
    view, gate = index.view(frozenset(triggers)), BY_MODEL[embedder.provider.name]
    vectors = {name: embed(owned) for name, owned in triggers.items()}
    messages = [json.loads(line) for line in ROWS.read_text().splitlines()][:: 4 if options.quick else 1]

    def plain(said: str) -> Scored:
        vector = embedder.embed_request((said,))[0]
        means = {name: float(np.sort(own @ vector)[-3:].mean()) for name, own in vectors.items()}
        return tuple(sorted(means.items(), key=lambda item: -item[1]))

    ways: list[tuple[str, Callable[[str], Scored], Gate, float]] = [
        ("mean of three cosines", plain, PLAIN, 0.95),
        ("vectors and words", lambda said: by_meaning(view, embedder, said), gate, 0.95),
        ("words alone", view.by_words, BY_WORDS, 0.90),
    ]
    print(f"{'way':24}{'rows':12}{'n':>5}{'top-1':>8}{'hit':>8}{'abstain':>9}{'cv hit':>9}{'cv abstain':>12}{'ms':>8}")
    for name, score, own_gate, least in ways:
        rows, took_s = [], []
        for message in messages:
            started = time.perf_counter()
            said = intent_text(message["intent"])
            scores = () if len(said.strip()) < LEAST_CHARACTERS else score(said)
            took_s.append(time.perf_counter() - started)
            rows.append(Row(message["set"], message["label"], scores, n_said(said)))
        for origin, sets in SETS.items():
            some = [row for row in rows if row.origin in sets]
            top, hit, abstained = rates(some, under(own_gate))
            _, cv_hit, cv_abstained = cross_validated(some, own_gate.margin, least)
            ms = 1000 * statistics.median(took_s)
            print(
                f"{name:24}{origin:12}{len(some):5}{top:8.3f}{hit:8.3f}{abstained:9.3f}{cv_hit:9.3f}{cv_abstained:12.3f}"
                f"{ms:8.2f}"
            )
    print(f"refused of a capability that is not there: {foreign_refused(index, embedder, messages, gate):.3f}")


if __name__ == "__main__":
    main()

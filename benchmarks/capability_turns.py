"""Print nine turns over six capabilities: what each activates and evicts, and what is on, listed and running after it.

python benchmarks/capability_turns.py [--era session|stateless]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table

from tests.gateway.capabilities.turns import ERAS, TURNS, After, Turn, conversation

_WIDTH = 160
_COLUMNS = ("turn", "words", "call", "activated", "evicted", "active, least recent first", "listed", "running")


async def taken(era: str) -> list[tuple[Turn, After]]:
    """Return each turn with what there is after it.

    Args:
        era: `session`, or `stateless` where each request brings what the one before was told.
    """
    with tempfile.TemporaryDirectory(prefix="capability-turns-") as folder:
        async with conversation(Path(folder), era) as talk:
            return [(turn, await talk.turn(turn)) for turn in TURNS]


def table_of(era: str, turns: Sequence[tuple[Turn, After]]) -> Table:
    """Return turns as a table: what runs is what the operating system counts."""
    table = Table(title=f"{era}: nine turns over six capabilities, of which four may be on")
    for column in _COLUMNS:
        table.add_column(column)
    for i, (turn, after) in enumerate(turns, 1):
        table.add_row(
            str(i),
            turn.words,
            _call(turn),
            *(", ".join(names) or "-" for names in (after.activated, after.evicted, after.active)),
            *(_counted(names) for names in (after.listed, after.running)),
        )
    return table


def _call(turn: Turn) -> str:
    if turn.call is None:
        return "-"
    return f"{turn.call.tool}{' (fails)' if turn.call.fails else ''}"


def _counted(names: Collection[str]) -> str:
    return f"{len(names)}: {', '.join(sorted(name.removesuffix('-server') for name in names)) or '-'}"


def main() -> None:
    """Print a table for each era."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--era", choices=list(ERAS), help="one of them; both by default")
    era = parser.parse_args().era
    console = Console(width=_WIDTH)
    for each in [era] if era else ERAS:
        console.print(table_of(each, asyncio.run(taken(each))))


if __name__ == "__main__":
    main()

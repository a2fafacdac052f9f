"""What requests of any length and kind cost: processor time of the thread that ranks, on 1,181 tools.

Part of `benchmarks/ranking.py`. Every request is asked once, as a caller would: what is asked again costs next
to nothing, since its vectors are remembered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from statistics import median

from rich.console import Console
from rich.table import Table

from agent_utilities.query.ranking.base import Index

N_TOOLS = 1_181
WORD_COUNTS = (10, 20, 50, 100, 200, 400)
N_ROUNDS = 12
N_CHARACTERS = 8_000
ASKED = (
    "list the open invoices of a customer",
    "restart the failed deployment and tell the team",
    "delete old backups from the bucket",
    "send the report about last week to everyone",
)
TOLD = (
    "I joined the platform team in March and I am still learning how things are set up here.",
    "Yesterday we had a long meeting with the people from the other office about the next quarter.",
    "There was a lot of discussion about who should own this, and in the end nobody was sure.",
    "I have already looked at the documentation and asked two colleagues, but none of them knew.",
    "If something is unclear, make a reasonable assumption and go on without asking me.",
    "The customer has been waiting since Monday and is getting impatient.",
    "For context, the project has three repositories, about twelve services and one shared account.",
    "Be polite and professional, and don't mention the incident from last year.",
)
HOSTILE: dict[str, Callable[[int], str]] = {
    "one word": lambda n: f"{n}" + "x" * N_CHARACTERS,
    "Chinese": lambda n: f"{n}" + "查看日志" * (N_CHARACTERS // 4),
    "emoji": lambda n: f"{n}" + "\U0001f600" * N_CHARACTERS,
    "one-letter words": lambda n: f"{n} " + "a b c d " * (N_CHARACTERS // 8),
    "short sentences": lambda n: f"{n}. " + "a. " * (N_CHARACTERS // 3),
    "marks": lambda n: f"{n}" + "!?" * (N_CHARACTERS // 2),
    "spaces": lambda n: f"{n}" + " " * N_CHARACTERS + "b",
}
"""By kind, a request of 8,000 characters with a number in it."""


def request(n_words: int, random: Random) -> str:
    """Return a request of about so many words: what is asked, somewhere in what is told around it."""
    told: list[str] = []
    while sum(len(sentence.split()) for sentence in told) + 16 < n_words:
        told.append(random.choice(TOLD))
    told.insert(random.randint(0, len(told)), f"Please {random.choice(ASKED)}, number {random.randint(1, 10**6)}.")
    return " ".join(told)


def cpu_ms(index: Index, query: str) -> float:
    """Return the milliseconds of this thread's processor time that a request takes.

    Raises:
        RuntimeError: it was ranked by words alone.
    """
    started = time.thread_time()
    ranking = index.rank(query)
    elapsed = time.thread_time() - started
    if ranking.cause:
        raise RuntimeError(ranking.cause)
    return 1_000 * elapsed


def measure(index: Index) -> dict[str, list[float]]:
    """Return the milliseconds of some requests of each kind, by the kind's name, and of one asked again."""
    random = Random(7)
    kinds = {f"{n:,} words": [request(n, random) for _ in range(N_ROUNDS)] for n in WORD_COUNTS}
    again = kinds["200 words"][:1] * N_ROUNDS
    kinds |= {f"8,000 characters: {kind}": [write(n) for n in range(N_ROUNDS)] for kind, write in HOSTILE.items()}
    index.rank("warm up")
    times = {kind: [cpu_ms(index, query) for query in queries] for kind, queries in kinds.items()}
    return times | {"200 words, asked again": [cpu_ms(index, query) for query in again]}


def print_times(times: Mapping[str, Sequence[float]], console: Console) -> None:
    """Print a table."""
    table = Table(title="Requests on 1,181 tools, ms of processor time", title_justify="left")
    for heading in ("request", "best", "median", "worst"):
        table.add_column(heading, justify="left" if heading == "request" else "right")
    for kind, ms in times.items():
        table.add_row(kind, *(f"{value:.1f}" for value in (min(ms), median(ms), max(ms))))
    console.print(table)

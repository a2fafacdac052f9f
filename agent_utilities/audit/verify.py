"""What the lines of a record tell of tampering, by themselves and beside heads that were kept elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent_utilities.audit.chain import Head, Line, read_line, start_of

_LONGEST_GAP = 1000
"""Lines of a gap that are looked for further on, where they may have been moved to."""


@dataclass(slots=True)
class Chain:
    """What was found of one chain: how many lines it has, its head, and whether its process said that it ended."""

    n_lines: int = 0
    head: Head | None = None
    has_ended: bool = False
    last: Line | None = None
    next: int = 0
    missing: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Report:
    """What was found in a record.

    Args:
        chains: by their ids, in the order in which they begin.
        tampering: what shows that lines were changed, moved, put in or taken out, each with where.
        torn: lines in pieces, as a kill or a full disk leaves them, each with where.
    """

    chains: dict[str, Chain] = field(default_factory=dict)
    tampering: list[str] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)


def verify(files: Sequence[Path], heads: Iterable[Head] = ()) -> Report:
    """Return what is found in all files of a record.

    Found is a line that was changed, moved, put in or taken out; with a chain's head also that its end was cut off, or
    that it was written anew: without one nobody can tell.

    Args:
        files: the oldest first.
        heads: as they were kept elsewhere, of any chains; a chain may have several.

    Raises:
        OSError: a file can't be read.
    """
    report, by_number = Report(), {(head.chain, head.number): head for head in heads}
    for path in files:
        with path.open("rb") as file:
            for number, text in enumerate(file, 1):
                _take(report, by_number, text.rstrip(b"\n"), f"{path}:{number}")
    for name, chain in report.chains.items():
        report.tampering += [f"chain {name}: {lines} missing" for lines in _runs(sorted(chain.missing))]
    for name, number in by_number:
        chain = report.chains.get(name, Chain())
        if number >= chain.next:
            what = f"{_are(chain.next, number)} cut off" if chain.next else "all of it is taken out"
            report.tampering.append(f"chain {name}: {what}, as its head shows, or it was written anew")
    return report


def _take(report: Report, heads: dict[tuple[str, int], Head], text: bytes, where: str) -> None:
    """Take one line: it is whole, a piece, or of somebody else's making."""
    if (line := read_line(text)) is not None:
        chain = report.chains.setdefault(line.head.chain, Chain())
        report.tampering += [
            f"{where}: line {line.head.number} of chain {line.head.chain} {what}" for what in _add(chain, line)
        ]
        chain.has_ended = b'"event":"closed"' in text
        given = heads.get((line.head.chain, line.head.number))
        if given is not None and given != line.head:
            what = "is not that of its head: it, or what is before it, was written anew"
            report.tampering.append(f"{where}: line {given.number} of chain {given.chain} {what}")
        return
    named = start_of(text)
    of = "a line" if named is None else f"line {named[1]} of chain {named[0]}"
    is_piece = text.startswith(b'{"chain":"'[: len(text)]) and not text.endswith(b'"}')
    if is_piece or not text.strip(b"\0"):
        if text:  # a blank line is what ends a piece of which nothing is left
            report.torn.append(f"{where}: {of} is in pieces, as a kill or a full disk leaves it")
        return
    report.tampering.append(f"{where}: {of} was changed, or put in")
    if named is not None and named[1] == (chain := report.chains.setdefault(named[0], Chain())).next:
        chain.next, chain.last = chain.next + 1, None  # it is there, whatever it says


def _add(chain: Chain, line: Line) -> Iterator[str]:
    """Add a line to its chain, and yield what is wrong with it."""
    number = line.head.number
    chain.n_lines += 1
    if not line.is_whole:
        yield "was changed"
    if number < chain.next:
        yield (
            f"was moved here from before line {chain.next}"
            if number in chain.missing
            else "was put in: it is there twice"
        )
        chain.missing.discard(number)
        return
    if number - chain.next > _LONGEST_GAP:
        yield f"comes after a gap: lines {chain.next} to {number - 1} are missing"
    else:
        chain.missing.update(range(chain.next, number))
    if number == chain.next and chain.last is not None and line.before != chain.last.head.hash:
        yield f"does not follow from line {number - 1}: that was changed, and its hash made anew"
    chain.head, chain.last, chain.next = line.head, line, number + 1


def _runs(numbers: Sequence[int]) -> Iterator[str]:
    """Yield in words the runs of numbers that follow one another."""
    first = 0
    for i, number in enumerate(numbers):
        if i + 1 == len(numbers) or numbers[i + 1] != number + 1:
            yield _are(numbers[first], number)
            first = i + 1


def _are(first: int, last: int) -> str:
    return f"line {first} is" if first == last else f"lines {first} to {last} are"

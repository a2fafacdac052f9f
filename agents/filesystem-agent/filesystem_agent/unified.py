"""Unified diffs: of a known set of edits in linear time, of two files under a deadline, both bounded."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import Match, SequenceMatcher

from filesystem_agent.budget import require_caller
from filesystem_agent.text import printable

N_MAX_COMPARED_LINES = 20_000
NO_NEWLINE = "\\ No newline at end of file\n"


@dataclass(frozen=True)
class Change:
    """Lines `old_start:old_end` of the old text became `new_start:new_end` of the new one; counted from 0."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


@dataclass(frozen=True)
class Diff:
    """A unified diff; `is_minimal` is false where lines were compared only roughly to stay within bounds."""

    text: str
    truncated: bool
    is_minimal: bool = True


def find_changes(old: Sequence[str], new: Sequence[str], deadline: float) -> tuple[list[Change], bool]:
    """Return what changed between two texts, and whether the answer is a line-by-line one.

    Common lines at both ends are set aside first. If what is left is too long, or not compared by `deadline`
    (on the monotonic clock, in seconds), it counts as one change: right, though not the smallest.
    """
    head = 0
    n_common = min(len(old), len(new))
    while head < n_common and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < n_common - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    old_middle, new_middle = old[head : len(old) - tail], new[head : len(new) - tail]
    if not old_middle and not new_middle:
        return [], True
    if max(len(old_middle), len(new_middle)) <= N_MAX_COMPARED_LINES:
        try:
            codes = _Timed(old_middle, new_middle, deadline).get_opcodes()
        except TimeoutError:
            pass
        else:
            return [
                Change(head + i1, head + i2, head + j1, head + j2) for op, i1, i2, j1, j2 in codes if op != "equal"
            ], True
    return [Change(head, len(old) - tail, head, len(new) - tail)], False


class _Timed(SequenceMatcher[str]):
    """A `SequenceMatcher` that gives up at a deadline, checked once per match it looks for."""

    def __init__(self, old: Sequence[str], new: Sequence[str], deadline: float) -> None:
        self._deadline = deadline
        super().__init__(None, old, new)

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Match:
        """Return the longest match, unless the time is up."""
        require_caller()
        if time.monotonic() >= self._deadline:
            raise TimeoutError
        return super().find_longest_match(alo, ahi, blo, bhi)


def unified_diff(
    old: Sequence[str],
    new: Sequence[str],
    changes: Sequence[Change],
    *,
    old_name: str,
    new_name: str,
    n_context_lines: int,
    max_chars: int,
) -> tuple[str, bool]:
    """Return the diff text, and whether it was cut at `max_chars`; empty where nothing changed."""
    if not changes:
        return "", False
    kept = [f"--- {old_name}\n", f"+++ {new_name}\n"]
    n_left = max_chars - sum(map(len, kept))
    for line in _diff_lines(old, new, changes, n_context_lines):
        shown = printable(line)
        if not shown.endswith("\n"):
            shown += "\n" + NO_NEWLINE
        if len(shown) > n_left:
            kept.append(shown[: max(n_left, 0)])
            return "".join(kept), True
        kept.append(shown)
        n_left -= len(shown)
    return "".join(kept), False


def _diff_lines(old: Sequence[str], new: Sequence[str], changes: Sequence[Change], n_context: int) -> Iterator[str]:
    for hunk in _hunks(changes, n_context):
        first, last = hunk[0], hunk[-1]
        n_before = min(n_context, first.old_start, first.new_start)
        n_after = min(n_context, len(old) - last.old_end)
        old_start, old_end = first.old_start - n_before, last.old_end + n_after
        new_start, new_end = first.new_start - n_before, last.new_end + n_after
        yield f"@@ -{_range(old_start, old_end)} +{_range(new_start, new_end)} @@\n"
        at = old_start
        for change in hunk:
            yield from (" " + line for line in old[at : change.old_start])
            yield from ("-" + line for line in old[change.old_start : change.old_end])
            yield from ("+" + line for line in new[change.new_start : change.new_end])
            at = change.old_end
        yield from (" " + line for line in old[at:old_end])


def _hunks(changes: Sequence[Change], n_context: int) -> Iterator[list[Change]]:
    hunk: list[Change] = []
    for change in changes:
        if hunk and change.old_start - hunk[-1].old_end > 2 * n_context:
            yield hunk
            hunk = []
        hunk.append(change)
    yield hunk


def _range(start: int, end: int) -> str:
    n_lines = end - start
    if n_lines == 1:
        return str(start + 1)
    return f"{start + 1 if n_lines else start},{n_lines}"

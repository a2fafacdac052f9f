"""Exact replacement in a text: which occurrences, what comes out, and the diff of it. No I/O."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from itertools import accumulate

from filesystem_agent.errors import refusal
from filesystem_agent.text import line_ending, split_lines
from filesystem_agent.unified import Change, unified_diff

N_LINES_NAMED = 5
N_CONTEXT_LINES = 3


@dataclass(frozen=True)
class Edit:
    """A text after replacement."""

    text: str
    n_replacements: int
    diff: str
    diff_truncated: bool


def replace_text(
    text: str,
    old: str,
    new: str,
    *,
    shown: str,
    replace_all: bool,
    max_chars: int,
    max_diff_chars: int,
) -> Edit:
    """Return `text` with `old` replaced by `new`.

    In a text whose lines all end in CR LF, a bare LF in `old` and `new` means CR LF. In a mixed text that is
    tried only where `old` does not occur as it is, and `new` then follows the ends found.

    Raises:
        ToolError: `old` does not occur, occurs more than once without `replace_all`, equals `new`, or the
            result is longer than `max_chars`.
    """
    old, new = _match_line_ends(text, old, new)
    if old == new:
        raise refusal("old_text and new_text are the same", old)
    starts = _occurrences(text, old)
    if not starts:
        raise refusal("old_text does not occur in the file", old, _nearest(text, old, shown))
    overlaps = len(starts) == 1 and text.find(old, starts[0] + 1) >= 0
    if not replace_all and (len(starts) > 1 or overlaps):
        found = ", ".join(str(text.count("\n", 0, start) + 1) for start in starts[:N_LINES_NAMED])
        more = ", …" if len(starts) > N_LINES_NAMED else ""
        raise refusal(
            "old_text occurs more than once", old, f"at lines {found}{more}: give more context or replace_all"
        )
    if len(text) + len(starts) * (len(new) - len(old)) > max_chars:
        raise refusal(f"the edited file would be larger than {max_chars} bytes", shown)
    new_text = _join(text, starts, len(old), new)
    old_lines, new_lines = split_lines(text), split_lines(new_text)
    changes = _changed_lines(old_lines, new_lines, starts, len(old), len(new))
    diff, truncated = unified_diff(
        old_lines,
        new_lines,
        changes,
        old_name=shown,
        new_name=shown,
        n_context_lines=N_CONTEXT_LINES,
        max_chars=max_diff_chars,
    )
    return Edit(new_text, len(starts), diff, truncated)


def _match_line_ends(text: str, old: str, new: str) -> tuple[str, str]:
    ending = line_ending(text)
    if ending == "crlf" or (ending == "mixed" and "\n" in old and old not in text):
        return _to_crlf(old), _to_crlf(new)
    return old, new


def _to_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _occurrences(text: str, old: str) -> list[int]:
    starts: list[int] = []
    at = text.find(old)
    while at >= 0:
        starts.append(at)
        at = text.find(old, at + len(old))
    return starts


def _join(text: str, starts: list[int], n_old: int, new: str) -> str:
    bounds = [0, *(edge for start in starts for edge in (start, start + n_old)), len(text)]
    return new.join(text[start:end] for start, end in zip(bounds[::2], bounds[1::2], strict=True))


def _changed_lines(
    old_lines: list[str], new_lines: list[str], starts: list[int], n_old: int, n_new: int
) -> list[Change]:
    """Return the changed lines, found from where the replacements are: no search, so linear in the text."""
    old_starts, new_starts = _line_starts(old_lines), _line_starts(new_lines)
    changes: list[Change] = []
    for index, old_at in enumerate(starts):
        new_at = old_at + index * (n_new - n_old)
        old_after, new_after = old_at + n_old, new_at + n_new
        are_whole = _is_in(old_starts, old_after) and _is_in(new_starts, new_after)
        first_after = bisect.bisect_left if are_whole else bisect.bisect_right
        change = Change(
            bisect.bisect_right(old_starts, old_at) - 1,
            min(first_after(old_starts, old_after), len(old_lines)),
            bisect.bisect_right(new_starts, new_at) - 1,
            min(first_after(new_starts, new_after), len(new_lines)),
        )
        if changes and (change.old_start <= changes[-1].old_end or change.new_start <= changes[-1].new_end):
            first = changes.pop()
            change = Change(first.old_start, change.old_end, first.new_start, change.new_end)
        changes.append(change)
    return [_aligned(change, old_lines, new_lines) for change in changes]


def _aligned(change: Change, old: list[str], new: list[str]) -> Change:
    """Drop equal lines at both ends of a change."""
    i, i_end, j, j_end = change.old_start, change.old_end, change.new_start, change.new_end
    while i < i_end and j < j_end and old[i] == new[j]:
        i, j = i + 1, j + 1
    while i < i_end and j < j_end and old[i_end - 1] == new[j_end - 1]:
        i_end, j_end = i_end - 1, j_end - 1
    return Change(i, i_end, j, j_end)


def _line_starts(lines: list[str]) -> list[int]:
    """Return where each line starts, and the end of the text where another line could start there."""
    starts = [0, *accumulate(map(len, lines))]
    return starts[:-1] if lines and not lines[-1].endswith("\n") else starts


def _is_in(starts: list[int], at: int) -> bool:
    index = bisect.bisect_left(starts, at)
    return index < len(starts) and starts[index] == at


def _nearest(text: str, old: str, shown: str) -> str:
    """Say where the text occurs but for white space, or how to look."""
    wanted = next((line.strip() for line in old.split("\n") if line.strip()), "")
    if wanted:
        lines = [number for number, line in enumerate(text.split("\n"), 1) if line.strip() == wanted]
        if lines:
            found = ", ".join(map(str, lines[:N_LINES_NAMED]))
            return f"its first line is at line {found}, check white space and the lines after it"
    return f"view {shown!r} again and copy the text exactly"

"""Lines of a file that match a pattern, in time linear in the file.

Patterns run on RE2, whose matching time is linear for every pattern and whose memory is bounded: a hostile
pattern can't stall the server, and no timer has to guess how long is too long. What RE2 lacks for it
(backreferences, look-around) is refused with an error. The factor of that linear time is the size of the
compiled pattern, so that is bounded too, and files are matched in blocks between looks at the clock and the
caller, the smaller the larger the pattern is. Groups don't capture: that takes RE2's slowest way through a text.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from filesystem_agent.errors import refusal
from filesystem_agent.text import N_SAMPLE_BYTES, WIDE, bom_encoding

N_BLOCK_BYTES = 1 << 16
N_MAX_INSTRUCTIONS = 10_000
N_MAX_STEPS = 1 << 26
"""Most instructions times bytes of one block, well under a second: matching it can't be interrupted."""
N_SHOWN_BEFORE = 100
N_SHOWN_CHARS = 300


@dataclass(frozen=True)
class LineMatch:
    """The first match on a line; `line` counts from 1, `column` in characters from 1."""

    line: int
    column: int
    text: str


def compile_pattern(pattern: str, *, is_regex: bool, ignore_case: bool) -> Any:
    """Return a compiled RE2 pattern that matches within lines.

    Raises:
        ToolError: the pattern is not valid RE2, or is too large.
    """
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.never_nl = True
    options.never_capture = True
    options.log_errors = False
    options.case_sensitive = not ignore_case
    try:
        compiled = re2.compile(f"(?m){pattern if is_regex else re2.escape(pattern)}", options)
    except re2.error as error:
        detail = error.args[0] if error.args else ""
        why = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
        raise refusal(
            f"pattern is not a valid RE2 regular expression ({why})",
            pattern,
            "RE2 has no backreferences or look-around; search literally without is_regex",
        ) from error
    except UnicodeEncodeError as error:
        raise refusal("pattern holds half of a surrogate pair", pattern) from error
    re2.purge()  # its own cache would keep up to 128 patterns, each with all the memory it may use
    if compiled.programsize > N_MAX_INSTRUCTIONS:
        raise refusal("pattern is too large once its repetitions are counted out", pattern, "repeat less")
    return compiled


def block_bytes(pattern: Any) -> int:
    """Return how many bytes of a file to match at once."""
    return min(N_BLOCK_BYTES, max(N_SAMPLE_BYTES, N_MAX_STEPS // int(pattern.programsize)))


def match_lines(blocks: Iterable[bytes], pattern: Any) -> Iterator[LineMatch | None]:
    """Yield the matching lines of a file read in blocks, and `None` after each block so that one may stop."""
    line = 1
    for block in _whole_lines(_utf8(blocks), 2 * block_bytes(pattern)):
        at = 0
        counted = 0
        while at < len(block) and (found := pattern.search(block, at)):
            start, end = found.span()
            if start >= len(block):
                break
            line += block.count(b"\n", counted, start)
            counted = start
            line_start = block.rfind(b"\n", 0, start) + 1
            line_end = block.find(b"\n", start)
            line_end = len(block) if line_end < 0 else line_end
            yield _shown_match(block[line_start:line_end], line, start - line_start, end - line_start)
            at = line_end + 1
        line += block.count(b"\n", counted)
        yield None


def _shown_match(data: bytes, line: int, start: int, end: int) -> LineMatch:
    before = data[:start].decode("utf-8", "backslashreplace")
    rest = data[start : start + N_SHOWN_CHARS * 4].decode("utf-8", "backslashreplace")
    head = before if len(before) <= N_SHOWN_BEFORE else "…" + before[-N_SHOWN_BEFORE:]
    shown = head + rest
    if len(shown) > N_SHOWN_CHARS:
        shown = shown[:N_SHOWN_CHARS] + "…"
    return LineMatch(line, len(before) + 1, shown)


def _whole_lines(blocks: Iterable[bytes], n_max_line_bytes: int) -> Iterator[bytes]:
    """Yield the same bytes cut at line ends, CR LF as LF; a line is only broken beyond `n_max_line_bytes`."""
    carried = b""
    for block in blocks:
        data = carried + block
        cut = data.rfind(b"\n") + 1
        if cut == 0 and len(data) > n_max_line_bytes:
            cut = len(data)
        carried = data[cut:]
        if cut:
            yield data[:cut].replace(b"\r\n", b"\n")
    if carried:
        yield carried


def _utf8(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield UTF-16 and UTF-32 text with a byte order mark as UTF-8, all else as it is, less UTF-8's mark."""
    decoder: codecs.IncrementalDecoder | None = None
    is_first = True
    for block in blocks:
        if is_first:
            is_first = False
            encoding = bom_encoding(block)
            if encoding in WIDE:
                decoder = codecs.getincrementaldecoder(encoding)("replace")
                yield decoder.decode(block).removeprefix("\ufeff").encode()
                continue
            block = block.removeprefix(codecs.BOM_UTF8)
        yield block if decoder is None else decoder.decode(block).encode("utf-8", "replace")

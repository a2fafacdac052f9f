"""What finds a text or a regular expression in a record, at a cost that is bounded whatever either is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastmcp.exceptions import ToolError

N_MAX_INSTRUCTIONS = 10_000
N_MAX_STEPS = 1 << 26
"""Most instructions times bytes of one match, well under a second: it can't be interrupted."""

_MAX_MEMORY_BYTES = 16 << 20


@dataclass
class Matcher:
    """Finds where in a text the first match begins; `n_cut` counts the texts of which only the beginning was tried."""

    query: str
    ignore_case: bool
    expression: Any = None
    """The compiled expression; `None` finds `query` itself."""
    n_cut: int = 0

    def find(self, text: str) -> int:
        """Return the index of the first match in a text, -1 for none."""
        if self.expression is None:
            return text.lower().find(self.query) if self.ignore_case else text.find(self.query)
        n_most = N_MAX_STEPS // int(self.expression.programsize)
        if len(text) * 4 > n_most:  # a character has up to four bytes
            n_bytes = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
            if n_bytes > n_most:
                self.n_cut += 1
                text = text[: n_most * len(text) // n_bytes]
        found = self.expression.search(text)
        return int(found.start()) if found else -1


def matcher(query: str, regex: bool, ignore_case: bool) -> Matcher:
    """Return what finds the query in a text.

    Regular expressions run on RE2, whose time is linear in the text: none can make it backtrack for ever. The factor
    is the size of the compiled expression, so that is bounded too. Groups don't capture, since capturing takes RE2's
    slowest way through the text.

    Raises:
        ToolError: the expression isn't one RE2 knows, or is too large.
    """
    if not regex and (query.isascii() or not ignore_case):
        return Matcher(query.lower() if ignore_case else query, ignore_case)
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.case_sensitive = not ignore_case
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MAX_MEMORY_BYTES
    try:
        compiled = re2.compile(query if regex else re2.escape(query), options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else "not valid text"
        raise ToolError(
            f"not a regular expression: {query[:80]!r}, {reason}; "
            "look-around and back-references are not supported, regex=false searches literally"
        ) from None
    re2.purge()  # its own cache would keep up to 128 expressions, each with all the memory it may use
    if compiled.programsize > N_MAX_INSTRUCTIONS:
        raise ToolError(
            f"too large a regular expression: {query[:80]!r} comes to {compiled.programsize} instructions, "
            f"{N_MAX_INSTRUCTIONS} are allowed; repeat less, such as {{0,100}}, or use * or + without a count"
        )
    return Matcher(query, ignore_case, compiled)

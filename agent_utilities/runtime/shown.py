"""Escapes untrusted text for messages."""

from __future__ import annotations

_LIMIT = 120
_UNSEEN = {
    0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0),
}  # fmt: skip
"""Invisible characters that Unicode counts as printable: letters, marks or symbols by their category."""


def shown(text: str, limit: int | None = _LIMIT) -> str:
    """Return a text on one line, with control and invisible characters escaped.

    An escape sequence in a stranger's file could clear the line that warns of it, and a character that reverses the
    direction of writing could make one command look like another.

    Args:
        limit: the most characters; None where what matters could be at its end.
    """
    cut = text if limit is None or len(text) <= limit else text[: limit - 1] + "…"
    return "".join(
        char if char.isprintable() and ord(char) not in _UNSEEN else char.encode("unicode_escape").decode("ascii")
        for char in cut
    )

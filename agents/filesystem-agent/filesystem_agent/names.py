"""Path text: split into checked names, and names shown so that they can't deceive or break a result."""

from __future__ import annotations

import unicodedata

from filesystem_agent.errors import refusal

MAX_PATH_BYTES = 4096
MAX_NAME_BYTES = 255
N_MAX_PARTS = 255
DECEPTIVE_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
BIDI_CONTROLS = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def is_deceptive(char: str) -> bool:
    """Tell whether `char` is a control, a line break, half a surrogate pair, or reorders text around it."""
    return unicodedata.category(char) in DECEPTIVE_CATEGORIES or char in BIDI_CONTROLS


def is_plain(name: str) -> bool:
    """Tell whether a name can be shown and given back as it is."""
    return (name.isascii() and name.isprintable()) or not any(map(is_deceptive, name))


def shown_name(name: str) -> str:
    """Return a name as printable text; what is not plain comes out as `\\xNN` or `\\uNNNN`."""
    if is_plain(name):
        return name
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(
        char.encode("ascii", "backslashreplace").decode()
        if not char.isascii() and is_deceptive(char)
        else f"\\x{ord(char):02x}"
        if is_deceptive(char)
        else char
        for char in text
    )


def split_names(text: str) -> tuple[str, ...]:
    """Return the names of a path; empty ones and `.` are dropped, `..` is kept for the descent to judge.

    Raises:
        ToolError: the text is too long, or holds NUL, control or text-reordering characters.
    """
    if "\0" in text:
        raise refusal("path contains a NUL character", text)
    if not is_plain(text):
        raise refusal("path contains control, text-reordering or undecodable characters", text, "use a plain name")
    if len(text.encode()) > MAX_PATH_BYTES:
        raise refusal(f"path is longer than {MAX_PATH_BYTES} bytes", text)
    parts = tuple(part for part in text.split("/") if part not in ("", "."))
    for part in parts:
        if len(part.encode()) > MAX_NAME_BYTES:
            raise refusal(f"a name in the path is longer than {MAX_NAME_BYTES} bytes", part)
    if len(parts) > N_MAX_PARTS:
        raise refusal(f"path has more than {N_MAX_PARTS} names", text)
    return parts

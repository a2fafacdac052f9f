"""Text of a config file as messages show it: nothing in it can act on a terminal or look like what it is not."""

from __future__ import annotations

_LIMIT = 120


def shown(text: str, limit: int = _LIMIT) -> str:
    """Return a text on one line, with control characters and invisible ones as escapes.

    A file may be a stranger's: an escape sequence in it could clear the line that warns of it, and a character that
    turns the direction of writing could make one command look like another.

    Args:
        text: the text.
        limit: characters after which it is cut, with `…`.
    """
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in cut)


def described(value: object) -> str:
    """Return what a value is, without the value: `a text`, `a list`."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "a switch", int: "a number", float: "a number"}
    return "null" if value is None else next((name for kind, name in names.items() if isinstance(value, kind)), "odd")

"""What of a message its user wrote: neither blocks that hosts put into it, such as skills, nor what was pasted."""

from __future__ import annotations

import re

from agent_utilities.capabilities.pasted import without_pastes

# XML allows no `<` within a tag, not even in quotes, so that every character is looked at for one tag only: the time
# is linear, whatever the text. `a < b`, `Map<int, string>` and `<bob@example.org>` are no tags.
_TAG = re.compile(
    r"<(?P<end>/?)(?P<name>[A-Za-z_][\w.-]*+(?::[\w.-]++)?+)(?=[\s/>])"
    r"(?:(?:[^<>\"']|\"[^\"<]*+\"|'[^'<]*+')*+>|[^<>]*+>)"
)
_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
"""Elements of HTML that are never closed."""


def intent_text(text: str) -> str:
    """Return a message without its XML blocks and what else was pasted into it; as it is where it has neither.

    A tag that is never closed is prose or code (`centre a <div>`, `List<int>`) and stays. At the start of a line it
    opens a block whose end was cut off: nothing after it is known to be the user's, and all of that goes.

    >>> intent_text('<log level="x">kubectl: refused</log> why is a < b for List<int>?')
    'why is a < b for List<int>?'
    """
    return without_pastes(_without_blocks(text) if "<" in text else text)


def _without_blocks(text: str) -> str:
    blocks = _blocks(text)
    if not blocks:
        return text
    kept, end = [], 0
    for start, block_end in blocks:
        kept.append(text[end:start].strip())
        end = block_end
    kept.append(text[end:].strip())
    return "\n".join(filter(None, kept))


def _blocks(text: str) -> list[tuple[int, int]]:
    """Return where the outermost blocks start and end, in order."""
    opened: list[tuple[str, int]] = []
    n_opened: dict[str, int] = {}
    blocks: list[tuple[int, int]] = []
    for tag in _TAG.finditer(text):
        name = tag["name"].lower()
        if name in _VOID or (not tag["end"] and tag.group().endswith("/>")):
            continue
        if not tag["end"]:
            opened.append((name, tag.start()))
            n_opened[name] = n_opened.get(name, 0) + 1
        elif n_opened.get(name):
            start = _close(name, opened, n_opened)
            while blocks and blocks[-1][0] > start:
                blocks.pop()
            blocks.append((start, tag.end()))
    cut_off = next((start for _, start in opened if _starts_line(text, start)), None)
    if cut_off is None:
        return blocks
    return [block for block in blocks if block[0] < cut_off] + [(cut_off, len(text))]


def _close(name: str, opened: list[tuple[str, int]], n_opened: dict[str, int]) -> int:
    """Take the last opened tag of a name and all that were opened within it, and return where it starts."""
    while True:
        last, start = opened.pop()
        n_opened[last] -= 1
        if last == name:
            return start


def _starts_line(text: str, place: int) -> bool:
    while place and text[place - 1] in " \t":
        place -= 1
    return not place or text[place - 1] in "\r\n"

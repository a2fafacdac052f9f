"""The comment at the head of a bundle's file, where its title and description stand."""

from __future__ import annotations

import re
from collections.abc import Mapping

_LINE = re.compile(r"#\s*(?P<key>[A-Za-z]+):\s*(?P<value>.*)\Z")


def head_comment(text: str) -> Mapping[str, str]:
    """Return what the comment at the head of a file says, by its keys in lower case: `title`, `description`.

    The first line of a key holds. What stands below the first line that is no comment is none of it.

    Args:
        text: the file's.
    """
    told: dict[str, str] = {}
    for line in map(str.strip, text.split("\n")):
        if line and not line.startswith("#"):
            break
        if found := _LINE.match(line):
            told.setdefault(found["key"].lower(), found["value"].strip())
    return told

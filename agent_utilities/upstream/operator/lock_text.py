"""Changes as a person reads them on a terminal: a diff in which no character can hide or act."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from difflib import unified_diff

from agent_utilities.upstream.configuration.config_text import shown
from agent_utilities.upstream.operator.lock import Change, Definition

MAX_LINES = 2_000
_ENDS = re.compile(r"(?<=[.!?;]) +(?=\S)")


def change_text(change: Change) -> str:
    """Return a change as lines: what and of which component, then a diff of what a model reads."""
    lines = [shown(f"{change.what}: {change.key}", limit=None)]
    before, after = (_lines(definition) for definition in (change.before, change.after))
    diff = list(unified_diff(before[:MAX_LINES], after[:MAX_LINES], n=2, lineterm=""))
    shown_from = 2 if change.what == "changed" else 3  # nothing is left out before all of it
    lines += ["  ..." if line.startswith("@@") else f"  {line[0]} {line[1:]}" for line in diff[shown_from:]]
    n_more = max(len(before), len(after)) - MAX_LINES
    if n_more > 0:
        lines.append(f"  NOT SHOWN: {n_more} more lines; read them before you accept this")
    if told := _foreign(change):
        lines.append(f"  not ASCII, and not there before: {told}")
    return "\n".join(lines)


def _lines(definition: Definition | None) -> list[str]:
    """Return a definition's lines: texts by sentence, schemas by line of JSON with keys in order."""
    lines: list[str] = []
    for name, value in (definition or {}).items():
        if isinstance(value, str):
            sentences = [part for line in value.split("\n") for part in _ENDS.split(line)]
            lines += [f"{name}: {sentences[0]}", *(f"    {sentence}" for sentence in sentences[1:])]
        else:
            text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
            lines += f"{name}: {text}".split("\n")
    return [shown(line, limit=None) for line in lines]


def _foreign(change: Change) -> str:
    """Name the characters that are new and not ASCII: some look just like a letter that was there."""
    texts = (json.dumps(definition or {}, ensure_ascii=False) for definition in (change.before, change.after))
    before, after = (Counter(character for character in text if character > "\x7f") for text in texts)
    new = sorted((after - before) if change.before is not None else after)
    named = [f"U+{ord(character):04X} {unicodedata.name(character, 'unnamed')}" for character in new[:10]]
    return ", ".join(named) + (f" and {len(new) - 10} more" if len(new) > 10 else "")

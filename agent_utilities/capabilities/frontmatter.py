"""The capabilities that a skill names in the frontmatter of its `SKILL.md`."""

from __future__ import annotations

import re

MAX_CHARACTERS = 32 * 1024
"""The longest frontmatter that is looked into."""
MAX_ENTRY_CHARACTERS = 1024
"""The longest entry of it that is read as YAML."""
MAX_NAMES = 16
"""How many names count."""
_OPENING = re.compile(r"\ufeff?---[ \t]*\r?\n")
_CLOSING = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?$", re.MULTILINE)
_ENTRY = re.compile(r"""^(?:capabilities|"capabilities"|'capabilities')[ \t]*:(?:.*)(?:\n(?:[ \t-].*|\r?$))*""", re.M)
"""The key at the beginning of a line, and the lines under it: those further in, those of a list, and empty ones."""
_MAX_BRACKETS = 8
_SEPARATORS = re.compile(r"[\s,]+")
_NAME = re.compile(r"[\w.+-]{1,100}")


def capabilities_of(text: str) -> tuple[str, ...]:
    """Return the names under `capabilities` in a text's frontmatter, in its order, each once; () for nonsense.

    They may be one text, with spaces or commas between them, or a list. That entry alone is read as YAML: what is
    wrong elsewhere, as a colon in a description often is, costs a skill nothing, and what is huge or deep costs us
    nothing. No value is made of it: tags mean nothing, and aliases and merges, which make a small text large, neither.

    Args:
        text: what a client reads of a skill; the frontmatter stands between its first two `---` lines.
    """
    if not (opening := _OPENING.match(text)):
        return ()
    beginning = text[opening.end() : opening.end() + MAX_CHARACTERS]
    closing = _CLOSING.search(beginning)
    entry = _ENTRY.search(beginning, 0, closing.start()) if closing else None
    if entry is None:
        return ()
    names = [name for part in _values(entry[0]) for name in _SEPARATORS.split(part)]
    return tuple(dict.fromkeys(name for name in names if _NAME.fullmatch(name)))[:MAX_NAMES]


def _values(entry: str) -> list[str]:
    """Return the texts under an entry's key, as they are written."""
    # Time and stack grow with the square of how deep brackets nest.
    if len(entry) > MAX_ENTRY_CHARACTERS or entry.count("[") + entry.count("{") > _MAX_BRACKETS:
        return []
    import yaml

    try:
        root = yaml.compose(entry, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError, ValueError):
        return []
    if not isinstance(root, yaml.MappingNode):
        return []
    value = root.value[0][1]
    found = value.value if isinstance(value, yaml.SequenceNode) else [value]
    return [each.value for each in found if isinstance(each, yaml.ScalarNode)]

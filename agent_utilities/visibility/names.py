"""Matching of folded names and `*` globs, in time that is linear in each name's length."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agent_utilities.catalog.model import Entry
from agent_utilities.selection.model import NameSet


def name_matcher(names: NameSet) -> Callable[[Entry], bool]:
    """Return a test of whether a set names a component: by its name or URI, or as a toolset by any of its tags."""
    if names.everything:
        return lambda entry: True
    by_name = pattern_matcher(names.names | names.toolsets)
    if not names.toolsets:
        return lambda entry: by_name(entry.identifiers)
    by_tag = pattern_matcher(names.toolsets)
    return lambda entry: by_name(entry.identifiers) or by_tag(entry.tags)


def tag_matcher(names: NameSet) -> Callable[[Entry], bool]:
    """Return a test of whether a component bears one of the tags of a set."""
    if names.everything:
        return lambda entry: True
    by_tag = pattern_matcher(names.names)
    return lambda entry: by_tag(entry.tags)


def pattern_matcher(patterns: frozenset[str]) -> Callable[[Iterable[str]], bool]:
    """Return a test of whether any of some folded names matches a pattern.

    Args:
        patterns: folded names, where `*` stands for any run of characters.
    """
    exact = frozenset(pattern for pattern in patterns if "*" not in pattern)
    if len(exact) == len(patterns):
        return lambda names: not exact.isdisjoint(names)
    globs = [pattern for pattern in patterns if "*" in pattern]
    prefixes = tuple(glob[:-1] for glob in globs if glob.index("*") == len(glob) - 1)
    others = [glob.split("*") for glob in globs if glob.index("*") != len(glob) - 1]

    def matches(names: Iterable[str]) -> bool:
        for name in names:
            if name in exact or name.startswith(prefixes) or any(_fits(name, parts) for parts in others):
                return True
        return False

    return matches


def fits_any(pattern: str, names: frozenset[str]) -> bool:
    """Whether a folded name or glob fits any of some folded names."""
    return pattern in names or ("*" in pattern and pattern_matcher(frozenset({pattern}))(names))


def _fits(name: str, parts: list[str]) -> bool:
    """Whether a name is the parts in order with anything between; greedy, so without backtracking."""
    first, *middle, last = parts
    if not name.startswith(first) or len(name) < len(first) + len(last) or not name.endswith(last):
        return False
    start, end = len(first), len(name) - len(last)
    for part in middle:
        place = name.find(part, start, end)
        if place < 0:
            return False
        start = place + len(part)
    return True

"""Matching of folded names and `*` globs, in time that is linear in each name's length."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice

from agent_utilities.catalog.model import Entry
from agent_utilities.selection.model import NameSet
from agent_utilities.visibility.steps import Steps, finish

_STEP = 1000
"""Names that are looked at in one step: a millisecond, for a glob that nearly fits all of them."""


def name_matcher(names: NameSet) -> Callable[[Entry], bool]:
    """Return a test of whether a set names a component: by its name or URI, or as a toolset by any of its tags."""
    if names.everything:
        return lambda entry: True
    by_name = pattern_matcher(every_name(names))
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


def every_name(names: NameSet) -> frozenset[str]:
    """Return what may be a component's name; the set's own where it can be, since a caller's may be long."""
    return names.names | names.toolsets if names.names and names.toolsets else names.names or names.toolsets


def pattern_matcher(patterns: frozenset[str]) -> Callable[[Iterable[str]], bool]:
    """Return a test of whether any of some folded names matches a pattern.

    Args:
        patterns: folded names, where `*` stands for any run of characters.
    """
    globs = tuple(pattern for pattern in patterns if "*" in pattern)
    if not globs:
        return lambda names: not patterns.isdisjoint(names)
    return lambda names: any(name in patterns or any(_fits(name, glob.split("*")) for glob in globs) for name in names)


def may_begin(patterns: Iterable[str], beginning: str) -> bool:
    """Return whether a name that begins like this could match any of some folded names and globs."""
    heads = ((pattern.partition("*")[0], "*" in pattern) for pattern in patterns)
    return any(head.startswith(beginning) or (is_glob and beginning.startswith(head)) for head, is_glob in heads)


def matching(patterns: frozenset[str], names: Collection[str]) -> Steps[set[str]]:
    """Return those of some folded names that match a pattern.

    Args:
        patterns: folded names, where `*` stands for any run of characters.
        names: a set or a mapping, so that a name is found in it at once.
    """
    found = {pattern for pattern in patterns if pattern in names}
    for pattern in patterns:
        if "*" in pattern:
            for fitting in _fitting(pattern, names):
                found.update(fitting)
                yield
    return found


def fits_any(pattern: str, names: Collection[str]) -> bool:
    """Whether a folded name or glob fits any of some folded names."""
    return finish(fitting_any(pattern, names))


def fitting_any(pattern: str, names: Collection[str]) -> Steps[bool]:
    """Return whether a folded name or glob fits any of some folded names."""
    if pattern in names:
        return True
    if "*" in pattern:
        for fitting in _fitting(pattern, names):
            if fitting:
                return True
            yield
    return False


def _fitting(glob: str, names: Collection[str]) -> Iterator[list[str]]:
    """Yield the names that fit a glob, found among a step's worth of names at a time."""
    parts = glob.split("*")
    longest = max(parts, key=len)
    rest = iter(names)
    while step := list(islice(rest, _STEP)):
        yield [name for name in step if longest in name and _fits(name, parts)]


def _fits(name: str, parts: list[str]) -> bool:
    """Whether a name is the parts in order with anything between; greedy, so without backtracking."""
    first, last = parts[0], parts[-1]
    start, end = len(first), len(name) - len(last)
    if end < start or not name.startswith(first) or not name.endswith(last):
        return False
    for i in range(1, len(parts) - 1):
        place = name.find(parts[i], start, end)
        if place < 0:
            return False
        start = place + len(parts[i])
    return True

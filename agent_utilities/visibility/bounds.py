"""Bounds: which components a caller may list, search and call, and the rule that refuses each other one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Literal, TypeVar

from agent_utilities.catalog.model import Catalog, Entry
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import NO_NAMES, NameSet, Setting

_T = TypeVar("_T")

Steps = Generator[None, None, _T]
"""Work that yields after each step, of a millisecond or two at most, and returns what came of it."""


def finish(steps: Steps[_T]) -> _T:
    """Return what comes of some work, all steps taken at once."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: _T = done.value
            return result


_STEP = 1000
"""Names that are looked at in one step: a millisecond, for a glob that nearly fits all of them."""


def every_name(names: NameSet) -> frozenset[str]:
    """Return what may be a component's name; the set's own where it can be, since a caller's may be long."""
    return names.names | names.toolsets if names.names and names.toolsets else names.names or names.toolsets


def pattern_matcher(patterns: frozenset[str]) -> Callable[[Iterable[str]], bool]:
    """Return a test of whether any of some folded names matches a pattern."""
    globs = tuple(pattern for pattern in patterns if "*" in pattern)
    if not globs:
        return lambda names: not patterns.isdisjoint(names)
    return lambda names: any(name in patterns or any(_fits(name, glob.split("*")) for glob in globs) for name in names)


def may_begin(patterns: Iterable[str], beginning: str) -> bool:
    """Return whether a name that begins like this could match any of some folded names and globs."""
    heads = ((pattern.partition("*")[0], "*" in pattern) for pattern in patterns)
    return any(head.startswith(beginning) or (is_glob and beginning.startswith(head)) for head, is_glob in heads)


def matching(patterns: frozenset[str], names: Collection[str]) -> Steps[set[str]]:
    """Return those of some folded names that match a pattern."""
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


RuleName = Literal[
    "configured", "inactive", "denied_tool", "denied_tag", "not_read_only", "not_allowed_tool", "not_allowed_tag"
]

_DENIES: frozenset[RuleName] = frozenset(("configured", "denied_tool", "denied_tag"))
_TEXT: dict[RuleName, str] = {
    "configured": "denied in its configuration",
    "inactive": "of no active capability",
    "denied_tool": "denied by name",
    "denied_tag": "denied by tag",
    "not_read_only": "not annotated readOnlyHint: true",
    "not_allowed_tool": "not among the allowed tools",
    "not_allowed_tag": "bears none of the allowed tags",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One bound."""

    name: RuleName
    setting: Setting

    def refuses(self, entry: Entry) -> bool:
        """Return whether it keeps a component from the caller."""
        return bool(finish(_refused(self, Catalog((entry,)))))

    @property
    def text(self) -> str:
        """What a person reads: the rule and where it was set."""
        return f"{_TEXT[self.name]} ({', '.join(self.setting.origins)})"


Refusals = tuple[Rule | None, ...]
"""For each entry of a catalog the rule that refuses it, or None where it is permitted."""


class Bounds:
    """The rules of one effective selection; a component is permitted when none refuses it (laws L2, L3)."""

    def __init__(self, effective: Effective) -> None:
        rules: list[Rule] = []
        if effective.configured:
            rules.append(_configured("its configuration"))
        if effective.capabilities is not None:
            rules.append(Rule("inactive", Setting(tuple(sorted(effective.capabilities)), ("capabilities",))))
        rules += [Rule("denied_tool", setting) for setting in effective.deny_tools]
        rules += [Rule("denied_tag", setting) for setting in effective.deny_tags]
        if effective.read_only is not None:
            rules.append(Rule("not_read_only", effective.read_only))
        rules += [Rule("not_allowed_tool", each) for each in effective.allow_tools if not _names(each).everything]
        rules += [Rule("not_allowed_tag", each) for each in effective.allow_tags if not _names(each).everything]
        # The operator's rules come first, so that a refusal on the caller's side tells nothing of the operator's.
        self.rules = tuple(sorted(rules, key=lambda rule: rule.setting.side != "operator"))
        self.n_globs = sum("*" in name for rule in rules for name in _every_name_of(rule.setting))
        """How many names with a `*` the rules have: what judging a catalog costs grows with them."""

    def refusal(self, entry: Entry) -> Rule | None:
        """Return the first rule that refuses an entry, the operator's first, or None where it is permitted."""
        for rule in self.rules:
            if rule.refuses(entry):
                return _configured(entry.denied_by) if entry.denied_by and rule.name == "configured" else rule
        return None

    def may_permit(self, unknown: Entry) -> bool:
        """Whether any tool may be permitted whose name begins like an entry's, and that is otherwise like it.

        So it is asked of a server whose tools are not known yet: an allow-list may name one of them.
        """
        return not any(
            rule.refuses(unknown)
            for rule in self.rules
            if rule.name != "not_allowed_tool"
            or not may_begin(every_name(_names(rule.setting)), unknown.identifiers[0])
        )

    def permits_entry_tool(self, tool: Entry, *, by_caller: bool) -> bool:
        """Whether a tool by which others are found may be listed: what it reaches is bounded tool by tool.

        A deny refuses it. Where it is there because a caller asked for it, so does every bound of the operator's; what
        operators themselves asked for needs no naming in their own allow-list.
        """
        return not any(
            rule.refuses(tool)
            for rule in self.rules
            if rule.name in _DENIES or (by_caller and rule.setting.side == "operator")
        )

    def judging(self, catalog: Catalog) -> Steps[Refusals]:
        """Return for each entry of a catalog the rule that refuses it, the operator's first, or None.

        Judged with each are the others that a call by its name could reach instead: of two entries of one name and
        version the first answers, and an entry without a version answers for every version of its name. So a refusal
        of the one refuses the other (law L1: what is listed can be called).
        """
        refusals: list[Rule | None] = [None] * len(catalog)
        for rule in self.rules:
            for i in (yield from _refused(rule, catalog)):
                if refusals[i] is None:
                    denied_by = catalog.entries[i].denied_by if rule.name == "configured" else None
                    refusals[i] = rule if denied_by is None else _configured(denied_by)
            yield
        if any(refusals):
            _refuse_alike(catalog.entries, refusals)
        return tuple(refusals)


@lru_cache(maxsize=1024)
def _configured(denied_by: str) -> Rule:
    """Return the rule that refuses what its own configuration denies, and says where it does."""
    return Rule("configured", Setting(NO_NAMES, (denied_by,)))


def _refused(rule: Rule, catalog: Catalog) -> Steps[Collection[int]]:
    """Return the indexes of the entries that a rule refuses."""
    entries = catalog.entries
    if rule.name == "configured":
        return [i for i, entry in enumerate(entries) if entry.denied_by is not None]
    if rule.name == "inactive":
        active = rule.setting.value
        assert isinstance(active, tuple)
        return [i for i in catalog.of_capabilities if (entries[i].capabilities or frozenset()).isdisjoint(active)]
    if rule.name == "not_read_only":
        return [i for i, entry in enumerate(entries) if not entry.read_only]
    names, named = _names(rule.setting), set[int]()
    if names.everything:
        return range(len(catalog))  # an allow of everything is no rule
    tags = names.names
    if rule.name in ("denied_tool", "not_allowed_tool"):
        tags = names.toolsets
        for name in (yield from matching(every_name(names), catalog.places_by_name)):
            named.update(catalog.places_by_name[name])
    yield
    for tag in (yield from matching(tags, catalog.places_by_tag)):
        named.update(catalog.places_by_tag[tag])
    is_deny = rule.name in ("denied_tool", "denied_tag")
    return named if is_deny else [i for i in range(len(catalog)) if i not in named]


def _refuse_alike(entries: Sequence[Entry], refusals: list[Rule | None]) -> None:
    """Refuse the permitted entries by whose names a refused one would answer."""
    first: dict[tuple[str, str | None], Rule | None] = {}
    versioned: dict[str, Rule] = {}
    for entry, rule in zip(entries, refusals, strict=True):
        first.setdefault((entry.name, entry.version), rule)
        if rule is not None and entry.version is not None:
            versioned.setdefault(entry.name, rule)
    if len(first) == len(refusals) and not versioned:
        return
    for i, entry in enumerate(entries):
        if refusals[i] is None:
            of_any_version = versioned.get(entry.name) if entry.version is None else None
            refusals[i] = first[entry.name, entry.version] or of_any_version


def _names(setting: Setting) -> NameSet:
    assert isinstance(setting.value, NameSet)
    return setting.value


def _every_name_of(setting: Setting) -> Iterable[str]:
    return every_name(setting.value) if isinstance(setting.value, NameSet) else ()

"""Bounds: which components a caller may list, search and call, which rule refuses each other one, and unknown names."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
from typing import Literal, TypeVar

from agent_utilities.catalog.model import Catalog, Entry
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import NO_NAMES, NameSet, Setting, Side, nearest

_T = TypeVar("_T")

Steps = Generator[None, None, _T]
"""Work that yields after each step, of a millisecond or two at most, and returns its result."""


def finish(steps: Steps[_T]) -> _T:
    """Run all steps at once, and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: _T = done.value
            return result


_STEP = 1000
"""Names that one step matches: a millisecond, for a glob that nearly fits all of them."""


def fits(name: str, patterns: frozenset[str]) -> bool:
    """Whether a folded name matches any of these folded names and globs."""
    return name in patterns or any("*" in pattern and _fits(name, pattern.split("*")) for pattern in patterns)


def may_begin(patterns: Iterable[str], beginning: str) -> bool:
    """Whether any name with this beginning could match one of these folded names and globs."""
    heads = ((pattern.partition("*")[0], "*" in pattern) for pattern in patterns)
    return any(head.startswith(beginning) or (is_glob and beginning.startswith(head)) for head, is_glob in heads)


def matching(patterns: Iterable[str], names: Collection[str]) -> Steps[set[str]]:
    """Return the folded names that match any of the patterns, which are names and globs."""
    found: set[str] = set()
    for pattern in patterns:
        if pattern in names:
            found.add(pattern)
        if "*" in pattern:
            parts, rest = pattern.split("*"), iter(names)
            longest = max(parts, key=len)
            while step := list(islice(rest, _STEP)):
                found.update(name for name in step if longest in name and _fits(name, parts))
                yield
    return found


def places(names: Iterable[str], tags: Iterable[str], catalog: Catalog) -> Steps[set[int]]:
    """Return the indexes of the catalog's entries that match any of the names, or any of the tags."""
    found: set[int] = set()
    for patterns, by_name in ((names, catalog.places_by_name), (tags, catalog.places_by_tag)):
        for name in (yield from matching(patterns, by_name)):
            found.update(by_name[name])
        yield
    return found


def _fits(name: str, parts: list[str]) -> bool:
    """Whether a name is the parts of a glob in order with anything between; greedy, so without backtracking."""
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


_ByName = Literal["configured", "inactive", "denied_tool", "denied_tag", "not_allowed_tool", "not_allowed_tag"]
RuleName = _ByName | Literal["not_read_only", "may_destroy"]

_DENIES: frozenset[RuleName] = frozenset(("configured", "denied_tool", "denied_tag"))
_TEXT: dict[RuleName, str] = {
    "configured": "denied in its configuration",
    "inactive": "of no active capability",
    "denied_tool": "denied by name",
    "denied_tag": "denied by tag",
    "not_read_only": "not annotated readOnlyHint: true",
    "may_destroy": "annotated neither readOnlyHint: true nor destructiveHint: false",
    "not_allowed_tool": "not among the allowed tools",
    "not_allowed_tag": "bears none of the allowed tags",
}


@dataclass(frozen=True, slots=True)
class Rule:
    name: RuleName
    setting: Setting

    def refuses(self, entry: Entry) -> bool:
        """Whether it refuses a component to the caller."""
        return bool(finish(_refused(self, Catalog((entry,)))))

    @property
    def text(self) -> str:
        """The rule and where it was set, for people."""
        return f"{_TEXT[self.name]} ({', '.join(self.setting.origins)})"


Refusals = tuple[Rule | None, ...]
"""For each entry of a catalog the rule that refuses it, or None where it is permitted."""


class Bounds:
    """The rules of one effective selection; a component is permitted when none refuses it (laws L2, L3)."""

    def __init__(self, effective: Effective) -> None:
        brought = effective.capabilities
        given: tuple[tuple[RuleName, Iterable[Setting]], ...] = (
            ("configured", [Setting(NO_NAMES, ("its configuration",))] if effective.configured else []),
            ("inactive", [] if brought is None else [Setting(tuple(sorted(brought)), ("capabilities",))]),
            ("denied_tool", effective.deny_tools),
            ("denied_tag", effective.deny_tags),
            ("not_read_only", [] if effective.read_only is None else [effective.read_only]),
            ("may_destroy", [] if effective.no_destructive is None else [effective.no_destructive]),
            ("not_allowed_tool", effective.allow_tools),
            ("not_allowed_tag", effective.allow_tags),
        )
        rules = [Rule(name, setting) for name, settings in given for setting in settings]
        # The operator's rules come first, so that a refusal by a caller's own rule reveals nothing of the operator's.
        self.rules = tuple(sorted(rules, key=lambda rule: rule.setting.side != "operator"))
        lists = [rule.setting.value for rule in rules if isinstance(rule.setting.value, NameSet)]
        self.n_globs = sum("*" in name for names in lists for name in names.every_name)
        """The number of globs in the rules: the cost of judging a catalog grows with it."""

    def refusal(self, entry: Entry) -> Rule | None:
        """Return the first rule that refuses an entry, the operator's first, or None where it is permitted."""
        return finish(self.judging(Catalog((entry,))))[0]

    def may_permit(self, unknown: Entry) -> bool:
        """Whether a tool like this entry could be permitted, under any name that begins with the entry's.

        For a server whose tools are not known yet: an allow-list may name one of them.
        """
        return not any(
            rule.refuses(unknown)
            for rule in self.rules
            if rule.name != "not_allowed_tool" or not may_begin(_names(rule.setting).every_name, unknown.identifiers[0])
        )

    def permits_entry_tool(self, tool: Entry, *, by_caller: bool) -> bool:
        """Whether an entry tool may be listed; the tools that it reaches are judged one by one.

        A deny refuses it. Where a caller turned tool search on, so does every bound of the operator's; operators who
        turned it on themselves need not name it in their allow-list.
        """
        return not any(
            rule.refuses(tool)
            for rule in self.rules
            if rule.name in _DENIES or (by_caller and rule.setting.side == "operator")
        )

    def judging(self, catalog: Catalog) -> Steps[Refusals]:
        """Return for each entry of a catalog the rule that refuses it, the operator's first, or None.

        Entries that a call by the same name could reach are judged together: of two entries of one name and version
        the first answers, and an entry without a version answers for every version of its name. So a refusal of the
        one refuses the other (law L1: what is listed can be called).
        """
        refusals: list[Rule | None] = [None] * len(catalog)
        for rule in self.rules:
            for i in (yield from _refused(rule, catalog)):
                if refusals[i] is None:
                    where = catalog.entries[i].denied_by if rule.name == "configured" else None
                    refusals[i] = rule if where is None else Rule(rule.name, Setting(NO_NAMES, (where,)))
            yield
        if any(refusals):
            _refuse_alike(catalog.entries, refusals)
        return tuple(refusals)


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
    if rule.name == "may_destroy":
        return [i for i, entry in enumerate(entries) if entry.destructive and not entry.read_only]
    names, of_tools = _names(rule.setting), rule.name in ("denied_tool", "not_allowed_tool")
    is_deny = rule.name in _DENIES
    if names.everything:
        return range(len(catalog)) if is_deny else ()
    named = yield from places(
        names.every_name if of_tools else (), names.toolsets if of_tools else names.names, catalog
    )
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


_NAMES_A_TURN = 2000
"""Names that one step compares with an unknown one: two milliseconds."""
MAX_UNKNOWN = 16
"""The most unknown names that are reported; each costs a search for the nearest."""


@dataclass(frozen=True, slots=True)
class UnfitName:
    """A folded name or glob that matches no entry.

    Args:
        setting: the setting that it is in.
        denies: whether that is a deny.
        choices: every name that it could have meant.
        toolsets: the field in which it would match a toolset, such as `disabled_toolsets`; empty where it matches none.
    """

    name: str
    setting: Setting
    denies: bool
    choices: frozenset[str]
    toolsets: str = ""

    @property
    def nearest(self) -> str | None:
        """The name that was probably meant, or None; costs a search."""
        return nearest(self.name, self.choices)


def unfit_names(effective: Effective, side: Side, entries: Sequence[Entry]) -> Steps[list[UnfitName]]:
    """Return the names in one side's settings that match no entry, in alphabetical order.

    Names of tags are compared with tags, all others with names.
    """
    names = frozenset(name for entry in entries for name in entry.identifiers)
    yield
    tags = frozenset(tag for entry in entries for tag in entry.tags)
    unfit: list[UnfitName] = []
    for given in sorted(_given(effective, side, names, tags), key=attrgetter("name")):
        yield
        if not (yield from matching([given.name], given.choices)):
            is_toolset = given.toolsets and (yield from matching([given.name], tags))
            unfit.append(given if is_toolset else replace(given, toolsets=""))
    return unfit


def _given(effective: Effective, side: Side, names: frozenset[str], tags: frozenset[str]) -> Iterator[UnfitName]:
    """Yield all names in one side's lists, each with the field in which it could be a toolset."""
    either = names | tags
    for settings, choices, denies, toolsets in (
        (effective.allow_tools, names, False, "toolsets"),
        (effective.deny_tools, names, True, "disabled_toolsets"),
        (effective.allow_tags, tags, False, ""),
        (effective.deny_tags, tags, True, ""),
    ):
        for setting in settings:
            if setting.side == side and isinstance(given := setting.value, NameSet):
                yield from (UnfitName(name, setting, denies, choices, toolsets) for name in sorted(given.names))
                yield from (UnfitName(name, setting, denies, either) for name in sorted(given.toolsets))


def unknown_in(effective: Effective, side: Side, entries: Sequence[Entry]) -> Steps[dict[str, str | None]]:
    """Return the names in one side's lists that match no entry, each with the nearest that would, or None.

    For a toolset in a field that takes none (law L3), that is how to select it. At most `MAX_UNKNOWN` names, in
    alphabetical order.
    """
    unknown: dict[str, str | None] = {}
    for unfit in (yield from unfit_names(effective, side, entries)):
        if unfit.name in unknown or len(unknown) == MAX_UNKNOWN:
            continue
        if unfit.toolsets:
            unknown[unfit.name] = f"{unfit.toolsets}={unfit.name}"
        else:
            unknown[unfit.name] = yield from _nearest(unfit.name, unfit.choices)
    return unknown


def _nearest(name: str, choices: Iterable[str]) -> Steps[str | None]:
    """Return the choice nearest to a name, compared in steps."""
    best: list[str] = []
    rest = iter(choices)
    while step := list(islice(rest, _NAMES_A_TURN)):
        found = nearest(name, [*best, *step])
        best = [] if found is None else [found]
        yield
    return best[0] if best else None

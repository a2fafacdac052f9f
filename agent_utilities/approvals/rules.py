"""Which calls are asked for: the operator's tables and entries, judged for one call. Nothing here waits or asks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field, ValidationError

from agent_utilities.catalog.model import Entry
from agent_utilities.errors import SettingsError, said_of
from agent_utilities.policy.bounds import fits
from agent_utilities.selection.model import fold, nearest
from agent_utilities.selection.profiles import APPROVE, PROFILES, SettingsFiles
from agent_utilities.settings import ApproveRule, Settings

WORDS = ("destructive", "writes", "all")
"""The words that stand for tools by what they may do."""


class ApproveTable(ApproveRule):
    """What is asked for by a settings file: for everybody, and beside that for callers with a profile."""

    profiles: dict[str, ApproveRule] = Field(default_factory=dict)
    """By the profile's folded name."""

    @property
    def rules(self) -> list[ApproveRule]:
        """Each rule of it, everybody's first."""
        return [self, *self.profiles.values()]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a call wants: of several rules that fit it, the strictest.

    Args:
        on_page: whether it is asked on the page alone.
        by_other: whether somebody else than the caller is to answer.
        why: the words, names and tags that fit the call, sorted.
    """

    on_page: bool
    by_other: bool
    why: tuple[str, ...]

    @property
    def asks_client(self) -> bool:
        """Whether the caller's own client may be asked."""
        return not (self.on_page or self.by_other)


def table_of(settings: Settings, files: SettingsFiles) -> ApproveTable:
    """Return what an operator's settings ask for.

    Raises:
        SettingsError: it can't be read.
    """
    of_files = (each.settings[APPROVE].value for each in files.files if APPROVE in each.settings)
    profiles = [each[PROFILES] for each in of_files if isinstance(each, Mapping) and PROFILES in each]
    try:  # the environment's rules stand in place of a file's, and not in place of its profiles'
        return ApproveTable.model_validate({**settings.approve, **({PROFILES: profiles[-1]} if profiles else {})})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    file = next((f"file {file.name}: " for file in files.files if APPROVE in file.settings), "")
    path = ".".join((APPROVE, *map(str, first["loc"])))
    hint = (
        f"known are: {', '.join(ApproveRule.model_fields)}"
        if first["type"] == "extra_forbidden"
        else said_of(first["msg"])
    )
    raise SettingsError("it can't be read", first["input"], f"{file}{path}", hint)


def misspelt(rules: Sequence[ApproveRule]) -> list[tuple[str, str]]:
    """Return the names that are nearly a word, each with the word: as a tool's name it may fit nothing."""
    names = {name for rule in rules for name in rule.tools if fold(name) not in WORDS and "*" not in name}
    return [(name, near) for name in sorted(names) if (near := nearest(fold(name), WORDS))]


def wanted(rules: Sequence[ApproveRule], entries: Sequence[Entry], names: Collection[str]) -> Wanted | None:
    """Return what a call wants; None where no rule fits it.

    Args:
        entries: the tool's, one a version; the strictest of them counts.
        names: the tool's names, as callers know it and as its server does.
    """
    fitting = {i: why for i, rule in enumerate(rules) if (why := _why(rule, entries, names))}
    if not fitting:
        return None
    return Wanted(
        any(rules[i].how == "page" for i in fitting),
        any(rules[i].by == "other" for i in fitting),
        tuple(sorted(set().union(*fitting.values()))),
    )


def _why(rule: ApproveRule, entries: Sequence[Entry], names: Collection[str]) -> set[str]:
    is_word: Mapping[str, bool] = {
        "all": True,
        "writes": not all(each.read_only for each in entries),
        "destructive": any(each.destructive and not each.read_only for each in entries),
    }
    tools = {each for each in map(fold, rule.tools) if is_word.get(each) or _fits_any(names, each)}
    tags = {each for each in map(fold, rule.tags) if any(_fits_any(entry.tags, each) for entry in entries)}
    return tools | {f"tag {each}" for each in tags}


def _fits_any(names: Collection[str], pattern: str) -> bool:
    return any(fits(fold(name), frozenset((pattern,))) for name in names)

"""Which calls are asked for: the operator's tables and entries, judged for one call. Nothing here waits or asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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
    programs: tuple[str, ...] = ("writes",)
    """What of a program's calls is asked for beside that, as `tools` says it; `none` for nothing."""

    def start_lines(self) -> list[str]:
        """Return what a start says of it; a name that is nearly a word may be meant as one, and then fits nothing."""
        rules = [self, *self.profiles.values()]
        named = sorted({name for rule in rules for name in rule.tools})
        tags = sorted({f"tag {tag}" for rule in rules for tag in rule.tags})
        of_programs = [f"{name} in programs" for name in self.programs if fold(name) != "none"]
        asked = ", ".join([*named, *tags, *of_programs]) or "what entries of servers name"
        lines = [f"these are called after a person's yes: {asked}"]
        for name in named:
            if fold(name) not in WORDS and "*" not in name and (near := nearest(fold(name), WORDS)):
                lines.append(f"WARNING: approve: {name!r} is taken for a tool's name; was {near!r} meant?")
        return lines


def table_of(settings: Settings, files: SettingsFiles) -> ApproveTable:
    """Return what an operator's settings ask for.

    Raises:
        SettingsError: it can't be read.
    """
    of_files = [each.settings[APPROVE].value for each in files.files if APPROVE in each.settings]
    profiles = [each[PROFILES] for each in of_files if isinstance(each, Mapping) and PROFILES in each]
    try:  # the environment's rules stand in place of a file's, and not in place of its profiles'
        return ApproveTable.model_validate({**settings.approve, **({PROFILES: profiles[-1]} if profiles else {})})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    known = f"known are: {', '.join(ApproveRule.model_fields)}"
    hint = known if first["type"] == "extra_forbidden" else said_of(first["msg"])
    raise SettingsError("it can't be read", first["input"], ".".join((APPROVE, *map(str, first["loc"]))), hint)


def why(rule: ApproveRule, entries: Sequence[Entry], name: str) -> set[str]:
    """Return the words, names and tags of a rule that fit a tool; none where it is called without a yes.

    Args:
        entries: the tool's, one a version; the strictest of them counts.
        name: as the rule's author knows it.
    """
    is_word = {
        "all": True,
        "writes": not all(each.read_only for each in entries),
        "destructive": is_destructive(entries),
    }
    tools = {each for each in map(fold, rule.tools) if is_word.get(each) or _any_fits([name], each)}
    tags = {each for each in map(fold, rule.tags) if any(_any_fits(entry.tags, each) for entry in entries)}
    return tools | {f"tag {each}" for each in tags}


def is_destructive(entries: Iterable[Entry]) -> bool:
    """Whether a tool may destroy something: it says so, or it writes and does not say."""
    return any(each.destructive and not each.read_only for each in entries)


def _any_fits(names: Iterable[str], pattern: str) -> bool:
    return any(fits(fold(name), frozenset((pattern,))) for name in names)

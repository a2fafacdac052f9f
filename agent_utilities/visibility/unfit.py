"""Names in bounds that fit no component: a misspelt deny leaves open what it was to close."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent_utilities.catalog.model import Entry
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import NameSet, Setting, Side
from agent_utilities.selection.nearest import nearest
from agent_utilities.visibility.names import fits_any


@dataclass(frozen=True, slots=True)
class UnfitName:
    """A name or glob that fits nothing.

    Args:
        name: folded, as it is compared.
        setting: the setting that holds it.
        denies: whether that is a deny.
        choices: every name it could have meant.
        toolsets: the field's name under which it fits toolsets, such as `disabled_toolsets`; empty where it fits none.
    """

    name: str
    setting: Setting
    denies: bool
    choices: frozenset[str]
    toolsets: str = ""

    @property
    def key(self) -> tuple[str, Setting]:
        """What tells it from others that one side gave."""
        return self.name, self.setting

    @property
    def nearest(self) -> str | None:
        """The name that was probably meant, or None; costs a search."""
        return nearest(self.name, self.choices)


def unfit_names(effective: Effective, side: Side, entries: Sequence[Entry]) -> Iterator[UnfitName]:
    """Yield the names that one side gave and that fit no entry: tags where tags were given, names where names were.

    Args:
        effective: the settings that hold.
        side: whose names to look at.
        entries: what there is; of one kind of component, or of all.
    """
    names = frozenset(name for entry in entries for name in entry.identifiers)
    tags = frozenset(tag for entry in entries for tag in entry.tags)
    for settings, choices, denies in (
        (effective.allow_tools, names, False),
        (effective.deny_tools, names, True),
        (effective.allow_tags, tags, False),
        (effective.deny_tags, tags, True),
    ):
        toolsets = ("disabled_toolsets" if denies else "toolsets") if choices is names else ""
        for setting in settings:
            if setting.side == side and isinstance(given := setting.value, NameSet):
                for name in sorted(given.names):
                    if not fits_any(name, choices):
                        yield UnfitName(name, setting, denies, choices, toolsets if fits_any(name, tags) else "")
                for name in sorted(given.toolsets):
                    if not fits_any(name, names | tags):
                        yield UnfitName(name, setting, denies, names | tags)

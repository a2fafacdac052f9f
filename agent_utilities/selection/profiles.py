"""What a named profile comes to: its fields stand in the selection of whoever names it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from agent_utilities.errors import SelectionError
from agent_utilities.selection.file_fields import NO_PROFILE, PROFILES, FileChannel, FileFields
from agent_utilities.selection.merge import merge
from agent_utilities.selection.model import CALLER_CHANNELS, NOTHING, OPERATOR_CHANNELS, Channel, Selection, Setting
from agent_utilities.selection.nearest import nearest

_OF_CALLER: dict[FileChannel, Channel] = {"file": "profile", "project": "project_profile"}
_ADDING_UP = frozenset(("deny_tools", "deny_tags", "pins"))
"""Fields that add up over channels, so that none replaces another's."""


@dataclass(frozen=True, slots=True)
class Profiles:
    """The profiles that files define.

    Of several that one side names, that of the highest channel holds; but the denies of every one named do, for no
    channel lifts another's deny (law L2). Where the user's file and the project's define one of the same name, both
    hold as the files themselves do: the project's bounds beside the user's.

    Args:
        files: the files, the user's before the project's.
    """

    files: tuple[FileFields, ...] = ()

    def for_operator(self, given: Selection) -> Selection:
        """Return what the operator gave, with the profiles that he named taken in over their files' other fields.

        Args:
            given: what files, environment and command line have.

        Raises:
            SelectionError: there is no such profile.
        """
        named = _named(given, OPERATOR_CHANNELS)
        if not named:
            return given
        for setting in named.values():
            if (name := _name(setting)) not in self._known:
                raise self._unknown(name, setting)
        launched = named.get("cli") or named.get("env")
        own = launched or named.get("file")
        taken = [(file, own) for file in self.files if own is not None]
        of_project = named.get("project")
        if launched is None and of_project is not None:
            taken = [(file, own) for file, own in taken if file.channel == "file"]
            taken += [(replace_channel(file, "project"), of_project) for file in self.files]
        for file, setting in taken:
            given = _over(given, file.profiles.get(_name(setting), NOTHING))
        return merge(given, *self._denies(map(_name, named.values())))

    def for_caller(self, caller: Selection) -> Selection:
        """Return what a caller asked for, with the profiles that he named taken in, below all else that he gave.

        Args:
            caller: the caller's own selection.

        Raises:
            SelectionError: there is no such profile; which there are is not told.
        """
        named = _named(caller, CALLER_CHANNELS)
        if not named:
            return caller
        self.check_caller(caller)
        names = list(map(_name, named.values()))
        held = [file.profiles.get(names[-1], NOTHING) for file in self.files]
        return merge(caller, *map(_for_caller, (*held, *self._denies(names[:-1]))))

    def check_caller(self, caller: Selection) -> None:
        """Check that every profile which a caller names is there.

        Raises:
            SelectionError: one is not; which there are is not told.
        """
        for setting in _named(caller, CALLER_CHANNELS).values():
            if (name := _name(setting)) not in self._known:
                raise SelectionError("unknown profile", name, ", ".join(setting.origins), "ask who runs the server")

    @property
    def _known(self) -> frozenset[str]:
        return frozenset((NO_PROFILE, *(name for file in self.files for name in file.profiles)))

    def _denies(self, names: Iterable[str]) -> list[Selection]:
        wanted = frozenset(names)
        return [
            Selection(tuple(entry for entry in profile.slots if entry[0][0] in ("deny_tools", "deny_tags")))
            for file in self.files
            for name, profile in file.profiles.items()
            if name in wanted
        ]

    def _unknown(self, name: str, setting: Setting) -> SelectionError:
        known = sorted(self._known - {NO_PROFILE})
        if near := nearest(name, known):
            hint = f"did you mean {near}?"
        else:
            hint = f"there are: {', '.join(known)}" if known else f"define it under [{PROFILES}.{name}] in a file"
        return SelectionError("unknown profile", name, ", ".join(setting.origins), hint)


def replace_channel(file: FileFields, channel: FileChannel) -> FileFields:
    """Return a file whose profiles hold in another channel."""
    return replace(file, channel=channel, profiles={n: _moved(p, channel) for n, p in file.profiles.items()})


def _moved(selection: Selection, channel: Channel) -> Selection:
    return Selection(tuple(((field, channel), setting) for (field, _), setting in selection.slots))


def _for_caller(profile: Selection) -> Selection:
    """Return a profile as it holds for a caller: none of what the operator wrote is told him as his own."""
    slots = tuple(
        ((field, _OF_CALLER[channel]), replace(setting, side="profile"))
        for (field, channel), setting in profile.slots
        if channel in ("file", "project")
    )
    return Selection(slots)


def _over(lower: Selection, upper: Selection) -> Selection:
    """Return two selections with the upper's settings in place of the lower's in the same channel, or added to them."""
    replaced = {slot for slot, _ in upper.slots if slot[0] not in _ADDING_UP}
    return merge(Selection(tuple(entry for entry in lower.slots if entry[0] not in replaced)), upper)


def _named(selection: Selection, channels: Sequence[Channel]) -> Mapping[Channel, Setting]:
    """Return the setting that names a profile in each channel that does, lowest channel first."""
    given = {channel: setting for (field, channel), setting in selection.slots if field == "profile"}
    return {channel: given[channel] for channel in channels if channel in given} if given else {}


def _name(setting: Setting) -> str:
    assert isinstance(setting.value, tuple)
    return setting.value[0]

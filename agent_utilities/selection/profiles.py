"""The selection, settings and profiles of a settings file, and the selection of whoever names a profile."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agent_utilities.errors import SelectionError
from agent_utilities.selection import model
from agent_utilities.selection.channels import FIELDS, field_of, given_elsewhere, near_miss
from agent_utilities.selection.merge import merge
from agent_utilities.selection.model import NOTHING, Channel, NameSet, Selection, Setting, Side, fold, nearest
from agent_utilities.selection.parse import MAX_PROFILE_NAME, read_pairs, text_of

FileChannel = Literal["file", "project"]
"""The user's file, or the working folder's, which may be somebody else's work."""

PROFILES = "profiles"
"""The key of the table of profiles."""
NO_PROFILE = "none"
"""The name of no profile."""
QUOTA = "quota"
"""The setting of quotas, and the key of a profile's own quota."""
APPROVE = "approve"
"""The setting of what a person is asked for, and the key of a profile's own."""
EVERYTHING = "all"
"""The profile of a rule of access that denies nothing."""

_OF_PROFILES = (QUOTA, APPROVE)
_STEMS = sorted(stem for row in FIELDS if "file" in row.channels for stem in row.stems)


@dataclass(frozen=True, slots=True)
class FileSetting:
    """A file's value of a setting that is no selection field."""

    value: object
    source: str


@dataclass(frozen=True, slots=True)
class FileFields:
    """The content of one settings file.

    Args:
        selection: its selection fields, outside of profiles.
        profiles: the selection of each profile, by folded name.
        settings: its other settings, by name; profiles' own are in them, under `profiles`.
    """

    name: str
    channel: FileChannel
    selection: Selection = NOTHING
    profiles: Mapping[str, Selection] = field(default_factory=dict)
    settings: Mapping[str, FileSetting] = field(default_factory=dict)


def read_fields(
    table: Mapping[str, Any], name: str, channel: FileChannel, settings: Collection[str], tables: Collection[str] = ()
) -> FileFields:
    """Read the table of a file; no key is ignored, since the file is ours alone.

    `settings` are the other settings that it may have, in `tables` with their names after the table's and a `_`. An
    unknown key, or a malformed value, raises `SelectionError`.
    """
    place = f"file {name}: "
    profiles: dict[str, Selection] = {}
    others: dict[str, FileSetting] = {}
    for key, value in _flat(table, tables, place):
        plain = key.lower().replace("-", "_")
        if field_of(key, channel) is not None:
            continue
        if plain == PROFILES:
            profiles = dict(_profiles(value, channel, place))
        elif plain not in settings:
            raise _unknown(key, channel, place, [*_STEMS, *settings, PROFILES])
        elif plain in others:
            raise SelectionError("given twice", key, f"{place}{key}", "keep one of them")
        elif not isinstance(value, str) or value.strip():
            others[plain] = FileSetting(value, f"{place}{key}")
    for setting in _OF_PROFILES:
        others |= _with_profiles(setting, others.get(setting), table, place)
    return FileFields(name, channel, _selection(table, channel, place), profiles, others)


def _flat(table: Mapping[str, Any], tables: Collection[str], place: str) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if key not in tables:
            yield key, value
        elif isinstance(value, Mapping):
            yield from ((f"{key}_{inner}", each) for inner, each in value.items())
        else:
            raise SelectionError("not a table", value, f"{place}{key}", f"write it as [{key}] with its keys below")


def _profiles(tables: object, channel: FileChannel, place: str) -> Iterator[tuple[str, Selection]]:
    hint = 'write each as a table, such as [profiles.review] with tools = ["git_log"] in it'
    if not isinstance(tables, Mapping):
        raise SelectionError("not a table", tables, f"{place}{PROFILES}", hint)
    taken: set[str] = set()
    for name, table in tables.items():
        source = f"{place}{PROFILES}.{name}"
        if (folded := _profile_name(name, source)) in taken:
            raise SelectionError("a profile of this name stands before it", name, source, "keep one of them")
        taken.add(folded)
        if not isinstance(table, Mapping):
            raise SelectionError("not a table", table, source, hint)
        for key in table:
            row = field_of(key, channel)
            if row is not None and row.name == "profile":
                raise SelectionError("a profile in a profile", key, f"{source}.{key}", "write its fields here")
            if row is None and key not in _OF_PROFILES:
                raise _unknown(
                    key, channel, f"{source}.", [*_OF_PROFILES, *(stem for stem in _STEMS if stem != "profile")]
                )
        yield folded, _selection(table, channel, f"{source}.")


def _with_profiles(
    name: str, setting: FileSetting | None, table: Mapping[str, Any], place: str
) -> dict[str, FileSetting]:
    """Return a setting with those of the profiles, under `profiles`."""
    profiles: Mapping[str, Any] = next((value for key, value in table.items() if key.lower() == PROFILES), {})
    own = {fold(each): profile[name] for each, profile in profiles.items() if name in profile}
    others = setting.value if setting is not None else {}
    if name == APPROVE and isinstance(others, str | list):
        others = {"tools": others}
    if not isinstance(others, Mapping):
        return {}  # refused where settings are checked
    if PROFILES in others:
        hint = f"write each as [{PROFILES}.NAME.{name}]"
        raise SelectionError("unknown key", PROFILES, f"{place}{name}.{PROFILES}", hint)
    source = setting.source if setting is not None else f"{place}{PROFILES}"
    return {name: FileSetting({**others, PROFILES: own}, source)} if own else {}


def _profile_name(name: str, source: str) -> str:
    folded = fold(name)
    is_plain = name.isprintable() and name == name.strip() and 0 < len(name) <= MAX_PROFILE_NAME
    if not is_plain or folded in ("all", NO_PROFILE) or "," in name or "*" in name:
        hint = f"use up to {MAX_PROFILE_NAME} characters that can be printed: no comma, no *, not all or none"
        raise SelectionError("not a profile's name", name, source.encode("unicode_escape").decode(), hint)
    return folded


def _selection(table: Mapping[str, Any], channel: FileChannel, place: str) -> Selection:
    fields = ((key, value, field_of(key, channel)) for key, value in table.items())
    pairs = [(key, text_of(value, row, f"{place}{key}")) for key, value, row in fields if row is not None]
    return read_pairs(pairs, channel, place=place)


def _unknown(key: str, channel: FileChannel, place: str, known: Collection[str]) -> SelectionError:
    source = f"{place}{key}"
    if (elsewhere := given_elsewhere(key, channel)) is not None:
        return SelectionError(elsewhere[0], key, source, elsewhere[1])
    meant = near_miss(key, channel) or nearest(key.lower().replace("-", "_"), known)
    return SelectionError("unknown key", key, source, f"did you mean {meant}?" if meant else "remove it")


_OF_CALLER: dict[Channel, Channel] = {"file": "profile", "project": "project_profile"}
_ADDING_UP = frozenset(("deny_tools", "deny_tags", "pins"))
"""Fields that add up over channels."""


@dataclass(frozen=True, slots=True)
class SettingsFiles:
    """The settings files, the user's before the project's, and the selection of whoever names a profile in them.

    Of several profiles that one side names, the highest channel's holds; but the denies of each do, since no channel
    lifts another's deny (law L2). Where both files define one of the same name, both hold as the files themselves do:
    the project's bounds beside the user's.
    """

    files: tuple[FileFields, ...] = ()

    @property
    def selection(self) -> Selection:
        """Their merged selection fields, outside of profiles."""
        return merge(*(file.selection for file in self.files))

    def for_operator(self, operator: Selection) -> Selection:
        """Return the operator's selection with the profiles that it names, over their files' other fields.

        An unknown profile raises `SelectionError`.
        """
        named = _named(operator, model.OPERATOR_CHANNELS)
        for name, setting in named.values():
            if name not in self._known:
                raise self._unknown(name, setting)
        held = named.get("cli") or named.get("env")
        of_file, of_project = (held, None) if held else (named.get("file"), named.get("project"))
        taken: list[Selection] = []
        if of_file is not None:
            files = self.files if of_project is None else [file for file in self.files if file.channel == "file"]
            taken += [file.profiles.get(of_file[0], NOTHING) for file in files]
        if of_project is not None:
            taken += [_moved(file.profiles.get(of_project[0], NOTHING), {"file": "project"}) for file in self.files]
        for profile in taken:
            operator = _over(operator, profile)
        return merge(operator, *self._denies(name for name, _ in named.values()))

    def for_caller(self, caller: Selection) -> Selection:
        """Return a caller's selection with the profiles that it names, below all of the caller's other channels.

        An unknown profile raises `SelectionError`, which names no other one.
        """
        named = _named(caller, model.CALLER_CHANNELS)
        if not named:
            return caller
        for name, setting in named.values():
            if name not in self._known:
                raise SelectionError("unknown profile", name, ", ".join(setting.origins), "ask who runs the server")
        names = [name for name, _ in named.values()]
        held = [file.profiles.get(names[-1], NOTHING) for file in self.files]
        profiles = (*held, *self._denies(names[:-1]))
        return merge(caller, *(_moved(profile, _OF_CALLER, side="profile") for profile in profiles))

    @property
    def _known(self) -> frozenset[str]:
        return frozenset((NO_PROFILE, *(name for file in self.files for name in file.profiles)))

    def for_access(self, name: str, channel: Channel, origin: str) -> Selection:
        """Return the bounds of the profile that a rule of access or a token names.

        `all` denies nothing, and `none`, like an unknown name, everything.
        """
        folded = fold(name)
        if folded == EVERYTHING:
            return NOTHING
        held = [file.profiles[folded] for file in self.files if file.channel == "file" and folded in file.profiles]
        if not held:
            everything = Setting(NameSet(everything=True), (origin,))
            return Selection(((("deny_tools", channel), everything),))
        return Selection(
            tuple(
                ((field, channel), replace(setting, origins=(f"{origin}: {', '.join(setting.origins)}",)))
                for (field, _), setting in held[0].slots
            )
        )

    def has(self, name: str) -> bool:
        """Whether the user's file has a profile of this name."""
        return any(file.channel == "file" and fold(name) in file.profiles for file in self.files)

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


def _moved(profile: Selection, to: Mapping[Channel, Channel], side: Side = "operator") -> Selection:
    """Return a profile's settings moved to other channels; what the operator wrote stays marked as not the caller's."""
    slots = (
        ((field, to.get(channel, channel)), replace(setting, side=side)) for (field, channel), setting in profile.slots
    )
    return Selection(tuple(slots))


def _over(lower: Selection, upper: Selection) -> Selection:
    """Merge two selections; the upper's settings replace the lower's of the same channel, unless the field adds up."""
    replaced = {slot for slot, _ in upper.slots if slot[0] not in _ADDING_UP}
    return merge(Selection(tuple(entry for entry in lower.slots if entry[0] not in replaced)), upper)


def _named(selection: Selection, channels: Sequence[Channel]) -> dict[Channel, tuple[str, Setting]]:
    """Return each channel's profile, if any, with the setting that names it; the lowest channel first."""
    settings = ((channel, selection.get("profile", channel)) for channel in channels)
    return {
        channel: (setting.value[0], setting)
        for channel, setting in settings
        if setting is not None and isinstance(setting.value, tuple)
    }

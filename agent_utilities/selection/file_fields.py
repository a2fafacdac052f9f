"""What a settings file says, read from its parsed table: a selection, named profiles, and other settings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agent_utilities.errors import SelectionError
from agent_utilities.selection.channels import FIELDS, field_of, given_elsewhere, near_miss
from agent_utilities.selection.model import NOTHING, Selection, fold
from agent_utilities.selection.nearest import nearest
from agent_utilities.selection.parse import read_pairs, text_of
from agent_utilities.selection.values import MAX_PROFILE_NAME

FileChannel = Literal["file", "project"]
"""Whose a file is: the user's, or the working folder's, which may be somebody else's work."""

PROFILES = "profiles"
"""The key of the table of profiles."""
NO_PROFILE = "none"
"""The name that stands for no profile."""

_RESERVED = frozenset((NO_PROFILE, "all"))
_STEMS = sorted(stem for row in FIELDS if "file" in row.channels for stem in row.stems)


@dataclass(frozen=True, slots=True)
class FileSetting:
    """A setting that is no selection field, as a file has it.

    Args:
        value: as TOML has it.
        source: the file and the key, as errors name them.
    """

    value: object
    source: str


@dataclass(frozen=True, slots=True)
class FileFields:
    """What one file says.

    Args:
        name: the file, as people read it.
        channel: whose it is.
        selection: its selection fields, outside of profiles.
        profiles: the selection of each profile, by folded name.
        settings: its other settings, by name.
    """

    name: str
    channel: FileChannel
    selection: Selection = NOTHING
    profiles: Mapping[str, Selection] = field(default_factory=dict)
    settings: Mapping[str, FileSetting] = field(default_factory=dict)


def read_fields(table: Mapping[str, Any], name: str, channel: FileChannel, settings: Collection[str]) -> FileFields:
    """Return what a file says; nothing in it is passed over, for all of it is ours.

    Args:
        table: the file, parsed.
        name: the file, as people read it.
        channel: whose it is.
        settings: the names of settings that are no selection fields.

    Raises:
        SelectionError: a key is unknown, or a value can't be read.
    """
    place = f"file {name}: "
    fields = {key: value for key, value in table.items() if field_of(key, channel) is not None}
    others: dict[str, FileSetting] = {}
    for key, value in table.items():
        plain = key.lower().replace("-", "_")
        if key in fields or plain == PROFILES:
            continue
        if plain not in settings:
            raise _unknown(key, channel, place, [*_STEMS, *settings, PROFILES])
        if plain in others:
            raise SelectionError("given twice", key, f"{place}{key}", "keep one of them")
        others[plain] = FileSetting(value, f"{place}{key}")
    others = {name: setting for name, setting in others.items() if not _is_blank(setting.value)}
    profiles = [value for key, value in table.items() if key.lower() == PROFILES]
    read = dict(_profiles(profiles[0], channel, place)) if profiles else {}
    return FileFields(name, channel, _selection(fields, channel, place), read, others)


def _is_blank(value: object) -> bool:
    return isinstance(value, str) and not value.strip()


def _profiles(given: object, channel: FileChannel, place: str) -> Iterator[tuple[str, Selection]]:
    hint = 'write each as a table, such as [profiles.review] with tools = ["git_log"] in it'
    if not isinstance(given, Mapping):
        raise SelectionError("not a table", given, f"{place}{PROFILES}", hint)
    taken: set[str] = set()
    for name, table in given.items():
        source = f"{place}{PROFILES}.{name}"
        folded = _profile_name(name, source)
        if folded in taken:
            raise SelectionError("a profile of this name stands before it", name, source, "keep one of them")
        taken.add(folded)
        if not isinstance(table, Mapping):
            raise SelectionError("not a table", table, source, hint)
        for key in table:
            row = field_of(key, channel)
            if row is not None and row.name == "profile":
                raise SelectionError("a profile in a profile", key, f"{source}.{key}", "write its fields here")
            if row is None:
                raise _unknown(key, channel, f"{source}.", [stem for stem in _STEMS if stem != "profile"])
        yield folded, _selection(table, channel, f"{source}.")


def _profile_name(name: str, source: str) -> str:
    folded = fold(name)
    if not name.isprintable() or name != name.strip() or not name or len(name) > MAX_PROFILE_NAME:
        hint = f"use up to {MAX_PROFILE_NAME} characters that can be printed"
        raise SelectionError("not a profile's name", name, source.encode("unicode_escape").decode(), hint)
    if folded in _RESERVED or "," in name or "*" in name:
        raise SelectionError("not a profile's name", name, source, "use another: no comma, no *, not all or none")
    return folded


def _selection(table: Mapping[str, Any], channel: FileChannel, place: str) -> Selection:
    pairs: list[tuple[str, str]] = []
    for key, value in table.items():
        row = field_of(key, channel)
        assert row is not None, "unknown keys are refused before"
        pairs.append((key, text_of(value, row, f"{place}{key}")))
    return read_pairs(pairs, channel, place=place)


def _unknown(key: str, channel: FileChannel, place: str, known: Collection[str]) -> SelectionError:
    source = f"{place}{key}"
    if (elsewhere := given_elsewhere(key, channel)) is not None:
        return SelectionError(f"{elsewhere.name} is for callers to give", key, source, elsewhere.hint)
    meant = near_miss(key, channel) or nearest(key.lower().replace("-", "_"), known)
    return SelectionError("unknown key", key, source, f"did you mean {meant}?" if meant else "remove it")

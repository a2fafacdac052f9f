"""One bundle: a folder with a provider's file, and the sentences that call for it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from agent_utilities.capabilities.bundle_file import BundleFileError, parsed, read_text
from agent_utilities.capabilities.model import Capability
from agent_utilities.capabilities.notes import Notes
from agent_utilities.capabilities.provider_choice import CONFIG, DEFAULT, chosen_file, provider_names
from agent_utilities.capabilities.provider_file import read_provider, titles
from agent_utilities.capabilities.table_reader import TableReader

MAX_TRIGGERS = 200
"""The most triggers of one capability."""
MAX_TRIGGER = 1000
"""The longest trigger, in characters."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z")
_RESERVED = ("all", "none")


@dataclass(frozen=True, slots=True)
class _Config:
    title: str = ""
    description: str = ""
    triggers: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()


def is_capability_name(name: str) -> bool:
    """Whether a text can be a capability's name; `all` and `none` mean something else to a caller's list."""
    return bool(_NAME.match(name)) and name.lower() not in _RESERVED


def read_bundle(folder: Path, wanted: str, notes: Notes) -> Capability | None:
    """Return the capability that a folder describes; None where something is wrong with it, all of which is told.

    Args:
        folder: the bundle's, whose name is the capability's.
        wanted: the provider that the user chose; empty for the default.
        notes: what is told is added here.
    """
    n_before = len(notes.problems)
    try:
        names = provider_names(folder)
    except OSError as error:
        notes.problem(folder, f"can't be listed ({(error.strerror or str(error)).lower()})", "make it readable")
        return None
    notes.files += [folder / CONFIG, folder / DEFAULT, *(folder / f"{name}.toml" for name in names)]
    config = _config(folder, notes)
    if config.triggers and not names and not wanted and not os.path.lexists(folder / DEFAULT):
        notes.notice(folder, "has no provider: words lead to it, and it can't be switched on; add a PROVIDER.toml")
        return _without_provider(folder, config) if len(notes.problems) == n_before else None
    try:
        file = chosen_file(folder, names, wanted)
    except BundleFileError as error:
        notes.problem(folder, error.what, error.hint)
        return None
    capability = _capability(folder, file, config, notes)
    return capability if len(notes.problems) == n_before else None


def _config(folder: Path, notes: Notes) -> _Config:
    path = folder / CONFIG
    if not path.exists() and not path.is_symlink():
        return _Config()
    try:
        text = read_text(path, folder)
        told = parsed(text)
    except BundleFileError as error:
        notes.problem(path, error.what, error.hint)
        return _Config()
    table = TableReader(told, str(path), notes)
    table.knows(("title", "description", "triggers", "domains"))
    triggers = table.texts("triggers", '["browse a website"]')
    if len(triggers) > MAX_TRIGGERS:
        notes.notice(table.where("triggers"), f"has {len(triggers)}; the first {MAX_TRIGGERS} are taken")
    if any(len(trigger) > MAX_TRIGGER for trigger in triggers):
        notes.notice(table.where("triggers"), f"has some of over {MAX_TRIGGER} characters, which are cut")
    cut = tuple(dict.fromkeys(trigger[:MAX_TRIGGER].rstrip() for trigger in triggers[:MAX_TRIGGERS]))
    return _Config(*titles(table, text), cut, table.texts("domains", '["developer"]'))


def _without_provider(folder: Path, config: _Config) -> Capability:
    """Return a capability that words lead to and that brings nothing along yet."""
    return Capability(
        name=folder.name,
        source=str(folder / CONFIG),
        folder=folder,
        title=config.title,
        description=config.description,
        triggers=config.triggers,
        domains=config.domains,
    )


def _capability(folder: Path, file: Path, config: _Config, notes: Notes) -> Capability | None:
    try:
        text = read_text(file, folder)
        told = parsed(text)
    except BundleFileError as error:
        notes.problem(file, error.what, error.hint)
        return None
    provider = read_provider(text, told, str(file), f"{folder.name}/{file.name}", notes)
    if provider is None:
        return None
    return Capability(
        name=folder.name,
        source=str(file),
        folder=folder,
        title=provider.title or config.title,
        description=provider.description or config.description,
        provider=file.stem,
        triggers=config.triggers,
        domains=config.domains,
        require=provider.require,
        server_refs=provider.server_refs,
        allowed_tools=provider.allowed_tools,
        servers=provider.servers,
        built_in=provider.built_in,
    )

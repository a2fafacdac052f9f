"""One bundle: a folder with the files of its providers, of which one holds, and the sentences that call for it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from agent_utilities.capabilities.bundle_file import (
    BundleFileError,
    Notes,
    TableReader,
    parsed,
    quoted,
    read_text,
    real_path,
)
from agent_utilities.capabilities.model import Capability
from agent_utilities.capabilities.provider import read_provider, titles

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


CONFIG, DEFAULT = "config.toml", "default.toml"
_SUFFIX = ".toml"
_NO_NAME = re.compile(r"[=\[\]#\n\"']")
_LEADS_ELSEWHERE = re.compile(r"[/\\\0]|\A\.\.?\Z|\A[A-Za-z]:")


def provider_names(folder: Path) -> tuple[str, ...]:
    """Return the names of a bundle's providers: its files without `.toml`, sorted.

    Raises:
        OSError: the folder can't be listed.
    """
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if entry.name.endswith(_SUFFIX))
    kept = [name for name in names if name not in (CONFIG, DEFAULT) and not name.startswith(".")]
    return tuple(name.removesuffix(_SUFFIX) for name in kept)


def chosen_file(folder: Path, names: tuple[str, ...], wanted: str) -> Path:
    """Return the provider's file that holds.

    Args:
        folder: the bundle's.
        names: its providers.
        wanted: the provider that the user chose; empty for none.

    Raises:
        BundleFileError: there is none, several and no default, or what the default or the user names is not there.
    """
    default = folder / DEFAULT
    if wanted and wanted.removesuffix(_SUFFIX) != "default":
        return _named(folder, names, wanted, "is the provider that is chosen, and there is no such one")
    if os.path.lexists(default):
        return _default(folder, default, names)
    if len(names) == 1:
        return folder / f"{names[0]}{_SUFFIX}"
    if not names:
        raise BundleFileError("has no provider", "put a PROVIDER.toml there")
    raise BundleFileError(f"has several providers and no {DEFAULT}", f"write one of {_list(names)} into {DEFAULT}")


def _default(folder: Path, default: Path, names: tuple[str, ...]) -> Path:
    if default.is_symlink():
        real = real_path(default, folder)
        if real.parent != Path(os.path.realpath(folder)) or real.name == CONFIG:
            raise BundleFileError(f"{DEFAULT} leads to no provider", f"point it at one of {_list(names)}")
        return folder / real.name
    text = read_text(default, folder).strip()
    if not text:
        raise BundleFileError(f"{DEFAULT} is empty", f"write one of {_list(names)} into it")
    if _NO_NAME.search(text):
        return default
    return _named(folder, names, text, f"stands in {DEFAULT}, and is no provider")


def _named(folder: Path, names: tuple[str, ...], text: str, what: str) -> Path:
    name = text.removeprefix("./").removesuffix(_SUFFIX)
    if name in names:
        return folder / f"{name}{_SUFFIX}"
    if _LEADS_ELSEWHERE.search(name):
        what = f"{what}: it leads out of the folder" if "leads" not in what else what
    raise BundleFileError(f"{quoted(text)} {what}", f"name one of {_list(names)}")


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(names[:10]) or "none: it has no PROVIDER.toml"

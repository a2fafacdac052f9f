"""One bundle: a folder with the files of its providers, of which one holds, and the sentences that call for it."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

from agent_utilities.capabilities.bundle_file import BundleFileError, Notes, quoted, read_text, real_path
from agent_utilities.capabilities.model import Capability
from agent_utilities.capabilities.provider import ConfigTable, ProviderTable, read_table, requirements_of, servers_in

MAX_TRIGGERS = 200
"""The most triggers of one capability."""
MAX_TRIGGER = 1000
"""The longest trigger, in characters."""
CONFIG, DEFAULT = "config.toml", "default.toml"

_SUFFIX = ".toml"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z")
_RESERVED = ("all", "none")
_NO_NAME = re.compile(r"[=\[\]#\n\"']")
_LEADS_ELSEWHERE = re.compile(r"[/\\\0]|\A\.\.?\Z|\A[A-Za-z]:")


def is_capability_name(name: str) -> bool:
    """Whether a text can be a capability's name; `all` and `none` mean something else to a caller's list."""
    return bool(_NAME.match(name)) and name.lower() not in _RESERVED


def read_bundle(folder: Path, tap: Path, wanted: str, notes: Notes) -> Capability | None:
    """Return the capability that a folder of a tap describes; None where anything is wrong, all of which is told.

    `wanted` is the provider that the user chose; empty for the default.
    """
    n_before = len(notes.problems)
    try:
        names = _provider_names(folder)
    except OSError as error:
        notes.problem(folder, f"can't be listed ({(error.strerror or str(error)).lower()})", "make it readable")
        return None
    notes.files += [folder / CONFIG, folder / DEFAULT, *(folder / f"{name}.toml" for name in names)]
    capability = _routed_to(folder, tap, notes)
    if capability.triggers and not names and not wanted and not os.path.lexists(folder / DEFAULT):
        notes.notice(folder, "has no provider: words lead to it, and it can't be switched on; add a PROVIDER.toml")
    else:
        try:
            file = _chosen_file(folder, names, wanted)
        except BundleFileError as error:
            notes.problem(folder, error.what, error.hint)
            return None
        if (provider := read_table(ProviderTable, file, folder, notes)) is None:
            return None
        servers, built_in = servers_in(provider, file, notes)
        capability = replace(
            capability,
            source=str(file),
            title=provider.title or capability.title,
            description=provider.description or capability.description,
            provider=file.stem,
            require=requirements_of(provider, file, notes),
            server_refs=tuple(provider.roles.mcp.server_refs),
            # The taps mean every tool by an empty list, as by none.
            allowed_tools=tuple(provider.roles.mcp.allowed_tools) or None,
            servers=servers,
            built_in=built_in,
        )
    return capability if len(notes.problems) == n_before else None


def _routed_to(folder: Path, tap: Path, notes: Notes) -> Capability:
    """Return what `config.toml` says of a capability: what calls for it, and nothing that it brings along."""
    path, config = folder / CONFIG, ConfigTable()
    if os.path.lexists(path):
        config = read_table(ConfigTable, path, folder, notes) or config
    triggers, where = config.triggers, f"{path}: triggers"
    if len(triggers) > MAX_TRIGGERS:
        notes.notice(where, f"has {len(triggers)}; the first {MAX_TRIGGERS} are taken")
    if any(len(trigger) > MAX_TRIGGER for trigger in triggers):
        notes.notice(where, f"has some of over {MAX_TRIGGER} characters, which are cut")
    return Capability(
        name=folder.name,
        source=str(path),
        tap=tap,
        title=config.title,
        description=config.description,
        triggers=tuple(dict.fromkeys(trigger[:MAX_TRIGGER].rstrip() for trigger in triggers[:MAX_TRIGGERS])),
        domains=tuple(config.domains),
    )


def _provider_names(folder: Path) -> tuple[str, ...]:
    """Return the names of a bundle's providers: its files without `.toml`, sorted."""
    names = sorted(name for name in os.listdir(folder) if name.endswith(_SUFFIX))
    kept = [name for name in names if name not in (CONFIG, DEFAULT) and not name.startswith(".")]
    return tuple(name.removesuffix(_SUFFIX) for name in kept)


def _chosen_file(folder: Path, names: tuple[str, ...], wanted: str) -> Path:
    """Return the file that holds of some providers: the user's choice, the default, or the only one."""
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
    """Return the provider that `default.toml` links to, names, or is."""
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
        what = f"{what}: it leads out of the folder"
    raise BundleFileError(f"{quoted(text)} {what}", f"name one of {_list(names)}")


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(names[:10]) or "none: it has no PROVIDER.toml"

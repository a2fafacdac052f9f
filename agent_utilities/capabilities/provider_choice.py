"""Which of a bundle's files holds: what its default names, the only one there is, or what the user chose."""

from __future__ import annotations

import os
import re
from pathlib import Path

from agent_utilities.capabilities.bundle_file import BundleFileError, read_text, real_path
from agent_utilities.capabilities.notes import quoted

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

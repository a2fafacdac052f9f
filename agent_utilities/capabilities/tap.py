"""Every capability of some folders, each a tap or the folder of its bundles; a bad bundle costs none of the others."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agent_utilities.capabilities.bundle import is_capability_name, read_bundle
from agent_utilities.capabilities.bundle_file import BundleFileError, Notes, quoted, real_path
from agent_utilities.capabilities.model import Capabilities, Capability
from agent_utilities.errors import InputError

BUNDLES = "capabilities"
"""The folder of a tap that has its bundles; `deps/` stands beside it."""
MAX_BUNDLES = 1000
"""The most bundles that are read of one folder."""


def read_capabilities(folders: Sequence[Path], *, providers: Mapping[str, str] = {}) -> Capabilities:
    """Return the capabilities of some folders, a later folder's in the place of an earlier one's of its name.

    Each folder is a tap, which has `capabilities/`, or itself that of the bundles. A bundle that anything is wrong with
    is left out, and so is an earlier folder's of its name: what was written over must not come back by a mistake.

    Raises:
        InputError: a folder is not there, or can't be listed.
    """
    notes, by_name = Notes(), dict[str, Capability | None]()
    for folder in folders:
        bundles, tap = _places(folder)
        found = _bundles(bundles, notes)
        if not found:
            notes.notice(folder, "has no capabilities; each is a folder with a PROVIDER.toml")
        for path in found:
            by_name.pop(path.name, None)
            by_name[path.name] = read_bundle(path, tap, providers.get(path.name, ""), notes)
        notes.files.append(bundles)
    for name in sorted(providers.keys() - by_name.keys()):
        notes.notice(f"capabilities.{name}", "there is no capability of this name, whose provider is chosen")
    taken = {name: capability for name, capability in by_name.items() if capability is not None}
    return Capabilities(
        by_name=taken,
        problems=tuple(notes.problems),
        notices=notes.all_notices(),
        files=tuple(dict.fromkeys(notes.files)),
        broken=frozenset(by_name.keys() - taken.keys()),
    )


def _places(folder: Path) -> tuple[Path, Path]:
    """Return the folder of the bundles, and the one that `deps/` stands in."""
    if (bundles := folder / BUNDLES).is_dir():
        return bundles, folder
    return folder, folder.parent if folder.name == BUNDLES else folder


def _bundles(folder: Path, notes: Notes) -> list[Path]:
    """Return the folders of the bundles, sorted."""
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        what, hint = f"a folder of capabilities can't be read ({reason})", "name the folder that has capabilities/"
        raise InputError(what, str(folder), "folders of capabilities", f"{hint}, or that one") from None
    found = [path for name in names if _is_bundle(path := folder / name, folder, notes)]
    if len(found) > MAX_BUNDLES:
        notes.problem(folder, f"has {len(found)} bundles", f"{MAX_BUNDLES} are the most; the first are taken")
    return found[:MAX_BUNDLES]


def _is_bundle(path: Path, folder: Path, notes: Notes) -> bool:
    """Whether a path is a bundle's folder; tell of one that would be, and can't."""
    try:
        if path.is_symlink():
            real_path(path, folder)
        if not path.is_dir():
            return False
        has_files = any(name.endswith(".toml") for name in os.listdir(path))
    except BundleFileError as error:
        notes.problem(path, error.what, error.hint)
        return False
    except OSError:
        has_files = True  # what is wrong with it is told when it is read
    if has_files and not is_capability_name(path.name):
        hint = "rename it: up to 128 letters, digits, `-`, `_` or `.`, and neither `all` nor `none`"
        notes.problem(folder, f"{quoted(path.name)} can't be a capability's name", hint)
        return False
    return has_files


def edited(before: Capabilities, now: Capabilities) -> Capabilities:
    """Return what the folders say now, with what can't be taken of it as it was before.

    A bundle that something is wrong with stays as it was, and so does one whose provider's file is empty for now:
    editors write a file in several steps, and who has it on would lose it in the middle of their work. One whose folder
    is gone is gone.
    """
    kept = {
        name: was
        for name, was in before.by_name.items()
        if name in now.broken or (name in now.by_name and _brings(was) and not _brings(now.by_name[name]))
    }
    return replace(now, by_name={**now.by_name, **kept})


def _brings(capability: Capability) -> bool:
    return bool(capability.servers or capability.server_refs or capability.require)


STARTER = "starter"
"""What names the folder of the capabilities that come with the package."""


def starter_tap() -> Path:
    """Return the folder of the starter tap, which has `capabilities/` and `deps/` as every tap has."""
    return Path(__file__).parent / "starter"


def folder_named(text: str) -> Path:
    """Return the folder that an option or a setting names: `starter` for that of the package, unless one is there."""
    path = Path(text).expanduser()
    return starter_tap() if text == STARTER and not path.exists() else path

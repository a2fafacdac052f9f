"""Read every capability of some folders, each a tap or the folder of its bundles; a bad bundle affects no other.

A bundle is a folder with the files of its providers, one of which holds, and its triggers.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agent_utilities.errors import InputError
from agent_utilities.gateway.capabilities import bundle_file
from agent_utilities.gateway.capabilities.bundle_file import ConfigTable, Notes, ProviderTable, ServerTable
from agent_utilities.gateway.capabilities.model import Capabilities, Capability, CapabilityServer
from agent_utilities.gateway.upstreams.configuration.config_text import refuse
from agent_utilities.gateway.upstreams.configuration.server_entry import Reader
from agent_utilities.gateway.upstreams.configuration.variables import Reading
from agent_utilities.gateway.upstreams.errors import ConfigError
from agent_utilities.runtime.process_io import expanded
from agent_utilities.runtime.shown import shown

BUNDLES = "capabilities"
"""The folder of a tap that has its bundles; `deps/` stands beside it."""
MAX_TRIGGERS = 200
"""The most triggers of one capability."""
MAX_TRIGGER = 1000
"""The longest trigger, in characters."""
BUILT_IN = "builtin"
"""The type of a server that is part of another host."""
CONFIG, DEFAULT = "config.toml", "default.toml"

_SUFFIX = ".toml"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z")
_NO_NAME = re.compile(r"[=\[\]#\n\"']")


def is_capability_name(name: str) -> bool:
    """Whether a text can be a capability's name; `all` and `none` mean something else to a caller's list."""
    return bool(_NAME.match(name)) and name.lower() not in ("all", "none")


def read_capabilities(folders: Sequence[Path], *, providers: Mapping[str, str] = {}) -> Capabilities:
    """Return the capabilities of some folders, a later folder's in the place of an earlier one's of its name.

    Each folder is a tap, which has `capabilities/`, or itself that of the bundles. A bundle with an error is left out,
    and so is an earlier folder's of its name: what was overridden must not come back by a mistake.

    Raises:
        InputError: a folder is not there, or can't be listed.
    """
    notes, by_name = Notes(), dict[str, Capability | None]()
    for folder in folders:
        bundles = folder / BUNDLES if (folder / BUNDLES).is_dir() else folder
        tap = bundles.parent if bundles.name == BUNDLES else bundles  # the folder that `deps/` stands in
        paths = _bundles(bundles, notes)
        if not paths:
            notes.notice(folder, "has no capabilities; each is a folder with a PROVIDER.toml")
        for path in paths:
            by_name.pop(path.name, None)
            by_name[path.name] = _read_bundle(path, tap, providers.get(path.name, ""), notes)
        notes.files.append(bundles)
    for name in sorted(providers.keys() - by_name.keys()):
        notes.notice(f"capabilities.{name}", "there is no capability of this name, whose provider is chosen")
    taken = {name: capability for name, capability in by_name.items() if capability is not None}
    return Capabilities(
        by_name=taken,
        problems=tuple(notes.problems),
        notices=tuple(notes.notices[: bundle_file.MOST_NOTICES]),
        files=tuple(dict.fromkeys(notes.files)),
        broken=frozenset(by_name.keys() - taken.keys()),
    )


def _bundles(folder: Path, notes: Notes) -> list[Path]:
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except (OSError, ValueError) as error:
        what = f"a folder of capabilities can't be read ({bundle_file.reason(error)})"
        hint = "name the folder that has capabilities/, or that one"
        raise InputError(what, str(folder), "folders of capabilities", hint) from None
    return [path for name in names if _is_bundle(path := folder / name, folder, notes)]


def _is_bundle(path: Path, folder: Path, notes: Notes) -> bool:
    """Whether a path is a bundle's folder; one that would be but has an error is added to the notes."""
    try:
        if path.is_symlink():
            bundle_file.real_path(path, folder)
        if not path.is_dir():
            return False
        has_files = any(name.endswith(_SUFFIX) for name in os.listdir(path))
    except ConfigError as error:
        notes.problem(path, error.what, error.hint)
        return False
    except OSError:
        has_files = True  # the error is reported when it is read
    if has_files and not is_capability_name(path.name):
        hint = "rename it: up to 128 letters, digits, `-`, `_` or `.`, and neither `all` nor `none`"
        notes.problem(folder, f"{shown(path.name)!r} can't be a capability's name", hint)
        return False
    return has_files


# -- one bundle --------------------------------------------------------------------------------------------------------


def _read_bundle(folder: Path, tap: Path, wanted: str, notes: Notes) -> Capability | None:
    """Return the capability that a tap's folder describes; None where it has errors, all of which the notes get.

    `wanted` is the provider that the user chose; empty for the default.
    """
    n_before = len(notes.problems)
    try:
        files = sorted(name for name in os.listdir(folder) if name.endswith(_SUFFIX) and not name.startswith("."))
    except OSError as error:
        notes.problem(folder, f"can't be listed ({bundle_file.reason(error)})", "make it readable")
        return None
    names = tuple(name.removesuffix(_SUFFIX) for name in files if name not in (CONFIG, DEFAULT))
    notes.files += [folder / CONFIG, folder / DEFAULT, *(folder / f"{name}.toml" for name in names)]
    file, config, provider = folder / CONFIG, ConfigTable(), ProviderTable()
    if os.path.lexists(file):
        config = bundle_file.read_table(ConfigTable, file, folder, notes) or config
    triggers = _triggers(config.triggers, f"{file}: triggers", notes)
    if triggers and not names and not wanted and not os.path.lexists(folder / DEFAULT):
        notes.notice(folder, "has no provider: words lead to it, and it can't be switched on; add a PROVIDER.toml")
    else:
        try:
            file = _chosen_file(folder, names, wanted)
        except ConfigError as error:
            notes.problem(folder, error.what, error.hint)
            return None
        if (read := bundle_file.read_table(ProviderTable, file, folder, notes)) is None:
            return None
        provider = read
    tables = [each for each in provider.mcp.servers if each.type != BUILT_IN]
    capability = Capability(
        name=folder.name,
        source=str(file),
        tap=tap,
        title=provider.title or config.title,
        description=provider.description or config.description,
        provider="" if file.name == CONFIG else file.stem,
        triggers=triggers,
        domains=tuple(config.domains),
        require=tuple(provider.deps.require),
        server_refs=tuple(provider.roles.mcp.server_refs),
        # The taps mean every tool by an empty list, as by none.
        allowed_tools=tuple(provider.roles.mcp.allowed_tools) or None,
        servers=_servers(tables, file, notes),
        built_in=tuple(dict.fromkeys(each.name for each in provider.mcp.servers if each.type == BUILT_IN)),
    )
    return capability if len(notes.problems) == n_before else None


def _triggers(triggers: Sequence[str], where: str, notes: Notes) -> tuple[str, ...]:
    """Return the triggers within the limits; the notes say what is dropped."""
    if len(triggers) > MAX_TRIGGERS:
        notes.notice(where, f"has {len(triggers)}; the first {MAX_TRIGGERS} are taken")
    if any(len(trigger) > MAX_TRIGGER for trigger in triggers):
        notes.notice(where, f"has some of over {MAX_TRIGGER} characters, which are cut")
    return tuple(dict.fromkeys(trigger[:MAX_TRIGGER].rstrip() for trigger in triggers[:MAX_TRIGGERS]))


def _chosen_file(folder: Path, names: tuple[str, ...], wanted: str) -> Path:
    """Return the provider's file that holds: the user's choice, the default, or the only one.

    The default is what `default.toml` links to, names, or is.
    """
    default, listed = folder / DEFAULT, ", ".join(names[:10]) or "none: it has no PROVIDER.toml"
    what = "is the provider that is chosen, and there is no such one"
    if not wanted or wanted.removesuffix(_SUFFIX) == "default":
        if not os.path.lexists(default):
            if len(names) == 1:
                return folder / f"{names[0]}{_SUFFIX}"
            if not names:
                refuse("has no provider", folder, "put a PROVIDER.toml there")
            refuse(f"has several providers and no {DEFAULT}", folder, f"write one of {listed} into {DEFAULT}")
        if default.is_symlink():
            real = bundle_file.real_path(default, folder)
            if real.parent != Path(os.path.realpath(folder)) or real.name == CONFIG:
                refuse(f"{DEFAULT} leads to no provider", folder, f"point it at one of {listed}")
            return folder / real.name
        wanted, what = bundle_file.read_within(default, folder).strip(), f"stands in {DEFAULT}, and is no provider"
        if not wanted:
            refuse(f"{DEFAULT} is empty", folder, f"write one of {listed} into it")
        if _NO_NAME.search(wanted):
            return default
    name = wanted.removeprefix("./").removesuffix(_SUFFIX)
    if name not in names:
        refuse(f"{shown(wanted)!r} {what}", folder, f"name one of {listed}")
    return folder / f"{name}{_SUFFIX}"


_VARIABLE = re.compile(r"\{\{(?:ENV|INPUT):([A-Za-z_][A-Za-z0-9_]*)\}\}")
_PLACEHOLDER = re.compile(r"\{\{[A-Z]+(?::[^{}]*)?\}\}")


def _servers(tables: Sequence[ServerTable], path: Path, notes: Notes) -> tuple[CapabilityServer, ...]:
    """Return the servers of a provider's file; each is read once as an `mcp.json`'s is, to find its errors."""
    # Variables are filled in when the servers are placed on a gateway.
    reader = Reader(Reading({}, path.parent, path.parent, is_in_seconds=True, keeps_references=True))
    servers = dict[str, CapabilityServer]()
    for table in tables:
        name, where = table.name, f"{path}: mcp.servers.{table.name}"
        if ":" in name:  # it ends a server's name in a pattern
            notes.problem(where, f"{shown(name)!r} can't be a server's name", "write it without `:`")
        if name in servers:
            notes.problem(f"{where}.name", f"{shown(name)!r} stands twice", "rename one of the two")
        entry = dict(table.model_extra or {})
        if table.type:
            entry["type"] = "stdio" if table.type == "stdin" else table.type
        # `{{INPUT:VAR}}` another host would ask its user for. What a variable holds is not looked into for more.
        text = _VARIABLE.sub(r"${env:\1}", json.dumps(entry, ensure_ascii=False, default=str))
        text = text.replace("{{CWD}}", "${workspaceFolder}")
        for placeholder in dict.fromkeys(_PLACEHOLDER.findall(text)):
            notes.notice(where, f"{placeholder} means nothing here, and is taken as it stands")
        entry = json.loads(text)
        reader.read(name, entry, where)
        source = f"{path.parent.name}/{path.name}: mcp.servers.{name}"
        servers[name] = CapabilityServer(name, entry, tuple(table.tools), source)
    notes.problems += reader.problems
    notes.notices += reader.notices
    return tuple(servers.values())


# -- edits, and the tap that comes along -------------------------------------------------------------------------------


def edited(before: Capabilities, now: Capabilities) -> Capabilities:
    """Return the capabilities after an edit, with those that have errors as they were before.

    A bundle with an error stays as it was, and so does one whose provider's file is empty for now: editors write a file
    in several steps, and callers who have it on would lose it in the middle of their work. A bundle whose folder was
    removed is removed.
    """
    kept = {
        name: was
        for name, was in before.by_name.items()
        if name in now.broken or (name in now.by_name and _brings(was) and not _brings(now.by_name[name]))
    }
    return replace(now, by_name={**now.by_name, **kept})


def _brings(capability: Capability) -> bool:
    return bool(capability.servers or capability.server_refs or capability.require)


def starter_tap() -> Path:
    """Return the folder of the starter tap, which has `capabilities/` and `deps/` as every tap has."""
    return Path(__file__).parent / "starter"


def folder_named(text: str) -> Path:
    """Return the folder that an option or a setting names: `starter` for that of the package, unless one is there."""
    path = expanded(text)
    return starter_tap() if text == "starter" and not path.exists() else path

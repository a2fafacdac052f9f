"""The lock's file, beside the config: what was accepted, and its text, so that a review of the file shows the words."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from agent_utilities.runtime.whole_file import write_whole
from agent_utilities.upstream.operator.lock import KINDS, Accepted, Key, Lock, LockError

FORMAT = "agent-utilities lock 1"


def lock_path(config: Path) -> Path:
    """Return where the lock of a config file stands: `.mcp.lock.json` beside `.mcp.json`."""
    return config.with_name(f"{re.sub(r'[.]jsonc?$', '', config.name)}.lock.json")


def origin(path: Path, key: Key) -> str:
    """Return where in a lock's file a key stands, as explanations name it."""
    return f"{path.name}: {key}"


def read_lock(path: Path) -> Lock | None:
    """Return the lock in a file; None where there is no file, so that nothing is withheld.

    Raises:
        LockError: the file can't be read, or a value of it can't be taken. Nothing must be served then: what was
            accepted is not known.
    """
    try:
        content = json.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        _refuse(f"can't read the lock, {(error.strerror or 'refused').lower()}", "", path, "")
    except (ValueError, RecursionError) as error:
        _refuse(f"the lock is no JSON ({error})", "", path, "")
    form = _object(content, path, "").get("format")
    if form != FORMAT:
        _refuse("the lock is of another version", form, path, "format")
    accepted: dict[Key, Accepted] = {}
    for upstream, kinds in _object(content.get("upstreams"), path, "upstreams").items():
        where = f"upstreams.{upstream}"
        for kind, entries in _object(kinds, path, where).items():
            if kind not in KINDS:
                _refuse(f"a lock has none of these; it has {', '.join(KINDS)}", kind, path, where)
            for name, entry in _object(entries, path, f"{where}.{kind}").items():
                key = Key(upstream, kind, name)
                accepted[key] = _accepted(entry, path, f"{where}.{kind}.{name}")
    return Lock(accepted)


def write_lock(path: Path, lock: Lock) -> None:
    """Put a lock in place of what a file held: a reader finds the old or the new one, whole.

    Raises:
        LockError: it can't be written; the file is as it was.
    """
    upstreams: dict[str, dict[str, dict[str, Any]]] = {}
    for key in sorted(lock.accepted, key=lambda key: (key.upstream, KINDS.index(key.kind), key.name)):
        entry = lock.accepted[key]
        kinds = upstreams.setdefault(key.upstream, {})
        kinds.setdefault(key.kind, {})[key.name] = {"sha256": entry.sha256, "definition": entry.definition}
    # ASCII alone: characters that can't be seen are spelled out, for whoever reviews the file.
    text = json.dumps({"format": FORMAT, "upstreams": upstreams}, indent=2) + "\n"
    try:
        target = Path(os.path.realpath(path))
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o644  # it is reviewed and shared, no secret
        write_whole(target, text.encode(), mode=mode)
    except OSError as error:
        _refuse(f"can't write the lock, {(error.strerror or 'refused').lower()}", "", path, "")


def _accepted(entry: Any, path: Path, where: str) -> Accepted:
    content = _object(entry, path, where)
    hashed, definition = content.get("sha256"), _object(content.get("definition"), path, f"{where}.definition")
    if not isinstance(hashed, str) or not re.fullmatch(r"[0-9a-f]{64}", hashed):
        _refuse("not a hash", hashed, path, f"{where}.sha256")
    return Accepted(hashed, definition)


def _object(value: Any, path: Path, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        _refuse("not a JSON object", value, path, where)
    return value


def _refuse(what: str, value: object, path: Path, where: str) -> NoReturn:
    hint = "bring back the file as `agent-utilities gateway lock` wrote it, or delete it and run that again"
    raise LockError(what, value, f"{path}: {where}" if where else str(path), hint)

"""A JSON file of somebody else's: something is added to it, and nothing else in it is lost."""

from __future__ import annotations

import json
import os
import re
import shutil
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

from agent_utilities.errors import InputError
from agent_utilities.runtime.whole_file import write_whole


def add_entry(path: Path, key: str, name: str, entry: dict[str, Any], *, replace: bool) -> Path | None:
    """Add an entry to an object within a file's object; the file is made where there is none.

    The file is swapped whole, so that its reader sees the old or the new one, after the old was copied beside it.

    Args:
        path: the file; a link is followed, and stays.
        key: the inner object's key in the file's object; it is made where there is none.
        name: the entry's key.
        entry: what to add.
        replace: whether another entry of the name gives way.

    Returns:
        The copy of the old file; None where there was none, or the entry stood there already.

    Raises:
        InputError: the file is no JSON object, holds what can't be kept, or another entry of the name. It is as it was.
    """
    target = Path(os.path.realpath(path))
    before = _read(target)
    content = _parsed(before, path)
    entries = content.setdefault(key, {})
    if not isinstance(entries, dict):
        _refuse(f"{key!r} is no object", path)
    if entries.get(name) == entry:
        return None
    if name in entries and not replace:
        raise InputError(
            f"another {name!r} is there", str(path), "option --write", "add --replace to put this one in place"
        )
    entries[name] = entry
    after = _dumped(content, before or "", path)
    target.parent.mkdir(parents=True, exist_ok=True)
    copy = _copied(target) if before is not None else None
    if _read(target) != before:
        _refuse("changed while it was added to", path)
    mode = target.stat().st_mode & 0o7777 if target.exists() else 0o600
    write_whole(target, after.encode(), mode=mode)
    return copy


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        _refuse("not UTF-8", path)
    except OSError as error:
        _refuse(f"can't read the file, {(error.strerror or 'refused').lower()}", path)


def _parsed(text: str | None, path: Path) -> dict[str, Any]:
    if text is None or not text.strip("\ufeff \t\r\n"):
        return {}
    try:
        content = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_without_repeats, parse_constant=_constant)
    except ValueError as error:
        _refuse(f"not plain JSON ({error}), and comments or trailing commas could not be kept", path)
    except RecursionError:
        _refuse("nested too deep", path)
    if not isinstance(content, dict):
        _refuse("no JSON object", path)
    return content


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands twice in an object")
    return content


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _dumped(content: dict[str, Any], before: str, path: Path) -> str:
    """Return the new text, indented as the old one was."""
    indent = re.search(r"^[\ufeff\s]*\{\r?\n([ \t]+)\"", before)
    space: str | int = indent[1] if indent else 2
    try:
        text = json.dumps(content, indent=space, ensure_ascii=False, allow_nan=False) + "\n"
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can spell
        return json.dumps(content, indent=space, allow_nan=False) + "\n"
    except ValueError:
        _refuse("a number is too large to be kept", path)
    return text


def _copied(path: Path) -> Path:
    """Copy a file beside itself under a name that is free, its mode included."""
    for number in count():
        copy = path.with_name(f"{path.name}.bak{number or ''}")
        try:
            os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            continue
        shutil.copy2(path, copy)
        return copy
    raise AssertionError("count ends never")


def _refuse(what: str, path: Path) -> NoReturn:
    hint = "nothing was written; mend the file, or add by hand what is printed without --write"
    raise InputError(what, str(path), "option --write", hint)

"""Edit a client's configuration file: add a server's entry, and keep everything else."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from textwrap import dedent, indent
from typing import Any, NoReturn

from agent_utilities.errors import InputError
from agent_utilities.gateway.upstreams.configuration.config_text import MAX_YAML, form_of, parsed
from agent_utilities.gateway.upstreams.configuration.host_files import Host, by_name
from agent_utilities.gateway.upstreams.errors import ConfigError
from agent_utilities.runtime.process_io import open_regular, write_whole


def add_entry(path: Path, host: Host, name: str, entry: dict[str, Any], *, replace: bool) -> Path | None:
    """Add an entry to the servers in a host's file; both are created where they are missing.

    The file is copied beside itself and then replaced as a whole, so that a reader sees the old or the new one. A link
    is followed, and stays. A file whose content can't be kept is refused, and not changed. In TOML and YAML the entry
    is inserted as text, and accepted where the parsed file has what it had, and the entry.

    Return the copy; None where there was no file, or the entry stood there already.
    """
    target, form = Path(os.path.realpath(path)), form_of(path)
    before, content = content_of(target, path, host.new)
    servers = content.setdefault(host.key, [] if host.is_list and form == "YAML" else {})
    entries = by_name(servers) if host.is_list else servers
    if not isinstance(entries, dict):
        _refuse(f"{host.key!r} is no object", path)
    there, wanted = entries.get(name), {"name": name, **entry} if isinstance(servers, list) else entry
    if there == wanted:
        return None
    if there is not None and not replace:
        hint = "add --replace to put this one in place"
        raise InputError(f"another {name!r} is there", str(path), "option --write", hint)
    if isinstance(servers, list):
        servers.insert(0, wanted)
    else:
        servers[name] = wanted
    after = json_text(before, content, path) if form == "JSON" else _with(before, form, host, name, entry)
    try:
        is_put_in = form == "JSON" or (there is None and parsed(after.encode(), path) == content)
    except ConfigError:
        is_put_in = False
    if not is_put_in:
        _refuse("the entry can't be put in beside what is there", path)
    target.parent.mkdir(parents=True, exist_ok=True)
    copy = copied(target)
    write_whole(target, f"{after.rstrip()}\n".encode(), mode=target.stat().st_mode & 0o7777 if copy else 0o600)
    return copy


def numbered(path: Path, suffix: str) -> Iterator[Path]:
    """Yield the names that copies of a file have beside it, in order."""
    return (path.with_name(f"{path.name}{suffix}{number or ''}") for number in count())


def copied(target: Path) -> Path | None:
    """Copy a file beside itself, with its mode, and return the copy; None where there is no file."""
    if not target.exists():
        return None
    copy = next(copy for copy in numbered(target, ".bak") if not os.path.lexists(copy))
    shutil.copy2(target, copy)
    return copy


def json_text(before: str, content: dict[str, Any], path: Path) -> str:
    """Return an object as JSON, indented as before, and in ASCII where it was."""
    beside = re.search(r"^\s*\{\n([ \t]+)\"", before)
    try:
        return json.dumps(content, indent=beside[1] if beside else 2, ensure_ascii=before.isascii(), allow_nan=False)
    except ValueError:
        _refuse("a number is none, or too large to be kept", path)


def entry_text(form: str, host: Host, name: str, entry: Mapping[str, Any]) -> str:
    """Return the text of a file that has one entry and nothing else."""
    if form == "TOML":
        names = [json.dumps(f) + " = " + json.dumps(v) for f, v in entry.get("env", {}).items()]
        fields = {field: json.dumps(value) for field, value in entry.items()}
        fields |= {"env": f"{{ {', '.join(names)} }}"} if names else {}
        table = name if re.fullmatch(r"[\w-]+", name, re.ASCII) else json.dumps(name)
        return "\n".join([f"[{host.key}.{table}]", *(f"{field} = {value}" for field, value in fields.items())])
    entries = [{"name": name, **entry}] if host.is_list and form == "YAML" else {name: entry}
    if form == "JSON":
        return json.dumps({host.key: entries}, indent=2, ensure_ascii=False)
    from yaml import safe_dump  # as where it is read

    return str(safe_dump({host.key: entries}, sort_keys=False, allow_unicode=True, width=MAX_YAML))


def _with(before: str, form: str, host: Host, name: str, entry: Mapping[str, Any]) -> str:
    """Return TOML or YAML with an entry inserted: at the end, or as the first beneath an existing key."""
    text = entry_text(form, host, name, entry)
    key = rf"^({re.escape(host.key)}:)(?:[ \t]*(?:\{{\}}|\[\]|null|~))?([ \t]+#.*)?[ \t]*(?:\n|\Z)"
    there = re.search(key, before, re.MULTILINE)
    if form == "TOML" or not there:
        return f"{before.rstrip()}\n\n{text}".lstrip()
    block, rest = text.partition("\n")[2], before[there.end() :]
    beside = re.match(r"(?:[ \t]*(?:#.*)?\n)*( *)", rest)
    space = (beside[1] if beside else "") or ("" if host.is_list else "  ")
    return f"{before[: there.start()]}{there[1]}{there[2] or ''}\n{indent(dedent(block), space)}{rest}"


def content_of(file: Path, path: Path, new: str) -> tuple[str, dict[str, Any]]:
    """Return a file's content, as text and as an object; where there is no file, what a new one must have."""
    try:
        with open_regular(file) as opened:
            text = opened.read().decode("utf-8-sig").replace("\r\n", "\n")
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        _refuse(f"can't read the file, {error}", path)
    if form_of(path) != "JSON":
        text = text if text.strip() else new
        try:
            return text, parsed(text.encode(), path) if text.strip() else {}
        except ConfigError as error:
            _refuse(error.what, path)
    try:
        content = json.loads(text, object_pairs_hook=_without_repeats) if text.strip() else {}
    except ValueError as error:
        _refuse(f"not plain JSON ({error}), and comments or trailing commas could not be kept", path)
    if not isinstance(content, dict):
        _refuse("no JSON object", path)
    return text, content


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands twice in an object")
    return content


def _refuse(what: str, path: Path) -> NoReturn:
    hint = "nothing was written; mend the file, or add by hand what is printed without --write"
    raise InputError(what, str(path), "option --write", hint)

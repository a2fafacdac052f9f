"""`agent-utilities connect --move`: move a host's servers to a gateway's file, and back; each is always in a file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

from agent_utilities.cli.client_file import content_of, copied, json_text, numbered
from agent_utilities.errors import InputError
from agent_utilities.gateway.upstreams.config import UpstreamConfig
from agent_utilities.gateway.upstreams.configuration.config_files import digest, read_told
from agent_utilities.gateway.upstreams.configuration.config_text import form_of
from agent_utilities.gateway.upstreams.configuration.entry_values import fold
from agent_utilities.gateway.upstreams.configuration.host_files import Host, containers, is_kept_off, reading_of
from agent_utilities.gateway.upstreams.configuration.server_entry import BY_SPELLING, OF_HOSTS_ONLY
from agent_utilities.runtime.process_io import write_whole

_BY_HAND = "nothing was moved; move them by hand, and then `agent-utilities connect HOST --gateway FILE --write`"
_KEY = "mcpServers"
_PLAIN = {"enabled": "enabled", "timeout_s": "timeoutSeconds", "list_timeout_s": "listTimeoutSeconds"}
_ASKED = re.compile(r"\$\{(input|command|config|extensionInstallFolder):")
_KEPT_OFF = ("mcp.allowed", "mcp.excluded")
"""Lists of Gemini's by which a server is on or off; its state moves with it."""


def move_servers(
    place: Path, file: Path, host: Host, name: str, entry: dict[str, Any], *, replace: bool
) -> tuple[list[str], dict[str, str], list[str]]:
    """Move the servers of a host's file to a gateway's, and leave the gateway's entry in their place.

    Return which moved, why each other stays, and the settings of those that moved which no gateway has. Before the
    first file is replaced, each has a copy beside it, and the host's a record for `undo_move`; the gateway's file is
    replaced first.
    """
    (before, content), (own_before, own) = _opened(place, host.key), _opened(file, _KEY)
    moved, stays = _parted(place, content, file, own, host.key)
    if name in stays and content[host.key][name] != entry and not replace:
        _refuse(f"another {name!r} is there", place, "add --replace to put the gateway in its place")
    if not moved:
        why = "; ".join(f"{server!r} stays: {reason}" for server, reason in stays.items())
        _refuse("it has no server to move", place, why or _BY_HAND)
    own[_KEY] |= moved
    lost = [*_of_host_alone(moved), *_said_elsewhere({k: v for k, v in content.items() if k != host.key}, moved)]
    if is_kept_off(name, content):
        if is_kept_off(name, {"mcp": {"excluded": content["mcp"].get("excluded")}}):
            _refuse(
                f"its mcp.excluded keeps {name!r} off", place, "give the gateway another name, or take it out there"
            )
        content["mcp"]["allowed"].append(name)
    content[host.key] = {server: said for server, said in content[host.key].items() if server in stays} | {name: entry}
    _swap(place, {file: json_text(own_before, own, file), place: json_text(before, content, place)})
    return [*moved], {server: why for server, why in stays.items() if server != name}, lost


def _opened(path: Path, key: str) -> tuple[str, dict[str, Any]]:
    """Return a file's text, and its object with one under a key; refuse a file that could not be written back."""
    if form_of(path) != "JSON":
        _refuse(f"{form_of(path)} can't be written back as it was", path, _BY_HAND)
    try:
        text, content = content_of(Path(os.path.realpath(path)), path, "")
    except InputError as error:
        _refuse(error.what, path, _BY_HAND)
    if any(not where for where, _ in containers(content, Path.cwd())):
        _refuse("its servers stand under no key", path, f'put them under "{_KEY}"')
    if not isinstance(content.setdefault(key, {}), dict):
        _refuse(f"{key!r} is no object", path, _BY_HAND)
    return text, content


def _parted(
    place: Path, content: Mapping[str, Any], file: Path, own: Mapping[str, Any], key: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the entries of servers that the gateway's file reads alike, and why the others stay.

    An entry moves as it is written, where that reads alike; else with absolute folders, since relative ones would
    change, and variables as a gateway has them; else also with the host's own units and places translated.
    """
    folder, reads = Path.cwd(), partial(read_told, environ=os.environ, folder=Path.cwd(), keeps_references=True)
    fill = reading_of(place, content, os.environ, folder, keeps_references=True).fill
    moved, stays = dict[str, Any](), dict[str, str]()
    was_read = reads(place, content, files=[file])[0]
    for name, said in content[key].items():
        was = was_read.get(name)
        if was is None or _ASKED.search(json.dumps(said)):
            stays[name] = "it can't be read, or is the gateway itself" if was is None else "its host asks for a value"
            continue
        in_full = {**({"cwd": was.cwd} if was.cwd else {}), **_filled(said, fill)}
        forms = [said, in_full, _plainly(in_full, was)]
        if (there := own[_KEY].get(name)) is not None and there not in forms:
            stays[name] = f"{file} has another of its name"
            continue
        for form in forms:
            read = reads(file, {**own, _KEY: {name: form}}, files=[file])[0][name]
            if read is not None and _bare(read) == _bare(was):
                moved[name] = form
                break
        else:
            stays[name] = f"{file} would be read otherwise"
    return moved, stays


def _plainly(entry: Mapping[str, Any], upstream: UpstreamConfig) -> dict[str, Any]:
    """Return an entry whose state and timeouts are written as in a gateway's own file."""
    others = {name: value for name, value in entry.items() if _sets(name) not in _PLAIN}
    fields = {field: getattr(upstream, field) for field in _PLAIN}
    return others | {_PLAIN[f]: v for f, v in fields.items() if v != UpstreamConfig.model_fields[f].default}


def _sets(name: str) -> str:
    return key.sets if (key := BY_SPELLING.get(fold(name))) is not None else ""


def _of_host_alone(servers: Mapping[str, Any]) -> Iterator[str]:
    for name, said in servers.items():
        if names := [key for key in said if fold(key) in OF_HOSTS_ONLY or not _sets(key)]:
            yield f"{name}: {', '.join(names)}"


def _said_elsewhere(said: Any, servers: Mapping[str, Any], where: str = "") -> Iterator[str]:
    """Yield where a host's file names servers outside their entries, such as in its permissions of tools."""
    names = said if isinstance(said, list | dict) else ()
    for key in filter(lambda key: isinstance(key, str) and where not in _KEPT_OFF, names):
        if server := next((each for each in servers if re.match(rf"(mcp_+)?{re.escape(each)}([_*]|\Z)", key)), None):
            yield f"{server}: {f'{where}.{key}'.removeprefix('.')}"
    for key, value in said.items() if isinstance(said, dict) else ():
        yield from _said_elsewhere(value, servers, f"{where}.{key}".removeprefix("."))


def _bare(upstream: UpstreamConfig) -> UpstreamConfig:
    """Return a server without its source and the spellings of its keys."""
    return upstream.model_copy(update={"source": "", "keys": {}})


def _filled(said: Any, fill: Callable[[str], str]) -> Any:
    """Return a value with the folders in its texts filled in, and other variables unchanged."""
    if isinstance(said, dict):
        return {key: _filled(value, fill) for key, value in said.items()}
    if isinstance(said, list):
        return [_filled(value, fill) for value in said]
    return fill(said) if isinstance(said, str) else said


def _swap(place: Path, texts: Mapping[Path, str]) -> None:
    """Replace files' texts, after copying each and writing a record of the copies beside the host's file."""
    place, swaps = Path(os.path.realpath(place)), list[tuple[Path, bytes, Path | None]]()
    for path, text in texts.items():
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        swaps.append((target, f"{text}\n".encode(), copied(target)))
    states = [{"file": str(path), "copy": copy and copy.name, "digest": digest(text)} for path, text, copy in swaps]
    record = next(record for record in numbered(place, ".moved") if not os.path.lexists(record))
    write_whole(record, json.dumps(states).encode())
    most = place.stat().st_mode & 0o7777  # secrets that nobody else could read go to no file that others can
    for target, content, copy in swaps:
        write_whole(target, content, mode=(copy.stat().st_mode if copy else 0o600) & most)


def undo_move(place: Path) -> list[Path]:
    """Restore both files of the last move, and return them; refuse where one was changed since."""
    place = Path(os.path.realpath(place))
    if not (records := [*takewhile(os.path.exists, numbered(place, ".moved"))]):
        _refuse("none of its servers were moved", place, "name the host, and its --project, that they were moved from")
    back = []
    for state in reversed(json.loads(records[-1].read_bytes())):  # the host's first, so that each is in one of them
        file, copy = Path(state["file"]), state["copy"] and Path(state["file"]).with_name(state["copy"])
        if copy and not copy.exists():
            _refuse("the copy of the file is gone", copy, "put the servers back by hand")
        was, now = (path.read_bytes() if path and path.exists() else None for path in (copy, file))
        if now != was and (now is None or digest(now) != state["digest"]):
            hint = f"nothing was put back; put the servers back by hand: what it was is in {copy or 'no file'}"
            _refuse("the file was changed since", file, hint)
        back.append((file, copy, was))
    for file, copy, was in back:
        if copy is None or was is None:
            file.unlink(missing_ok=True)
        else:
            write_whole(file, was, mode=copy.stat().st_mode & 0o7777)
    records[-1].unlink()
    for _, copy, _ in back:
        if copy:
            copy.unlink()
    return [file for file, _, _ in back]


def _refuse(what: str, path: Path, hint: str) -> NoReturn:
    raise InputError(what, str(path), "option --move", hint)

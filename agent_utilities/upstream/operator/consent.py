"""Agreement to a config file that nobody named: a cloned repository must not run programs by lying in a folder."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import NoReturn, TextIO

from agent_utilities.runtime.whole_file import write_whole
from agent_utilities.upstream.config import GatewayConfig
from agent_utilities.upstream.configuration.config_files import digest
from agent_utilities.upstream.configuration.config_search import Found
from agent_utilities.upstream.configuration.config_text import read_bytes
from agent_utilities.upstream.configuration.shown import shown
from agent_utilities.upstream.errors import ConfigError
from agent_utilities.upstream.operator.consent_question import question

_FOLDER = "agreed"
_LONGEST_QUESTION = 32 * 1024


def is_agreed(path: Path, state_folder: Path, *, content: bytes | None = None) -> bool:
    """Whether the user has agreed to a file as it is now: by its place and its content, to the byte.

    Args:
        path: the file.
        state_folder: where agreements are kept: the user's own.
        content: what was read of the file; it is read again where None.
    """
    record, wanted = _record(path, state_folder, read_bytes(path) if content is None else content)
    try:
        told = json.loads(record.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(told, dict) and {key: told.get(key) for key in wanted} == wanted


def is_config_agreed(found: Found, config: GatewayConfig, state_folder: Path) -> bool:
    """Whether a config that was read again may be taken: the file is the user's own, or was agreed to as it was read.

    Args:
        found: the file.
        config: what was read of it.
        state_folder: where agreements are kept.
    """
    if not found.is_of_folder:
        return True
    content = read_bytes(found.path)
    return config.digests.get(str(found.path)) == digest(content) and is_agreed(
        found.path, state_folder, content=content
    )


def agree(path: Path, state_folder: Path, *, content: bytes | None = None) -> None:
    """Remember that the user has agreed to a file as it is now; other content, or another place, is asked for anew.

    Each agreement is a file of its own that only the user can read, swapped in whole: processes that agree at once
    don't meet.

    Args:
        path: the file.
        state_folder: where agreements are kept; it is made where it is not there.
        content: what was read of the file; it is read again where None.

    Raises:
        ConfigError: it can't be written.
    """
    record, told = _record(path, state_folder, read_bytes(path) if content is None else content)
    text = json.dumps({**told, "agreed_at_s": int(time.time())}, indent=2) + "\n"
    try:
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(record, text.encode())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(
            f"can't remember the agreement ({reason})", str(record.parent), "state folder", "name the config file"
        ) from None


def agreed_or_refuse(
    found: Found,
    config: GatewayConfig,
    *,
    state_folder: Path,
    environ: Mapping[str, str],
    yes: bool,
    stdin: TextIO,
    stdout: TextIO,
) -> None:
    """Return where a found file's servers may be started: it is the user's own, or the user has agreed, or does now.

    Args:
        found: the file.
        config: what was read of it: that, and nothing newer, is what the user agrees to.
        state_folder: where agreements are kept.
        environ: the environment, as the config was read with.
        yes: whether the command line says yes.
        stdin: where the answer is read; asked is only where this and `stdout` are a terminal.
        stdout: where the question is written; not the stream that carries the protocol.

    Raises:
        ConfigError: the user has not agreed, can't be asked, or the file has changed since it was read.
    """
    if not found.is_of_folder:
        return
    content = read_bytes(found.path)
    if config.digests.get(str(found.path)) != digest(content):
        _refuse("changed while it was read", found.path, "start again")
    if is_agreed(found.path, state_folder, content=content):
        return
    if not yes:
        if not (stdin.isatty() and stdout.isatty()):
            _refuse("a config that was found in this folder starts nothing until you agree to it", found.path, _HOW)
        started = {upstream.name for upstream in config.upstreams if upstream.enabled}
        asked = question(found.path, content, environ, started)
        if len(asked) > _LONGEST_QUESTION:
            _refuse("too long to be asked about", found.path, "read it, and name it on the command line")
        stdout.write(f"{asked}\nStart them, now and later, until the file changes? [y/N] ")
        stdout.flush()
        if stdin.readline().strip().casefold() not in ("y", "yes"):
            _refuse("not agreed to, so nothing was started", found.path, _HOW)
    agree(found.path, state_folder, content=content)


_HOW = "run the command once in a terminal and answer y, give --yes, or name the file"


def _refuse(what: str, path: Path, hint: str) -> NoReturn:
    raise ConfigError(what, shown(str(path), 1000), "working folder", hint)


def _record(path: Path, state_folder: Path, content: bytes) -> tuple[Path, dict[str, str]]:
    told = {"file": os.path.realpath(path), "content": digest(content)}
    name = blake2b(json.dumps(told, sort_keys=True).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return state_folder / _FOLDER / f"{name}.json", told

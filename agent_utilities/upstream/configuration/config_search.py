"""The config file that is taken where none was named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_utilities.upstream.configuration.config_file import containers
from agent_utilities.upstream.configuration.config_text import parsed, read_bytes
from agent_utilities.upstream.configuration.host_files import IN_A_FOLDER, own_file, user_files
from agent_utilities.upstream.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Found:
    """A config file that nobody named.

    Args:
        path: the file.
        is_of_folder: whether it was found in the working folder, which may be a stranger's: it starts nothing until the
            user has agreed.
        passed_over: other files that have servers, or can't be read, and come after it.
    """

    path: Path
    is_of_folder: bool
    passed_over: tuple[Path, ...] = ()


def find_config(folder: Path, home: Path, environ: Mapping[str, str]) -> Found | None:
    """Return the file to take: the folder's, else the user's own of the gateway, else the first host's with servers.

    A folder's file, and the user's own, is taken as soon as it is there, so that what is wrong with it is told. A
    host's file is there for much else, and is taken only where it has servers.

    Args:
        folder: the working folder.
        home: the user's home folder.
        environ: the environment, which may say where the user's settings are.

    Returns:
        None where there is none.
    """
    own, of_hosts = own_file(home, environ), tuple(user_files(home, environ).values())
    of_user = {own, *of_hosts}
    there = [path for name in IN_A_FOLDER if _is_there(path := folder / name)]
    there += [own] if _is_there(own) else []
    there += [path for path in of_hosts if path not in there and _is_there(path) and _has_servers(path, folder)]
    if not there:
        return None
    return Found(there[0], there[0] not in of_user, tuple(there[1:]))


def searched(folder: Path, home: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return where was looked, in order, for the message that nothing was found."""
    return (*(folder / name for name in IN_A_FOLDER), own_file(home, environ), *user_files(home, environ).values())


def _is_there(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _has_servers(path: Path, folder: Path) -> bool:
    try:
        told = parsed(read_bytes(path), path)
    except ConfigError:
        return False
    return any(isinstance(servers, dict) and servers for _, servers in containers(told, folder))

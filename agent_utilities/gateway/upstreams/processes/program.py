"""The program of an upstream, searched as the user's own shell would, and its environment."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from agent_utilities.errors import AgentUtilitiesError
from agent_utilities.gateway.upstreams.config import UpstreamConfig
from agent_utilities.runtime.process_io import read_whole
from agent_utilities.selection.model import nearest

USUAL_PLACES = (
    # Where users and package managers put programs.
    *("~/.local/bin", "/usr/local/bin", "/opt/homebrew/bin", "/home/linuxbrew/.linuxbrew/bin", "/opt/local/bin"),
    # Managers of versions of a language.
    *("~/.volta/bin", "~/.asdf/shims", "~/.local/share/mise/shims", "~/.nodenv/shims", "~/.pyenv/shims"),
    "~/.local/share/fnm/aliases/default/bin",
    # What a language installs for its user.
    *("~/.bun/bin", "~/.deno/bin", "~/.local/share/pnpm", "~/Library/pnpm", "~/.npm-global/bin", "~/.cargo/bin"),
    "~/go/bin",
    # The system's own.
    *("~/.nix-profile/bin", "/run/current-system/sw/bin", "/snap/bin", "~/bin", "/usr/bin", "/bin"),
)
"""Folders that are in the PATH of a login shell, but often not of a program started from a desktop."""
PASSED_ON = frozenset(
    {
        # Who and where one is, as in the SDK's own list.
        *("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"),
        # Language, time, and where files belong.
        *("LANG", "LANGUAGE", "TZ", "TMPDIR"),
        *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"),
        # Paths of certificates, without which many firewalls block downloads.
        *("CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE"),
    }
)
"""Names of our variables that every upstream gets; of the locale, every `LC_` one too."""
PROXIES = re.compile(r"(?:https?|all|no)_proxy", re.IGNORECASE)
"""Names of variables that upstreams get too, if there is no password in them."""


_ARGS = "; write the program alone into 'command', and the rest into 'args'"


class CommandError(AgentUtilitiesError, LookupError):
    """A program can't be run; the message says which, why, and where it was searched."""


def find_program(command: str, *, path: str, folder: Path, home: Path) -> Path:
    """Return the program of a command; `CommandError` where there is none, or it can't be run."""
    if not folder.is_dir():
        what = "is no folder" if folder.exists() else "does not exist"
        raise CommandError(f"its folder {str(folder)!r} {what}: set 'cwd' to one that exists")
    if not command.strip():
        raise CommandError("its command is empty")
    if "/" in command or command.startswith("~"):
        program = folder / with_home(command, home)
        _check(program, command)
        return program
    folders = search_folders(path, home)
    if program_path := shutil.which(command, path=os.pathsep.join(str(folder / place) for place in folders)):
        return Path(program_path)
    raise CommandError(_not_found(command, folder, folders))


def search_folders(path: str, home: Path) -> list[Path]:
    """Return the folders where commands are searched, in order, each once: those of `PATH`, then the usual places."""
    folders = [Path(with_home(name, home)) for name in path.split(os.pathsep) if name]
    usual = [Path(with_home(name, home)) for name in USUAL_PLACES]
    return list(dict.fromkeys((*folders, *_of_nvm(home), *(place for place in usual if place.is_dir()))))


def child_path(path: str, program: Path, home: Path, *, is_configured: bool) -> str:
    """Return the `PATH` for a program, which may start others by name, as `npx` starts `node`.

    The usual places are not added to a value that the operator configured.
    """
    more = [program.parent] if is_configured else [program.parent, *search_folders("", home)]
    return os.pathsep.join(dict.fromkeys((*filter(None, path.split(os.pathsep)), *map(str, more))))


def with_home(name: str, home: Path) -> str:
    """Return a path with the home folder for a leading `~`."""
    return f"{home}{name[1:]}" if name == "~" or name.startswith("~/") else name


def _of_nvm(home: Path) -> Iterator[Path]:
    """Yield the folder of nvm's default version of Node.js, or of its newest."""
    versions = {
        tuple(map(int, match.groups())): place
        for place in (home / ".nvm/versions/node").glob("v*")
        if (match := re.fullmatch(r"v(\d+)\.(\d+)\.(\d+)", place.name))
    }
    try:
        default = read_whole(home / ".nvm/alias/default", 1000).decode().strip().removeprefix("v")
    except (OSError, UnicodeError):
        default = ""
    wanted = [v for v in versions if ".".join(map(str, v)).startswith(f"{default}.")]
    if versions:
        yield versions[max(wanted or versions)] / "bin"


def _check(program: Path, command: str) -> None:
    if program.is_dir():
        raise CommandError(f"{command!r} is a folder, not a program ({program})")
    if not program.exists():
        like = _nearest(program.name, [program.parent])
        meant = _ARGS if re.search(r"\s", command) else _did_you_mean(like and str(program.parent / like))
        raise CommandError(f"no file {str(program)!r}{meant}")
    if not os.access(program, os.X_OK):
        raise CommandError(f"{str(program)!r} is not executable: run it by its interpreter, or `chmod +x` it")


def _not_found(command: str, folder: Path, folders: list[Path]) -> str:
    places = [folder / place for place in folders]
    text = f"no command {command!r}; looked in {', '.join(map(str, folders))}"
    if (file := next((place / command for place in places if (place / command).exists()), None)) is not None:
        what = "is a folder" if file.is_dir() else "is not executable"
        return f"{text}; {str(file)!r} {what}"
    if re.search(r"\s", command):
        return text + _ARGS
    if (folder / command).is_file():
        return f"{text}; there is {str(folder / command)!r}: write './{command}' to run that"
    return f"{text}{_did_you_mean(_nearest(command, places))}"


def _nearest(name: str, folders: Iterable[Path]) -> str | None:
    names: set[str] = set()
    for folder in folders:
        with suppress(OSError):
            names.update(os.listdir(folder))
    return nearest(name, names)


def _did_you_mean(name: str | None) -> str:
    return f"; did you mean {name!r}?" if name else ""


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """Return our variables that an upstream gets."""
    return {name: value for name, value in environ.items() if _is_harmless(name, value)}


def _is_harmless(name: str, value: str) -> bool:
    if value.startswith("()"):  # a shell function
        return False
    if PROXIES.fullmatch(name):
        return "@" not in value  # else it has a login
    return name in PASSED_ON or name.startswith("LC_")


def child_environment(config: UpstreamConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an upstream's process: its config's variables over ours that are passed on.

    Our settings file is for the gateway, and uses the names that callers see: an upstream built with this package would
    apply it again to its own names. So none is searched, unless its config names one.
    """
    configured = {name: value.get_secret_value() for name, value in config.env.items()}
    return {"MCP_CONFIG_FILE": "none", **passed_on(environ), **configured}

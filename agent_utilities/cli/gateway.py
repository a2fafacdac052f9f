"""What `agent-utilities gateway` does: find the config, ask where it must, and serve what it names."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent_utilities.errors import InputError
from agent_utilities.mcp.server_cli import launch
from agent_utilities.settings import read_settings
from agent_utilities.upstream.config import GatewayConfig
from agent_utilities.upstream.config_files import read_config
from agent_utilities.upstream.folders import gateway_folder
from agent_utilities.upstream.stderr_log import read_log

if TYPE_CHECKING:
    from agent_utilities.cli.gateway_command import GatewayOptions
    from agent_utilities.mcp.gateway import Gateway


def launch_gateway(options: GatewayOptions) -> None:
    """Serve the upstreams of a config, or print what would be visible.

    Raises:
        InputError: there is no config, it can't be read, or was not agreed to.
    """
    launch(lambda: _gateway(options), options)


def _gateway(options: GatewayOptions) -> Gateway:
    from agent_utilities.mcp.gateway import Gateway

    files, config = config_of(options.files or (), yes=options.yes)
    tell(config)
    return Gateway(config, options.name, files=files)


def config_of(files: Sequence[Path], *, yes: bool) -> tuple[Sequence[Path], GatewayConfig]:
    """Return the files that configure a gateway, and what they say.

    Args:
        files: those that were named; where none is, one is looked for, and which is said.
        yes: agree to start what a file of the working folder names.

    Raises:
        InputError: there is none, it can't be read, or was not agreed to.
    """
    if files:
        return files, read_config(files, os.environ)
    raise InputError("no config was found", str(Path.cwd()), "the working folder", "name an mcp.json")


def show_logs(name: str | None, n_lines: int) -> None:
    """Print the last lines that an upstream wrote to stderr, or of every one whose log is there.

    Raises:
        InputError: there is no log of that name.
    """
    folder = gateway_folder("logs", read_settings(os.environ).gateway_folder)
    there = sorted(path.stem for path in folder.glob("*.log"))
    if name is not None and name not in there:
        raise InputError("no log of that server", name, "argument NAME", f"there are: {', '.join(there) or 'none'}")
    for each in [name] if name is not None else there:
        if name is None:
            print(f"== {each}")
        for line in read_log(folder / f"{each}.log", n_lines):
            print(line)


def tell(config: GatewayConfig) -> None:
    """Say on stderr what of a config could not be taken."""
    for problem in config.problems:
        print(f"WARNING: left out: {problem}", file=sys.stderr)
    for notice in config.notices:
        print(f"note: {notice}", file=sys.stderr)

"""Config files read again when they change: taken whole, or not at all."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from agent_utilities.upstream.config import GatewayConfig
from agent_utilities.upstream.config_files import read_config
from agent_utilities.upstream.errors import ConfigError

logger = logging.getLogger("agent_utilities.gateway")

_SETTLED_MS = 300
"""Milliseconds without a change after which an edit counts as done: editors write a file in several steps."""
_LOOK_AGAIN_MS = 5_000
"""Milliseconds after which files are looked at again though no change was told."""


async def watch_config(
    files: Sequence[Path],
    environ: Mapping[str, str],
    config: GatewayConfig,
    on_config: Callable[[GatewayConfig], Awaitable[None]],
    is_agreed: Callable[[GatewayConfig], bool] = lambda config: True,
) -> None:
    """Read config files again whenever one of them changes, until cancelled.

    One that can't be read, or in which a server can't, changes nothing, and a log line says why: a half-finished edit
    must not take servers away. Folders are watched, not files, since editors and deployments put new files in their
    place.

    Args:
        files: the files, later over earlier.
        environ: the environment that variables are filled in from.
        config: what they say now.
        on_config: takes what they say from now on; called with each other config.
        is_agreed: whether the user has agreed to run what they say now.
    """
    from watchfiles import awatch

    folders = {path.parent.resolve() for file in files for path in (file.absolute(), file.resolve())}
    seen: object = None
    # It wakes on a timeout too: for an edit just before it watched, and for file systems that tell nobody.
    waking = awatch(*folders, recursive=False, step=_SETTLED_MS, rust_timeout=_LOOK_AGAIN_MS, yield_on_timeout=True)
    async for _ in waking:
        if (stamps := _stamps(files)) == seen:
            continue
        seen = stamps
        try:
            changed = read_config(files, environ)
        except ConfigError as error:
            logger.error("the configuration is kept as it was: %s", error)
            continue
        if changed.problems:
            logger.error("the configuration is kept as it was: %s", "; ".join(changed.problems))
        elif changed != config and not is_agreed(changed):
            logger.error("the configuration is kept as it was: the file has changed, and nobody has agreed to it yet")
        elif changed != config:
            config = changed
            logger.info("the configuration has changed: %s", ", ".join(map(str, files)))
            await on_config(changed)


def _stamps(files: Sequence[Path]) -> list[tuple[int, int, int] | None]:
    """Return what differs when a file was written or exchanged; None for one that is not there."""
    stamps: list[tuple[int, int, int] | None] = []
    for file in files:
        try:
            stat = file.stat()
            stamps.append((stat.st_ino, stat.st_mtime_ns, stat.st_size))
        except OSError:
            stamps.append(None)
    return stamps

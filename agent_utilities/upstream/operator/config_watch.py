"""Files of a gateway read again when they change: config files whole or not at all, and the lock beside them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agent_utilities.errors import InputError
from agent_utilities.runtime.threads import in_daemon_thread
from agent_utilities.upstream.config import GatewayConfig
from agent_utilities.upstream.configuration.config_files import read_config
from agent_utilities.upstream.operator.lock_file import lock_path, read_lock
from agent_utilities.upstream.operator.operator_rules import OperatorRules

logger = logging.getLogger("agent_utilities.gateway")

_SETTLED_MS = 300
"""Milliseconds without a change after which an edit counts as done: editors write a file in several steps."""
_LOOK_AGAIN_MS = 5_000
"""Milliseconds after which files are looked at again though no change was told."""


@dataclass
class ConfigFiles:
    """The files that a gateway is configured by, and what they said last.

    Args:
        files: config files, later over earlier; the lock stands beside the first.
        environ: the environment that variables are filled in from.
        config: what the files say.
        is_agreed: whether the user has agreed to run what they say.
    """

    files: Sequence[Path]
    environ: Mapping[str, str]
    config: GatewayConfig
    is_agreed: Callable[[GatewayConfig], bool] = lambda config: True

    @property
    def lock_file(self) -> Path | None:
        """Where the lock stands or would stand; None for a config of no file."""
        return lock_path(Path(self.files[0])) if self.files else None

    def rules(self) -> OperatorRules:
        """Return the operator's rules, with the lock as it is now.

        Raises:
            LockError: it can't be read, so that what was accepted is not known.
        """
        path = self.lock_file
        return OperatorRules() if path is None else OperatorRules(read_lock(path), path)

    async def changes(self) -> AsyncIterator[tuple[GatewayConfig, OperatorRules]]:
        """Yield what the files say whenever that has changed, until cancelled.

        A config that can't be read, that has a problem which it did not have before, or that nobody has agreed to,
        changes nothing, and a log line says why: a half-finished edit must not take servers away. Nor does a lock that
        can't be read, or that is gone: an upstream could remove it, and what it withholds would be listed.

        Files are read in a thread: a disk that hangs holds up no request, and no stop.
        """
        rules = await in_daemon_thread(self.rules)
        async for _ in touched([*self.files, *([self.lock_file] if self.lock_file is not None else ())]):
            config, now = await in_daemon_thread(self._read), await in_daemon_thread(partial(self._rules_now, rules))
            if config != self.config or now != rules:
                self.config, rules = config, now
                logger.info("the configuration has changed: %s", ", ".join(map(str, self.files)))
                yield config, rules

    def _rules_now(self, before: OperatorRules) -> OperatorRules:
        """Return the rules with the lock as it is; those of before where it can't be read, or is gone."""
        try:
            now = self.rules()
        except InputError as error:
            logger.error("the lock is kept as it was: %s", error)
            return before
        if before.lock is not None and now.lock is None:
            logger.error("%s is gone: what it withholds is withheld until the gateway is started again", now.lock_file)
            return before
        return now

    def _read(self) -> GatewayConfig:
        """Return what the config files say; what they said last where that can't be taken."""
        try:
            changed = read_config(self.files, self.environ)
            if changed == self.config:
                return self.config
            why = "; ".join(problem for problem in changed.problems if problem not in self.config.problems)
            if not why and not self.is_agreed(changed):
                why = "the file has changed, and nobody has agreed to it yet"
        except InputError as error:
            why = str(error)
        if not why:
            return changed
        logger.error("the configuration is kept as it was: %s", why)
        return self.config


async def touched(files: Sequence[Path]) -> AsyncIterator[None]:
    """Yield when any of the files has been written, exchanged, made or removed; once at the start.

    Folders are watched, not files: editors and deployments put new files in the place of old ones.
    """
    from watchfiles import awatch

    folders = {path.parent.resolve() for file in files for path in (file.absolute(), file.resolve())}
    seen: object = None
    # It wakes on a timeout too: for an edit just before it watched, and for file systems that tell nobody.
    waking = awatch(*folders, recursive=False, step=_SETTLED_MS, rust_timeout=_LOOK_AGAIN_MS, yield_on_timeout=True)
    async for _ in waking:
        if (stamps := await in_daemon_thread(partial(_stamps, files))) != seen:
            seen = stamps
            yield


def _stamps(files: Sequence[Path]) -> list[tuple[int, int, int] | None]:
    return [_stamp(file) for file in files]


def _stamp(file: Path) -> tuple[int, int, int] | None:
    """Return what differs when a file was written or exchanged; None for one that is not there."""
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size

"""What the operator denies, by configuration and lock; and the gateway's files, which are read again on changes."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agent_utilities.errors import InputError
from agent_utilities.gateway.upstreams.config import GatewayConfig, UpstreamConfig
from agent_utilities.gateway.upstreams.configuration.config_files import read_config
from agent_utilities.gateway.upstreams.operator.lock import Key, Lock, change_of, definitions, lock_path, read_lock
from agent_utilities.gateway.upstreams.snapshot import Snapshot
from agent_utilities.policy.bounds import Steps, fits
from agent_utilities.runtime.process_io import touched
from agent_utilities.runtime.waiting import in_daemon_thread
from agent_utilities.selection.model import fold

_A_STEP = 50
"""Components that are checked in one step: a millisecond at most."""


def denied_by(config: UpstreamConfig, tool: str) -> str | None:
    """Return the place of the rule that denies a tool, such as `.mcp.json: mcpServers.git.disabledTools`; else None.

    Names are the upstream's own, compared folded, and may be globs. A deny by one key holds, whatever another allows.
    """
    name = fold(tool)
    if _names(name, config.deny):
        return _origin(config, "deny", "disabledTools")
    if any(not override.enabled and fold(named) == name for named, override in config.overrides.items()):
        return f"{_origin(config, 'overrides', 'tools')}.{tool}.enabled"
    if config.allow is not None and not _names(name, config.allow):
        return _origin(config, "allow", "onlyAllow")
    return None


def _names(name: str, patterns: frozenset[str]) -> bool:
    return fits(name, frozenset(map(fold, patterns)))


def _origin(config: UpstreamConfig, field: str, usual: str) -> str:
    return f"{config.source}.{config.keys.get(field, usual)}"


@dataclass(frozen=True)
class OperatorRules:
    """The operator's denials: by the configuration, and by a lock on accepted definitions."""

    lock: Lock | None = None
    """The accepted definitions; None where nothing is locked."""
    lock_file: Path = Path("lock.json")

    def denials(self, config: UpstreamConfig, snapshot: Snapshot) -> Steps[Mapping[Key, str]]:
        """Return the components of an upstream that are denied, each with the file and key of the rule."""
        denied = {}
        if self.lock is not None:
            for n, (key, definition) in enumerate(definitions(snapshot)):
                if n % _A_STEP == 0:
                    yield
                if (change := change_of(self.lock, key, definition)) is not None:
                    denied[key] = f"{self.lock_file.name}: {key}, {change.what} since it was accepted"
        for n, tool in enumerate(snapshot.tools):
            if n % _A_STEP == 0:
                yield
            if (where := denied_by(config, tool["name"])) is not None:
                denied[Key(config.name, "tools", tool["name"])] = where
        return denied


logger = logging.getLogger("agent_utilities.gateway")


@dataclass
class ConfigFiles:
    """The config files of a gateway, at least one, and their last valid content."""

    files: Sequence[Path]
    environ: Mapping[str, str]
    config: GatewayConfig
    is_agreed: Callable[[GatewayConfig], bool] = lambda config: True
    refused: frozenset[str] = frozenset()
    """The parts that were invalid when they last changed, `configuration` or `lock`; their content before holds."""

    @property
    def lock_file(self) -> Path:
        return lock_path(Path(self.files[0]))

    def rules(self) -> OperatorRules:
        """Return the operator's rules, with the lock as it is now; `InputError` where that can't be read."""
        return OperatorRules(read_lock(self.lock_file), self.lock_file)

    async def changes(self) -> AsyncIterator[tuple[GatewayConfig, OperatorRules]]:
        """Yield the configuration and rules whenever they change, until cancelled.

        A config that is unreadable, has a new problem, or lacks the user's consent changes nothing, and a log line says
        why: a half-finished edit must not take servers away. Nor does a lock that is unreadable or gone: an upstream
        could remove it to have withheld definitions listed.

        Files are read in a thread, so that a hung disk blocks no request and no stop.
        """
        rules = await in_daemon_thread(self.rules)
        async for _ in touched([*self.files, self.lock_file]):
            config, now = await in_daemon_thread(self._read), await in_daemon_thread(partial(self._rules_now, rules))
            if config != self.config or now != rules:
                self.config, rules = config, now
                logger.info("the configuration has changed: %s", ", ".join(map(str, self.files)))
                yield config, rules

    def _rules_now(self, before: OperatorRules) -> OperatorRules:
        """Return the rules with the lock as it is now; the ones before where it is unreadable or gone."""
        try:
            now, why = self.rules(), ""
            if before.lock is not None and now.lock is None:
                why = f"{now.lock_file} is gone: what it withholds is withheld until the gateway is started again"
        except InputError as error:
            why = f"the lock is kept as it was: {error}"
        if self._is_refused("lock", why):
            return before
        return now

    def _read(self) -> GatewayConfig:
        """Return the configuration as it is now; the last valid one where that is invalid."""
        try:
            changed = read_config(self.files, self.environ)
            why = "; ".join(problem for problem in changed.problems if problem not in self.config.problems)
            if not why and changed != self.config and not self.is_agreed(changed):
                why = "the file has changed, and nobody has agreed to it yet"
        except InputError as error:
            why = str(error)
        if self._is_refused("configuration", why and f"the configuration is kept as it was: {why}"):
            return self.config
        return changed

    def _is_refused(self, part: str, why: str) -> bool:
        """Record and log why a changed part is refused, if it is."""
        self.refused = self.refused | {part} if why else self.refused - {part}
        if why:
            logger.error("%s", why)
        return bool(why)

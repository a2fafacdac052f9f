"""What the operator denies of upstreams, and where he says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_utilities.selection.model import fold
from agent_utilities.upstream.config import UpstreamConfig
from agent_utilities.upstream.operator.lock import Key, Lock, change_of, definitions
from agent_utilities.upstream.operator.lock_file import origin
from agent_utilities.upstream.snapshot import Snapshot
from agent_utilities.visibility.names import pattern_matcher
from agent_utilities.visibility.steps import Steps

_A_STEP = 50
"""Components that are judged in one step: a millisecond at most."""


def denied_by(config: UpstreamConfig, tool: str) -> str | None:
    """Return where an upstream's configuration denies a tool, such as `.mcp.json: mcpServers.git.disabledTools`.

    Names are compared folded and may be globs, as everywhere. A tool that is denied by one key is denied, whatever
    another allows.

    Args:
        config: the upstream's.
        tool: the tool's name, as the upstream calls it.

    Returns:
        The file and the key; None where nothing denies it.
    """
    name = fold(tool)
    if _names(name, config.deny):
        return _origin(config, "deny", "disabledTools")
    if any(not override.enabled and fold(named) == name for named, override in config.overrides.items()):
        return f"{_origin(config, 'tools', 'tools')}.{tool}.enabled"
    if config.allow is not None and not _names(name, config.allow):
        return _origin(config, "allow", "onlyAllow")
    return None


def _names(name: str, patterns: frozenset[str]) -> bool:
    return pattern_matcher(frozenset(map(fold, patterns)))([name])


def _origin(config: UpstreamConfig, field: str, usual: str) -> str:
    return f"{config.source}.{config.keys.get(field, usual)}"


@dataclass(frozen=True)
class OperatorRules:
    """What the operator denies of upstreams: by their configuration, and by a lock on what he has accepted.

    Args:
        lock: what he has accepted; None where nothing is locked.
        lock_file: the lock's file, as it is told.
    """

    lock: Lock | None = None
    lock_file: Path = Path("lock.json")

    def denials(self, config: UpstreamConfig, snapshot: Snapshot) -> Steps[Mapping[Key, str]]:
        """Return which components of an upstream are denied, each with the file and the key that say so."""
        denied = {}
        if self.lock is not None:
            for n, (key, definition) in enumerate(definitions(snapshot)):
                if n % _A_STEP == 0:
                    yield
                if (change := change_of(self.lock, key, definition)) is not None:
                    denied[key] = f"{origin(self.lock_file, key)}, {change.what} since it was accepted"
        for n, tool in enumerate(snapshot.tools):
            if n % _A_STEP == 0:
                yield
            if (where := denied_by(config, tool.name)) is not None:
                denied[Key(config.name, "tools", tool.name)] = where
        return denied

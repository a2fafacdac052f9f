"""Which of an upstream's tools its configuration denies, and where it says so."""

from __future__ import annotations

from agent_utilities.selection.model import fold
from agent_utilities.upstream.config import UpstreamConfig
from agent_utilities.visibility.names import pattern_matcher


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

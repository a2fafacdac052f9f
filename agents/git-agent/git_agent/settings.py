"""What the operator allows, read from the environment."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fastmcp.exceptions import ToolError

PROTOCOLS = ("https", "http", "ssh", "git")
"""Network protocols an operator may allow; only the first is allowed unless they do."""


@dataclass(frozen=True)
class Settings:
    """The operator's limits for every call.

    Read anew for each call: the server keeps no state, and importing it touches nothing.
    """

    roots: tuple[Path, ...]
    """Real paths of the folders that may be read and written."""
    protocols: frozenset[str] = frozenset({"https"})
    """Network protocols that may be used; local paths inside the roots always may."""
    hosts: tuple[str, ...] = ()
    """Host globs that may be reached; empty means any host."""
    trust_config: bool = False
    """Whether a repository's own config may set anything."""
    credential_helper: bool = False
    """Whether the operator's own git credential helper may answer."""
    timeout_s: float = 30.0
    network_timeout_s: float = 300.0

    def contains(self, path: Path) -> bool:
        """Whether `path`, which must be a real path, is a root or lies below one."""
        return any(path.is_relative_to(root) for root in self.roots)

    def shown(self, path: Path) -> str:
        """Return `path` as a caller may see and reuse it: relative when there is one root."""
        if not self.contains(path):
            return "(outside the allowed roots)"
        return os.path.relpath(path, self.roots[0]) if len(self.roots) == 1 else str(path)


def read_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings in `environ`, by default the process environment.

    Raises:
        ToolError: a variable is malformed or no allowed root exists.
    """
    env = os.environ if environ is None else environ
    roots = _listed(env, "GIT_AGENT_ROOTS") or (os.getcwd(),)
    real = tuple(dict.fromkeys(Path(os.path.realpath(root)) for root in roots if os.path.isdir(root)))
    if not real:
        raise ToolError("no allowed root exists; GIT_AGENT_ROOTS must name at least one folder")
    protocols = _listed(env, "GIT_AGENT_PROTOCOLS") or ("https",)
    for protocol in protocols:
        if protocol not in PROTOCOLS:
            raise ToolError(f"unknown protocol {protocol!r} in GIT_AGENT_PROTOCOLS; choose from {', '.join(PROTOCOLS)}")
    return Settings(
        roots=real,
        protocols=frozenset(protocols),
        hosts=tuple(host.lower() for host in _listed(env, "GIT_AGENT_HOSTS")),
        trust_config=_switch(env, "GIT_AGENT_TRUST_CONFIG"),
        credential_helper=_switch(env, "GIT_AGENT_CREDENTIAL_HELPER"),
        timeout_s=_seconds(env, "GIT_AGENT_TIMEOUT_S", 30.0),
        network_timeout_s=_seconds(env, "GIT_AGENT_NETWORK_TIMEOUT_S", 300.0),
    )


def _listed(env: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(part for part in env.get(name, "").split(os.pathsep) if part)


def _switch(env: Mapping[str, str], name: str) -> bool:
    value = env.get(name, "").strip().lower()
    if value in ("", "0", "false", "no"):
        return False
    if value in ("1", "true", "yes"):
        return True
    raise ToolError(f"{name} must be 1 or 0, not {value!r}")


def _seconds(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name, "").strip()
    try:
        value = float(text) if text else default
    except ValueError:
        value = math.nan
    if not 0 < value <= 86_400:
        raise ToolError(f"{name} must be seconds between 0 and 86400, not {text!r}")
    return value

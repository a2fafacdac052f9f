"""Where a gateway keeps what outlives it: snapshots in the user's cache; logs, consent and logins in their state."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from agent_utilities.runtime.process_io import expanded, own_folder

_VARIABLE = "MCP_GATEWAY_FOLDER"
Part = Literal["snapshots", "logs", "consent", "tokens", "logins"]


def gateway_folder(part: Part, given: str = "") -> Path:
    """Return the folder of one part of what gateways keep."""
    if given:
        return expanded(given) / part
    return own_folder("cache" if part == "snapshots" else "state") / "gateway" / part


def with_folder(environ: Mapping[str, str], given: str) -> Mapping[str, str]:
    """Return an environment that names a gateway's folder, also where a settings file named it."""
    is_named = not given or environ.get(_VARIABLE, "").strip() == given
    return environ if is_named else {**environ, _VARIABLE: given}

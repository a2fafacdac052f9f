"""The folders of a gateway: snapshots in the user's cache folder; logs, consent and logins in their state folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from agent_utilities.runtime.process_io import expanded, own_folder

_VARIABLE = "MCP_GATEWAY_FOLDER"
Part = Literal["snapshots", "logs", "consent", "tokens", "logins"]


def gateway_folder(part: Part, folder: str = "") -> Path:
    """Return the folder of one part, within the configured folder if there is one."""
    if folder:
        return expanded(folder) / part
    return own_folder("cache" if part == "snapshots" else "state") / "gateway" / part


def with_folder(environ: Mapping[str, str], folder: str) -> Mapping[str, str]:
    """Return an environment that names a gateway's folder, also where a settings file named it."""
    is_named = not folder or environ.get(_VARIABLE, "").strip() == folder
    return environ if is_named else {**environ, _VARIABLE: folder}

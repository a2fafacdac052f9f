"""Where a gateway keeps what outlives it: snapshots in the user's cache; logs, consent and logins in his state."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

Part = Literal["snapshots", "logs", "consent", "tokens"]


def gateway_folder(part: Part, given: str = "") -> Path:
    """Return the folder of one part of what gateways keep.

    Args:
        part: what is kept there. Snapshots can be taken again; the rest can't.
        given: the folder that the operator names for all of it; the user's own where blank.
    """
    if given:
        return Path(given).expanduser() / part
    import platformdirs

    base = platformdirs.user_cache_dir if part == "snapshots" else platformdirs.user_state_dir
    return Path(base("agent-utilities")) / "gateway" / part

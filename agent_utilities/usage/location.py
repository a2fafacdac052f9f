"""Where a server's log is kept."""

from __future__ import annotations

import re
from pathlib import Path


def usage_file(server: str, given: str = "") -> Path:
    """Return the file of a server's log.

    Args:
        server: the server's name; it names the file.
        given: the file that the operator names, `MCP_USAGE_FILE`; one in the user's state folder where blank.
    """
    if given:
        return Path(given).expanduser()
    import platformdirs

    base = Path(platformdirs.user_state_dir("agent-utilities")) / "usage"
    return base / f"{re.sub(r'[^A-Za-z0-9._-]', '_', server)[:100] or 'server'}.db"

"""A gateway whose disk hangs as soon as a snapshot is to be put in its place: the argument is the upstream's script."""

from __future__ import annotations

import os
import sys
import time

from agent_utilities import create_gateway


def hang(*_: object) -> None:
    """Never return, as a write to a disk that is gone."""
    print("the disk hangs", file=sys.stderr, flush=True)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    os.replace = hang  # type: ignore[assignment]
    command = {"command": sys.executable, "args": ["-I", "-S", sys.argv[1]]}
    create_gateway({"mcpServers": {"slow": command}}).run(transport="stdio", show_banner=False)

"""`faulty_server` with one tool more, `show`, whose description is a file's text at each list; argument: the file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.gateway.upstreams import faulty_server


class ChangingServer(faulty_server.Server):
    """A server that lists what the file says."""

    @property
    def tools(self) -> list[dict[str, Any]]:
        """Its tools; what it was told to list otherwise is passed over."""
        return [*faulty_server.TOOLS, faulty_server.tool("show", Path(sys.argv[1]).read_text())]

    @tools.setter
    def tools(self, given: list[dict[str, Any]]) -> None:
        return None


if __name__ == "__main__":
    ChangingServer().run()

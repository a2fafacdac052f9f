"""Nothing of a gateway's outlives it: the marker that its processes bear, and the watcher that ends them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from types import TracebackType
from typing import Self

MARKER = "AGENT_UTILITIES_UPSTREAM"
"""The variable by which the processes of a gateway are known: words, the innermost gateway's last."""


class ProcessGuard:
    """Ends every process of this gateway once the gateway is gone, by whatever means.

    Started before the first process, and closed after the last: `async with ProcessGuard() as guard`.
    """

    def __init__(self) -> None:
        self._gateway = secrets.token_hex(8)
        self._n_processes = 0

    def next_marker(self) -> str:
        """Return the word that the next process, and all that it starts, bears in `MARKER`."""
        self._n_processes += 1
        return f"{self._gateway}.{self._n_processes}"

    def variables(self, marker: str) -> Mapping[str, str]:
        """Return the variables that a process is started with so that it bears a marker."""
        return {MARKER: f"{os.environ.get(MARKER, '')} {marker}".strip()}

    def start(self) -> None:
        """Start watching; nothing happens where it has been started."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None

"""How much one call may still cost."""

from __future__ import annotations

import time
from contextlib import suppress

from anyio import from_thread

from filesystem_agent.errors import refusal
from filesystem_agent.settings import Settings


class Budget:
    """Time and directory entries one call may use; `spent` says why it had to stop."""

    def __init__(self, settings: Settings) -> None:
        """Start the clock."""
        self.time_limit_s = settings.time_limit_s
        self.deadline = time.monotonic() + settings.time_limit_s
        self.n_entries_left = settings.max_scanned_entries
        self.spent: str | None = None

    def is_spent(self) -> bool:
        """Tell whether to stop now; see `require_caller` for what it raises."""
        require_caller()
        if self.spent is None and time.monotonic() >= self.deadline:
            self.spent = f"time limit of {self.time_limit_s:g} s"
        return self.spent is not None

    def stop(self, why: str) -> None:
        """Note the first reason to stop."""
        self.spent = self.spent or why

    def require_time(self, shown: str) -> None:
        """Raise when the time is up.

        Raises:
            ToolError: the deadline has passed.
        """
        if self.is_spent():
            raise refusal(f"stopped at the {self.spent}", shown, "ask for less")


def require_caller() -> None:
    """Go on only while the caller of the tool is there: work in a thread does not end with the task that waits for it.

    Raises:
        BaseException: the event loop's own for a cancelled task.
    """
    with suppress(RuntimeError):  # no server runs the tool
        from_thread.check_cancelled()

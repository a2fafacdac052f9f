"""The parameters several tools share, described once."""

from __future__ import annotations

from typing import Annotated, Literal

from fastmcp.exceptions import ToolError
from pydantic import Field

from logs_agent.formats import Format
from logs_agent.levels import Level
from logs_agent.scan import Window
from logs_agent.timestamps import asked

LogPath = Annotated[str, Field(description="Log file, as list_logs shows it.", min_length=1, max_length=4096)]
LogFormat = Annotated[Format | Literal["auto"], Field(description="Line format; auto detects it per file.")]
Rotated = Annotated[bool, Field(description="Also read its rotated siblings (app.log.1, app.log.2.gz), oldest first.")]
Since = Annotated[
    str | None,
    Field(
        description="Only records at or after this: ISO-8601 (no zone: UTC) or an age like 15m, 2h, 7d.",
        max_length=64,
    ),
]
Until = Annotated[str | None, Field(description="Only records before this; same forms as since.", max_length=64)]
MinLevel = Annotated[
    Level | None,
    Field(description="Only records at this level or above (none without a level)."),
]


def format_asked(value: Format | Literal["auto"]) -> Format | None:
    """Return the format to force, `None` for detection."""
    return None if value == "auto" else value


def window_asked(since: str | None, until: str | None) -> Window:
    """Return the window a tool's `since` and `until` ask for.

    Raises:
        ToolError: one is no time, or the window ends before it begins.
    """
    window = Window(asked(since, "since"), asked(until, "until"))
    if window.since is not None and window.until is not None and window.since >= window.until:
        raise ToolError(f"not a window: since {since!r} must be earlier than until {until!r}")
    return window


def clip(text: str, n_chars: int) -> str:
    """Return the text, cut to `n_chars` with an ellipsis when longer."""
    return text if len(text) <= n_chars else text[: n_chars - 1] + "…"

"""Text of a server's or a user's on a terminal, where rich prints what has colours of ours."""

from __future__ import annotations

from rich.markup import escape

from agent_utilities.upstream.configuration.shown import shown


def plain(text: str) -> str:
    """Return a text that a console without emoji prints as it is: no markup of it counts, and none of it acts."""
    return escape(shown(text, len(text)))

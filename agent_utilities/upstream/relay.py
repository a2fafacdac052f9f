"""What an upstream may ask or tell the caller whose call it is working on, as the connection hands it on."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

import mcp_types


class Relay(Protocol):
    """The caller's side of one call: questions and messages of the upstream come here, and nowhere else.

    Over stdio and SSE an upstream doesn't say which call a question belongs to. It is given to the caller where all
    calls that are under way on the connection are of one session; where they are of several it is refused, so that no
    caller is asked, or told, what belongs to another.
    """

    @property
    def session(self) -> Hashable:
        """What tells the caller's session from others: calls of one session share whatever an upstream asks."""

    @property
    def capabilities(self) -> mcp_types.ClientCapabilities | None:
        """What the caller's client offers to be asked, or None for nothing: what his calls tell an upstream of him."""

    @property
    def asked_at_once(self) -> mcp_types.ClientCapabilities | None:
        """What of it can be asked in the middle of a call; None for nothing, as of who is asked by results alone."""

    async def sample(
        self, params: mcp_types.CreateMessageRequestParams
    ) -> mcp_types.CreateMessageResult | mcp_types.CreateMessageResultWithTools | mcp_types.ErrorData:
        """Have the caller's model answer."""

    async def elicit(self, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        """Ask the caller's user."""

    async def roots(self) -> mcp_types.ListRootsResult | mcp_types.ErrorData:
        """Ask for the caller's roots."""

    async def log(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        """Hand on a log message."""

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Hand on progress of the call."""

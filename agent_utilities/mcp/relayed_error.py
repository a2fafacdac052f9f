"""An error of a server behind this one, which a caller is given as it is."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import TypeVar

import mcp_types
from fastmcp.exceptions import FastMCPError
from mcp.shared.exceptions import MCPError

_A = TypeVar("_A")


class RelayedError(FastMCPError):
    """An upstream's JSON-RPC error.

    FastMCP makes an error of its own from any other exception of a tool; this one it lets pass.

    Args:
        error: the upstream's.
    """

    def __init__(self, error: mcp_types.ErrorData) -> None:
        super().__init__(error.message, log_level=logging.DEBUG)
        self.error = error


async def relayed(answer: Awaitable[_A]) -> _A:
    """Await an answer.

    Raises:
        MCPError: an upstream answered with this error.
    """
    try:
        return await answer
    except RelayedError as error:
        raise MCPError.from_error_data(error.error) from None

"""Counting of tokens off the event loop, where a result is long."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from agent_utilities.results.content import tokens_of
from agent_utilities.runtime.waiting import in_daemon_thread

_AT_ONCE = 200_000
"""Characters of texts that are counted on the event loop."""


async def counted(result: Mapping[str, Any]) -> int:
    """Return the tokens of a result."""
    blocks = result.get("content") or ()
    n_characters = sum(len(str(block.get("text", ""))) for block in blocks if isinstance(block, Mapping))
    if n_characters < _AT_ONCE:
        return tokens_of(result)
    return await in_daemon_thread(partial(tokens_of, result))

"""What came of a call, as text for a model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agent_utilities.catalog.found_tools import SearchResult


def result_text(result: Any) -> str:
    """Return a result as text: of a search as JSON, of a tool its texts, with a word for what is no text.

    Args:
        result: what `ToolRouter.handle` or `ToolRouter.call` returned.
    """
    if isinstance(result, SearchResult):
        return result.text
    if isinstance(result, str):
        return result
    content = getattr(result, "content", None)
    if isinstance(content, Sequence) and not isinstance(content, str):
        return "\n".join(_block_text(block) for block in content)
    return json.dumps(result, ensure_ascii=False, default=str)


def _block_text(block: Any) -> str:
    text = getattr(block, "text", None)
    if not isinstance(text, str):
        # An embedded resource has its text one level deeper.
        text = getattr(getattr(block, "resource", None), "text", None)
    return text if isinstance(text, str) else f"[{getattr(block, 'type', type(block).__name__)}]"

"""The same for `ToolRouter`: results of a client's tools are bounded, and `read_result` is one of its tools."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_utilities.policy.entry_names import READ_RESULT, free_name
from agent_utilities.results.bounded import META_KEY, BoundedResults, Wanted
from agent_utilities.results.kept import Kept, Owner
from agent_utilities.results.reading import READ_RESULT_DESCRIPTION, READ_RESULT_SCHEMA


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A text of a result."""

    text: str
    type: str = "text"


@dataclass(frozen=True, slots=True)
class ShortResult:
    """A result that was shortened, or a part of one, with the names that results of MCP clients have.

    Args:
        content: texts, and the images, sounds and files that fitted, as the client gave them.
        meta: what was left out, under `agent-utilities/result`.
    """

    content: list[Any]
    is_error: bool = False
    meta: Mapping[str, Any] = field(default_factory=dict)


class RoutedResults:
    """Bounds the results that one agent loop gets.

    Args:
        tokens: the budget of each.
        taken: names that `read_result` must not have.
    """

    def __init__(self, tokens: int, taken: Collection[str]) -> None:
        self.reader = free_name(READ_RESULT, taken)
        self._tokens, self._bounded = tokens, BoundedResults(Kept())

    @property
    def definition(self) -> dict[str, Any]:
        """`read_result` as `tools/list` sends it."""
        schema = {**READ_RESULT_SCHEMA}
        return {"name": self.reader, "description": READ_RESULT_DESCRIPTION, "inputSchema": schema}

    async def fitted(self, result: Any, tool: str) -> Any:
        """Return a tool's result, or a `ShortResult` where it is over the budget; what is no result is left alone."""
        wire = as_sent(result)
        if wire is None:
            return result
        wanted = Wanted(self._tokens, has_links=False, reader=self.reader)
        fitted, about = await self._bounded.fitted(wire, wanted, _ALL, tool)
        if not about:
            return result
        texts = [TextBlock(block["text"]) for block in fitted["content"] if block["type"] == "text"]
        media = [block for block in getattr(result, "content", ()) if getattr(block, "type", "") not in _TEXTS]
        n_media = len(fitted["content"]) - len(texts)
        return ShortResult([*texts, *media[:n_media]], bool(wire.get("isError")), {META_KEY: about})

    async def read(self, arguments: Mapping[str, Any]) -> ShortResult:
        """Answer a call of `read_result`.

        Raises:
            InputError: there is no such result, or the arguments can't be meant.
        """
        answer = await self._bounded.read(arguments, _ALL, self._tokens, lambda tool: True, self.reader)
        return ShortResult([TextBlock(text) for text in answer.shown.blocks])


_TEXTS = ("text", "resource")
_ALL = Owner("handle")
"""Whose all results of a router are: it is one agent's."""


def as_sent(result: Any) -> dict[str, Any] | None:
    """Return a result as it is sent; None for what is none."""
    if isinstance(result, str):
        return {"content": [{"type": "text", "text": result}]}
    content = getattr(result, "content", None)
    if not isinstance(content, (list, tuple)) or not all(hasattr(block, "model_dump") for block in content):
        return None
    blocks = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in content]
    wire: dict[str, Any] = {"content": blocks, "isError": bool(getattr(result, "is_error", False))}
    if (structured := getattr(result, "structured_content", None)) is not None:
        wire["structuredContent"] = structured
    return wire

"""What a router gives: tools under names that providers take, results as text, what came of turns and calls."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal

from agent_utilities.catalog.search_result import SearchResult
from agent_utilities.errors import AgentUtilitiesError, InputError

Format = Literal["mcp", "openai", "anthropic"]
_LONGEST = 64
_LEGAL = re.compile(rf"[a-zA-Z0-9_-]{{1,{_LONGEST}}}")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")


def legal_names(names: Iterable[str], taken: Container[str] = ()) -> dict[str, str]:
    """Return, by the name of each tool, one of at most 64 letters, digits, `_` and `-`, no two of them alike.

    A name that is legal stays as it is; any other one ends in digits of a hash of the whole of it, so that what a
    model calls a tool never depends on which other tools there are, nor changes when one comes. None of them may have
    a name that is `taken`, though it be its own.
    """
    names = tuple(names)
    legal = {name: name for name in names if _LEGAL.fullmatch(name) and name not in taken}
    used = set(legal)
    for name in names:
        if name not in legal:
            digits = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
            for n_digits in (8, 16, 32):  # more of them where somebody chose names to collide
                legal[name] = f"{_ILLEGAL.sub('_', name)[: _LONGEST - n_digits - 1]}_{digits[:n_digits]}"
                if legal[name] not in used:
                    break
            used.add(legal[name])
    return legal


def formatted(
    definitions: Iterable[Mapping[str, Any]], legal: Mapping[str, str], host_tools: Container[str], wanted: Format
) -> list[dict[str, Any]]:
    """Return tools as a provider takes them; as `mcp` under their own names, but for those that the host has."""

    def for_models(definition: Mapping[str, Any], schema_key: str) -> dict[str, Any]:
        return {
            "name": legal.get(definition["name"], definition["name"]),
            "description": definition.get("description") or definition.get("title") or "",
            schema_key: {"type": "object", "properties": {}, **definition["inputSchema"]},
        }

    match wanted:
        case "mcp":
            return [
                {**each, "name": legal[each["name"]]} if each["name"] in host_tools else dict(each)
                for each in definitions
            ]
        case "openai":
            return [{"type": "function", "function": for_models(each, "parameters")} for each in definitions]
        case "anthropic":
            return [for_models(each, "input_schema") for each in definitions]
    raise InputError("no such format", wanted, "ToolRouter.tools: format", "give mcp, openai or anthropic")


def result_text(result: Any) -> str:
    """Return what `handle` or `call` returned as text for a model: of a search JSON, of a tool its texts.

    What is no text is told by a word.
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
    text = getattr(getattr(block, "resource", block), "text", None)  # an embedded resource's is one level deeper
    return text if isinstance(text, str) else f"[{getattr(block, 'type', type(block).__name__)}]"


@dataclass(frozen=True, slots=True)
class Turned:
    """What one message changed.

    Args:
        added: names of the tools that it made visible, in order.
        evicted: names of loaded tools that went out for them.
        frozen: whether further messages add nothing: only search, load and calls do.
        cause: why it made nothing visible, and why the ranking was less than it could be, in the words of a list's
            `_meta`; empty where neither is so.
    """

    added: tuple[str, ...] = ()
    evicted: tuple[str, ...] = ()
    n_turns: int = 0
    frozen: bool = False
    cause: str = ""


class ToolArgumentsError(AgentUtilitiesError, ValueError):
    """A tool was called with arguments that do not fit; tells what it said, and what it takes."""

    def __init__(self, error: Exception, told: str, schema: Mapping[str, Any]) -> None:
        self.schema = schema
        super().__init__(f"{error}\n{told}")

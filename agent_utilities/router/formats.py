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
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST = 64


class LegalNames:
    """Names of at most 64 letters, digits, `_` and `-` for tools that may be called anything, and the way back.

    A name that is legal stays as it is; any other one ends in digits of a hash of the whole of it, so that what a
    model calls a tool never depends on which other tools there are, nor changes when one comes.

    Args:
        names: of all the tools.
        taken: names that none of them may have, though it be its own.
    """

    def __init__(self, names: Iterable[str], taken: Container[str] = ()) -> None:
        names = tuple(names)
        self._taken = taken
        self._legal = {name: name for name in names if _is_legal(name) and name not in taken}
        self._original = dict(self._legal)
        for name in names:
            if name not in self._legal:
                legal = self._unused(name)
                self._legal[name], self._original[legal] = legal, name

    def legal(self, name: str) -> str:
        """Return the name under which models know a tool."""
        return self._legal.get(name, name)

    def beside_taken(self, name: str) -> str:
        """Return a tool's own name, unless it is taken: then the one under which models know it."""
        return self.legal(name) if name in self._taken else name

    def original(self, name: str) -> str:
        """Return the tool's own name; a name that stands for no tool is returned as it is."""
        # A tool's own name means that tool, also where another tool's legal name is the same.
        return name if name in self._legal else self._original.get(name, name)

    def _unused(self, name: str) -> str:
        """Return a legal name that is no other tool's; the hash gets longer where somebody chose names to collide."""
        digits = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        written = _ILLEGAL.sub("_", name)
        for n_digits in (8, 16, 32):
            legal = f"{written[: _LONGEST - n_digits - 1]}_{digits[:n_digits]}"
            if legal not in self._original:
                break
        return legal


def _is_legal(name: str) -> bool:
    return 0 < len(name) <= _LONGEST and _ILLEGAL.search(name) is None


def formatted(definitions: Iterable[Mapping[str, Any]], names: LegalNames, wanted: Format) -> list[dict[str, Any]]:
    """Return tools as a provider takes them.

    Raises:
        InputError: no such format.
    """
    match wanted:
        case "mcp":
            return [{**each, "name": names.beside_taken(each["name"])} for each in definitions]
        case "openai":
            return [
                {"type": "function", "function": _for_models(definition, names, "parameters")}
                for definition in definitions
            ]
        case "anthropic":
            return [_for_models(definition, names, "input_schema") for definition in definitions]
    raise InputError("no such format", wanted, "ToolRouter.tools: format", "give mcp, openai or anthropic")


def _for_models(definition: Mapping[str, Any], names: LegalNames, schema_key: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {}, **definition["inputSchema"]}
    return {
        "name": names.legal(definition["name"]),
        "description": definition.get("description") or definition.get("title") or "",
        schema_key: schema,
    }


def result_text(result: Any) -> str:
    """Return a result as text: of a search as JSON, of a tool its texts, with a word for what is no text."""
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


@dataclass(frozen=True, slots=True)
class Turned:
    """What one message changed.

    Args:
        added: names of the tools that it made visible, in order.
        evicted: names of loaded tools that went out for them.
        n_turns: how many turns there were so far.
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

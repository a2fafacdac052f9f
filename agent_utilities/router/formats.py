"""Tools as models' providers take them, under names that they take."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from hashlib import blake2b
from typing import Any, Literal

from agent_utilities.errors import InputError

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

    Args:
        definitions: as `tools/list` sends them.
        names: of all the tools.
        wanted: `mcp` leaves them as they are; `openai` is what chat completions take; `anthropic` what messages take.

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

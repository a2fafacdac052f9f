"""One line for a model that called a tool with wrong arguments: what, the value, what would do."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pydantic import ValidationError

from agent_utilities.selection.model import nearest

_N_TOLD = 5
_VALUE_LIMIT = 80
_MISSING = frozenset({"missing", "missing_argument", "missing_keyword_only_argument"})
_UNKNOWN = frozenset({"unexpected_keyword_argument", "extra_forbidden"})


def explain_arguments(tool: str, error: ValidationError, parameters: Collection[str]) -> str:
    """Return what is wrong with a call's arguments, without pydantic's own layout and links.

    Args:
        tool: the tool's name.
        error: what validating the arguments raised.
        parameters: the names of the tool's arguments.
    """
    errors = error.errors(include_url=False, include_context=False)
    told = [_explained(entry, parameters) for entry in errors[:_N_TOLD]]
    if len(errors) > _N_TOLD:
        told.append(f"and {len(errors) - _N_TOLD} more")
    return f"wrong arguments for {tool}: {'; '.join(told)}"


def _explained(entry: Any, parameters: Collection[str]) -> str:
    name = ".".join(map(str, entry["loc"]))
    if entry["type"] in _MISSING:
        return f"{name!r} is missing"
    if entry["type"] in _UNKNOWN and len(entry["loc"]) == 1:
        near = nearest(name, parameters)
        takes = f"it takes {', '.join(parameters)}" if parameters else "it takes none"
        return f"there is no {name!r}, {f'did you mean {near!r}?' if near else takes}"
    value = repr(entry["input"])
    shown = value if len(value) <= _VALUE_LIMIT else value[: _VALUE_LIMIT - 1] + "…"
    wanted = " ".join(entry["msg"].split())
    return f"{name!r} is {shown}, {wanted[:1].lower()}{wanted[1:]}"

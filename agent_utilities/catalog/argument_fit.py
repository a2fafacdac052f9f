"""Whether a call failed for its arguments, and what a model is told then."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_SAID = ("wrong arguments for ", "invalid arguments for ")
_N_CHARACTERS = 200


def explained(name: str, said: str, arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> str | None:
    """Return what a model is told beside a tool's error, its schema, where the arguments are what is wrong; else None.

    Args:
        name: the tool's.
        said: its error, as text.
        arguments: what it was called with.
        schema: its input schema.
    """
    is_said = said.lower().startswith(_SAID)
    wrong = None if is_said else misfit(arguments, schema)
    if not is_said and wrong is None:
        return None
    takes = f"{name} takes: {json.dumps(schema, ensure_ascii=False, separators=(',', ':'))}"
    return takes if wrong is None else f"{wrong}. {takes}"


def misfit(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> str | None:
    """Return what of a call's arguments its tool's input schema refuses; None where it refuses nothing."""
    from jsonschema import Draft202012Validator

    try:
        error = next(iter(Draft202012Validator(dict(schema)).iter_errors(dict(arguments))), None)
    except Exception:  # somebody else's schema may be anything
        return None
    if error is None:
        return None
    where = ".".join(map(str, error.absolute_path))
    what = error.message if len(error.message) <= _N_CHARACTERS else f"{error.message[: _N_CHARACTERS - 1]}…"
    return f"wrong arguments: {where + ': ' if where else ''}{what}"

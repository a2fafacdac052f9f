"""Whether a call failed for its arguments, and what a model is told then."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

_SAID = ("wrong arguments for ", "invalid arguments for ")
_N_SAID = max(map(len, _SAID))
_MOST = 200
"""The most characters that are told of what is wrong."""
_MOST_BYTES = 100_000
"""Longer arguments are not checked: it is done between two turns of the event loop."""
_REFERENCE = re.compile(r"\$(?:dynamicRef|recursiveRef|ref)\b")
_MOST_REFERENCES = 20
"""A schema of more is not tried: each may double what is checked, and thirty of them take hours."""


def explained(
    name: str, said: str, arguments: Mapping[str, Any], schema: Mapping[str, Any], *, is_checked: bool = True
) -> str | None:
    """Return what a model is told beside a tool's error, its schema, where the arguments are what is wrong; else None.

    Args:
        said: its error, as text.
        is_checked: whether arguments that the schema refuses are wrong where the error does not say so; a tool that
            always says so may take more than its schema does.
    """
    is_said = said[:_N_SAID].lower().startswith(_SAID)
    wrong = wrong_arguments(schema, arguments) if is_checked and not is_said else None
    if not is_said and wrong is None:
        return None
    takes = f"{name} takes: {json.dumps(schema, ensure_ascii=False, separators=(',', ':'))}"
    return takes if wrong is None else f"{wrong}. {takes}"


def wrong_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    """Return what of the arguments a schema refuses; None where it refuses nothing, or can't be told safely.

    Schemas of upstreams are a stranger's. What one refers to elsewhere is not fetched, and its patterns, which can take
    hours on the right text, are not tried, nor is one that refers to itself over and over.
    """
    from referencing import Registry  # it fetches nothing

    try:
        if len(repr(arguments)) > _MOST_BYTES or len(_REFERENCE.findall(repr(schema))) > _MOST_REFERENCES:
            return None
        error = next(_validator()(dict(schema), registry=Registry()).iter_errors(dict(arguments)), None)
    except Exception:  # an upstream's schema may be anything
        return None
    if error is None:
        return None
    where = ".".join(map(str, error.absolute_path))
    what = error.message if len(error.message) <= _MOST else error.message[: _MOST - 1] + "…"
    return f"wrong arguments: {where + ': ' if where else ''}{what}"


@cache
def _validator() -> Any:
    """Return the validator, without what takes a pattern of the schema's; `additionalProperties` reads patterns too."""
    from jsonschema import Draft202012Validator, validators

    untried = dict.fromkeys(("pattern", "patternProperties", "unevaluatedProperties"))
    own = Draft202012Validator.VALIDATORS["additionalProperties"]

    def additional(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        return () if "patternProperties" in schema else own(validator, value, instance, schema)

    validator: Any = validators.extend(  # type: ignore[no-untyped-call]
        Draft202012Validator, {**untried, "additionalProperties": additional}
    )
    return validator

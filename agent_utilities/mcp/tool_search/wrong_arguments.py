"""What of a call's arguments a tool's schema refuses: told to a model that was never listed the schema."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

_MOST = 200
"""The most characters that are told."""
_MOST_BYTES = 100_000
"""Longer arguments are not checked: it is done between two turns of the event loop."""


def wrong_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    """Return what of the arguments a schema refuses; None where it refuses nothing, or can't be told safely.

    Schemas of upstreams are a stranger's. What one refers to elsewhere is not fetched, and its patterns, which can take
    hours on the right text, are not tried.

    Args:
        schema: the tool's.
        arguments: of a call of it that failed.
    """
    try:
        if len(repr(arguments)) > _MOST_BYTES:
            return None
        error = next(_validator()(dict(schema), registry=_no_registry()).iter_errors(dict(arguments)), None)
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


@cache
def _no_registry() -> Any:
    """Return a registry that fetches nothing."""
    from referencing import Registry

    return Registry()

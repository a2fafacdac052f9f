"""JSON of all kinds, and what servers send in it: by a source of chance, so that one seed gives the same every time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Json = Any
Message = dict[str, Any]

WORDS = (
    *("", "a", "plain text", "Grüße, 世界 \U0001f600", 'line\nbreak\tand \\ and "quotes"', "\x00\x01\x1f"),
    *("\u2028\u2029\x85\ufeff\x7f", "__proto__", "constructor", "null", "{}", "data: x", "</script>"),
    *("é" * 300, "\ud7ff\ue000"),
)
"""Texts; what looks like a frame, a key or a type is among them."""
KEYS = (
    *("a", "b", "name", "", "$ref", "a.b", "ключ", "with space", "_meta", "type", "__proto__", "jsonrpc", "id"),
    "model_config",
)
NUMBERS = (0, 1, -1, 2**31, 2**53 + 1, -(2**63) - 1, 10**30, 0.5, -0.0, 1.0, 1e-7, 1e300, 5e-324)
HALF_A_CHARACTER = "cut off \ud83d"
"""What is left of a character where a server cuts a text in its middle: JSON can write it, and UTF-8 can't."""


def some(rng: Random, depth: int = 3) -> Json:
    """Return any JSON."""
    kind = rng.randrange(8 if depth else 5)
    if kind == 0:
        return rng.choice((None, True, False))
    if kind in (1, 2):
        return rng.choice(NUMBERS)
    if kind in (3, 4):
        return rng.choice(WORDS)
    if kind == 5:
        return [some(rng, depth - 1) for _ in range(rng.randrange(4))]
    return some_object(rng, depth)


def some_object(rng: Random, depth: int = 3) -> Message:
    """Return any JSON object."""
    return {rng.choice(KEYS): some(rng, depth - 1) for _ in range(rng.randrange(4))}


def perhaps(rng: Random, share: float, **made: Callable[[], Json]) -> Message:
    """Return each of the keys with such a probability."""
    return {key: make() for key, make in made.items() if rng.random() < share}


def own_meta(rng: Random) -> Json:
    """Return a `_meta` of a server's own."""
    return {rng.choice(("example.org/a", "note", "", "ui")): some(rng, 2) for _ in range(rng.randrange(1, 3))}


# -- schemas -----------------------------------------------------------------------------------------------------------

_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null", ["string", "null"])


def schema(rng: Random, depth: int = 3) -> Json:
    """Return a schema that JSON Schema 2020-12 takes, of any kind."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice((True, False, {}, {"type": "string"}, {"const": None}, {"enum": [1, "a", None, {"b": []}]}))
    kind = rng.randrange(9)

    def inner() -> Json:
        return schema(rng, depth - 1)

    if kind == 0:
        return {"type": "array", "items": inner(), **perhaps(rng, 0.3, prefixItems=lambda: [inner(), inner()])}
    if kind == 1:
        return {rng.choice(("anyOf", "oneOf", "allOf")): [inner() for _ in range(rng.randrange(1, 4))]}
    if kind == 2:
        return {"type": rng.choice(_TYPES), "x-unknown": some(rng), "format": "no such format"}
    if kind == 3:
        return {"$ref": "#/$defs/a", "$defs": {"a": inner(), "b": {"$ref": "#/$defs/a"}}}
    if kind == 4:
        return {"if": inner(), "then": inner(), "else": inner(), "not": inner()}
    if kind == 5:
        return {"$schema": "http://json-schema.org/draft-07/schema#", "type": "string", "pattern": "^\\p{L}+$"}
    return object_schema(rng, depth)


def object_schema(rng: Random, depth: int = 3) -> Message:
    """Return a schema of an object, as tools' arguments have."""
    properties = {rng.choice(KEYS) or "p": schema(rng, depth - 1) for _ in range(rng.randrange(4))}
    made: Message = {"type": "object", "properties": properties}
    made |= perhaps(
        rng,
        0.15,
        required=lambda: list(properties),
        additionalProperties=lambda: rng.choice((False, True, {"type": "string"})),
        description=lambda: rng.choice(WORDS),
        title=lambda: rng.choice(WORDS),
        patternProperties=lambda: {"^x-": True},
        default=lambda: some(rng),
        examples=lambda: [some(rng)],
        minProperties=lambda: 0,
    )
    if rng.random() < 0.2:
        made |= {"$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}}}
        made["properties"]["tree"] = {"$ref": "#/$defs/Node"}
    if rng.random() < 0.1:
        made |= {rng.choice(("anyOf", "oneOf", "allOf")): [schema(rng, 1), schema(rng, 1)]}
    if rng.random() < 0.03:
        made["properties"] |= {f"p{n}": {"type": "string", "description": "x" * 200} for n in range(400)}
    if rng.random() < 0.05:
        made["properties"]["deep"] = nested(rng.randrange(20, 90))
    return made


def nested(depth: int) -> Message:
    """Return a schema within a schema, and so on."""
    made: Message = {"type": "string"}
    for _ in range(depth):
        made = {"type": "object", "properties": {"a": made}}
    return made


ILLEGAL: Sequence[Json] = (
    {"type": "object", "required": "a"},
    {"type": "object", "required": None},
    {"type": "object", "properties": {"a": None}},
    {"type": "object", "properties": {"a": "string"}},
    {"type": "object", "properties": []},
    {"type": "object", "properties": None},
    {"type": "Object"},
    {"type": None},
    {"type": 5, "$schema": 7},
    {"$ref": "#/$defs/absent"},
    {"type": "object", "properties": {"a": {"$ref": "#"}}, "$ref": "#"},
    "object",
    [],
    None,
    7,
)
"""Schemas that are none, as servers send them all the same."""


def any_schema(rng: Random, share_illegal: float) -> Json:
    """Return a schema for a tool, legal or not."""
    return rng.choice(ILLEGAL) if rng.random() < share_illegal else schema(rng)

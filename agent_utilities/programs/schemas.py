"""What the JSON schemas of tools say, as types: any JSON value is read, and what is not understood is `Any`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, TypeAlias

MAX_FIELDS, _MAX_LEVELS, _MAX_READ = 60, 8, 600
"""Parameters and keys of a tool, levels of a schema, and how many of its parts are read."""
_MAX_KEY, _MAX_CHOICE, _MAX_UNION, _MAX_CHOICES = 100, 60, 8, 40
_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_OF_VALUES: dict[type, Kind] = {str: "str", bool: "bool", int: "int", float: "float", type(None): "None"}


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some values, each as a literal."""

    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Many:
    """A `list` or `dict` of items."""

    container: str
    item: Kind


@dataclass(frozen=True, slots=True)
class OneOf:
    members: tuple[Kind, ...]


@dataclass(frozen=True, slots=True)
class Field:
    key: str
    kind: Kind
    is_required: bool


@dataclass(frozen=True, slots=True)
class Object:
    """An object with known keys; an open one may have others, as its schema says in so many words."""

    fields: tuple[Field, ...]
    is_open: bool


Kind: TypeAlias = "str | Choice | Many | OneOf | Object"
"""A type: the name of a plain one, or one made of others."""
_ANY_OBJECT = Many("dict", "Any")


class _Reader:
    """Reads a schema, of which as much as the bounds allow; the rest is `Any`."""

    def __init__(self, root: object) -> None:
        self._root, self._n_left, self._n_fields = root, _MAX_READ, MAX_FIELDS

    def kind(self, schema: object, within: tuple[str, ...] = ()) -> Kind:
        """Return the type that a schema describes.

        Args:
            within: the references that were followed to get there, and a `""` for each other level.
        """
        self._n_left -= 1
        if not isinstance(schema, dict) or self._n_left < 0 or len(within) >= _MAX_LEVELS:
            return "Any"
        kind = self._kind(schema, within)
        return self._union([kind, "None"]) if schema.get("nullable") is True else kind

    def _kind(self, schema: dict[str, Any], within: tuple[str, ...]) -> Kind:
        reference, below = schema.get("$ref"), (*within, "")
        if isinstance(reference, str):
            return "Any" if reference in within else self.kind(self.at(reference), (*within, reference))
        if "const" in schema:
            return self._choice([schema["const"]])
        if isinstance(schema.get("enum"), list):
            return self._choice(schema["enum"])
        if isinstance(schema.get("properties"), dict) and schema["properties"]:
            return self._object(schema, below)
        for key in ("anyOf", "oneOf", "allOf"):
            members = schema.get(key)
            if isinstance(members, list) and 0 < len(members) <= (1 if key == "allOf" else _MAX_UNION):
                return self._union([self.kind(each, below) for each in members])
        kinds = schema.get("type")
        if isinstance(kinds, list) and 0 < len(kinds) <= _MAX_UNION:
            return self._union([self._of_type(each, schema, below) for each in kinds])
        return self._of_type(kinds, schema, below)

    def _of_type(self, name: object, schema: dict[str, Any], within: tuple[str, ...]) -> Kind:
        if name == "array":
            items = schema.get("items")
            return Many("list", "Any" if "prefixItems" in schema else self.kind(items, within))
        if name == "object":
            return Many("dict", self.kind(schema.get("additionalProperties"), within))
        return _PLAIN.get(name, "Any") if isinstance(name, str) else "Any"

    def _object(self, schema: dict[str, Any], within: tuple[str, ...]) -> Kind:
        properties, required = schema["properties"], _required(schema)
        self._n_fields -= len(properties)
        if self._n_fields < 0 or not all(len(key) <= _MAX_KEY and key.isprintable() for key in properties):
            return _ANY_OBJECT
        fields = (Field(key, self.kind(each, within), key in required) for key, each in properties.items())
        return Object(tuple(fields), _is_open(schema))

    def at(self, reference: str) -> object:
        """Return the part of the schema that a JSON pointer names; None where there is none."""
        found = self._root if reference == "#" or reference.startswith("#/") else None
        for key in reference.split("/")[1 : 2 * _MAX_LEVELS]:
            found = found.get(key.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        return found

    def _choice(self, values: list[Any]) -> Kind:
        texts = [_literal(each) for each in values[: _MAX_CHOICES + 1]]
        if 0 < len(values) <= _MAX_CHOICES and None not in texts:
            return Choice(tuple(dict.fromkeys(text for text in texts if text is not None)))
        kinds = sorted({type(each) for each in values}, key=lambda kind: kind.__name__)
        return self._union([_OF_VALUES.get(kind, "Any") for kind in kinds] or ["Any"])

    def _union(self, kinds: list[Kind]) -> Kind:
        flat = chain.from_iterable(each.members if isinstance(each, OneOf) else [each] for each in kinds)
        members = tuple(dict.fromkeys(flat))
        if "Any" in members or len(members) > _MAX_UNION:
            return "Any"
        return members[0] if len(members) == 1 else OneOf(members)


def _required(schema: dict[str, Any]) -> set[str]:
    names = schema.get("required")
    return {each for each in islice(names, _MAX_READ) if isinstance(each, str)} if isinstance(names, list) else set()


def _is_open(schema: dict[str, Any]) -> bool:
    others = schema.get("additionalProperties", False)
    return others is True or isinstance(others, dict) or isinstance(schema.get("patternProperties"), dict)


def _literal(value: object) -> str | None:
    """Return a value as Python has it in `Literal`; None where it isn't short or can't stand there."""
    if isinstance(value, str):
        return quoted(value) if len(value) <= _MAX_CHOICE and value.isprintable() else None
    is_short = value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) < 1 << 63)
    return repr(value) if is_short else None


def result_of(schema: object) -> Kind:
    """Return the type of what a program gets; FastMCP wraps what is no object, and the program gets what is inside."""
    reader = _Reader(schema)
    properties = schema.get("properties") if isinstance(schema, dict) else None
    is_wrapped = isinstance(schema, dict) and schema.get("x-fastmcp-wrap-result") is True
    if is_wrapped and isinstance(properties, dict) and list(properties) == ["result"]:
        return reader.kind(properties["result"])
    return reader.kind(schema)


def parameters_of(schema: object) -> tuple[tuple[Field, ...], bool]:
    """Return a tool's parameters, required ones first, and whether it may take others."""
    reader = _Reader(schema)
    for _ in range(_MAX_LEVELS):
        if isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
            schema = reader.at(schema["$ref"])
    if not isinstance(schema, dict):
        return (), True
    given, required = schema.get("properties"), _required(schema)
    properties = given if isinstance(given, dict) else {}
    names = sorted(dict.fromkeys((*properties, *sorted(required))), key=lambda key: key not in required)
    fields = [Field(key, reader.kind(properties.get(key, True)), key in required) for key in names[:MAX_FIELDS]]
    is_open = not isinstance(given, dict) or len(names) > MAX_FIELDS or not schema.keys().isdisjoint(_COMBINED)
    return tuple(fields), is_open or _is_open(schema)


_COMBINED = ("allOf", "anyOf", "oneOf", "if", "$ref")
"""A tool's own schema with one of these may take what its properties don't say."""


def quoted(text: str) -> str:
    """Return a Python literal of a text, all of whose characters are printable."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

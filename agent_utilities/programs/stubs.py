"""Tools as Python functions: their names, their signatures, and a call's arguments as the tool's own.

Names, descriptions and schemas are a stranger's. Nothing of them gets into a stub but identifiers that are made here,
and literals of printable characters.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, TypeAlias

from agent_utilities.errors import InputError

MODULES = frozenset(
    "asyncio base64 binascii bisect collections copy csv dataclasses datetime decimal functools hashlib itertools json"
    " math os pathlib random re sys time tomllib typing unicodedata".split()
)
"""What a program can import."""

_TYPES = frozenset(("Any", "Literal", "NotRequired", "TypedDict"))
_KEYWORDS = frozenset((*keyword.kwlist, "__debug__"))
_TAKEN = _KEYWORDS | MODULES | _TYPES | frozenset(dir(builtins))
"""Names that programs use for something else than a tool."""
_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_OF_VALUES: dict[type, _Kind] = {str: "str", bool: "bool", int: "int", float: "float", type(None): "None"}
_NOT_SEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_MAX_NAME, _MAX_KEY, _MAX_CHOICE, _MAX_SAID = 64, 100, 60, 200
_MAX_FIELDS, _MAX_STUB, _MAX_LEVELS, _MAX_READ = 60, 4_000, 8, 600
"""Parameters and keys of a stub, its characters, levels of a schema, and how many of its parts are read."""
_MAX_UNION, _MAX_CHOICES = 8, 40


@dataclass(frozen=True, slots=True)
class Stub:
    """A tool as an async function that takes keyword arguments.

    Args:
        parameters: the schema's property by the function's parameter.
        text: the function, such as `async def list_issues(*, repo: str) -> ListIssuesResult: ...`.
        types: the `TypedDict`s that it names; may be empty.
        compact: the function for a model to read, such as `list_issues(repo: str) -> {items: list[str]}`.
    """

    python_name: str
    tool_name: str
    parameters: Mapping[str, str]
    text: str
    types: str
    compact: str


# -- names -------------------------------------------------------------------------------------------------------------


def python_names(names: Sequence[str]) -> dict[str, str]:
    """Return the Python name of each tool name, in order.

    What is a legal name stays, whatever the others are. It has at most 64 characters that can be seen, is no keyword,
    builtin or module, and doesn't begin with `_`, which the type checker takes for private. Names that Python would
    take for the same one (it reads `ﬁnd` as `find`) differ.

    >>> python_names(["git-log", "list", "git_log", "9lives"])
    {'git-log': 'git_log_2', 'list': 'list_', 'git_log': 'git_log', '9lives': 'tool_9lives'}
    """
    return _named(names, _TAKEN, "tool")


def _named(names: Iterable[str], taken: frozenset[str], prefix: str) -> dict[str, str]:
    """Return an identifier for each name; for parameters, which may begin with `_`, `prefix` is `arg`."""
    order = list(dict.fromkeys(names))
    legal = {name for name in order if _is_legal(name, taken) and not (prefix == "tool" and name.startswith("_"))}
    used, named, last = set(legal), dict[str, str](), dict[str, int]()
    for name in order:
        if name in legal:
            named[name] = name
            continue
        base = _identifier(name, prefix)
        candidate = base = f"{base}_" if base in taken else base
        while candidate in used:  # from the last number on: a thousand tools may have one base
            last[base] = last.get(base, 1) + 1
            candidate = f"{base}_{last[base]}"
        used.add(candidate)
        named[name] = candidate
    return named


def _is_legal(name: str, taken: frozenset[str]) -> bool:
    is_plain = len(name) <= _MAX_NAME and name.isidentifier() and name not in taken
    return is_plain and unicodedata.normalize("NFKC", name) == name and all(map(_is_part, name))


def _is_part(character: str) -> bool:
    """Return whether a character is a letter, a mark on one or a digit, by Python and by Monty, and can be seen."""
    is_read = f"a{character}".isidentifier() and unicodedata.category(character)[0] in "LMN"
    return character == "_" or (is_read and not _NOT_SEEN.match(character))


def _identifier(name: str, prefix: str) -> str:
    """Return a name's letters, digits and `_`, as Python normalises them; what else it has becomes `_`."""
    text = unicodedata.normalize("NFKC", name[:_MAX_NAME])
    text = "".join(each if _is_part(each) else "_" for each in text)
    text = text[:_MAX_NAME].strip("_")
    return text if text.isidentifier() else f"{prefix}_{text}".rstrip("_")


def _quoted(text: str) -> str:
    """Return a Python literal of a text, all of whose characters are printable."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


# -- what a schema says ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Choice:
    """One of some values, each as a literal."""

    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Many:
    """A `list` or `dict` of items."""

    container: str
    item: _Kind


@dataclass(frozen=True, slots=True)
class _Union:
    members: tuple[_Kind, ...]


@dataclass(frozen=True, slots=True)
class _Field:
    key: str
    kind: _Kind
    is_required: bool


@dataclass(frozen=True, slots=True)
class _Object:
    """An object with known keys; an open one may have others, as its schema says in so many words."""

    fields: tuple[_Field, ...]
    is_open: bool


_Kind: TypeAlias = "str | _Choice | _Many | _Union | _Object"
"""A type: the name of a plain one, or one made of others."""
_ANY_OBJECT = _Many("dict", "Any")


class _Reader:
    """Reads a schema, of which as much as the bounds allow; the rest is `Any`."""

    def __init__(self, root: object) -> None:
        self._root, self._n_left, self._n_fields = root, _MAX_READ, _MAX_FIELDS

    def kind(self, schema: object, within: tuple[str, ...] = ()) -> _Kind:
        """Return the type that a schema describes.

        Args:
            within: the references that were followed to get there, and a `""` for each other level.
        """
        self._n_left -= 1
        if not isinstance(schema, dict) or self._n_left < 0 or len(within) >= _MAX_LEVELS:
            return "Any"
        kind = self._kind(schema, within)
        return self._union([kind, "None"]) if schema.get("nullable") is True else kind

    def _kind(self, schema: dict[str, Any], within: tuple[str, ...]) -> _Kind:
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

    def _of_type(self, name: object, schema: dict[str, Any], within: tuple[str, ...]) -> _Kind:
        if name == "array":
            items = schema.get("items")
            return _Many("list", "Any" if "prefixItems" in schema else self.kind(items, within))
        if name == "object":
            return _Many("dict", self.kind(schema.get("additionalProperties"), within))
        return _PLAIN.get(name, "Any") if isinstance(name, str) else "Any"

    def _object(self, schema: dict[str, Any], within: tuple[str, ...]) -> _Kind:
        properties, required = schema["properties"], _required(schema)
        self._n_fields -= len(properties)
        if self._n_fields < 0 or not all(len(key) <= _MAX_KEY and key.isprintable() for key in properties):
            return _ANY_OBJECT
        fields = (_Field(key, self.kind(each, within), key in required) for key, each in properties.items())
        return _Object(tuple(fields), _is_open(schema))

    def at(self, reference: str) -> object:
        """Return the part of the schema that a JSON pointer names; None where there is none."""
        found = self._root if reference == "#" or reference.startswith("#/") else None
        for key in reference.split("/")[1 : 2 * _MAX_LEVELS]:
            found = found.get(key.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        return found

    def _choice(self, values: list[Any]) -> _Kind:
        texts = [_literal(each) for each in values[: _MAX_CHOICES + 1]]
        if 0 < len(values) <= _MAX_CHOICES and None not in texts:
            return _Choice(tuple(dict.fromkeys(text for text in texts if text is not None)))
        kinds = sorted({type(each) for each in values}, key=lambda kind: kind.__name__)
        return self._union([_OF_VALUES.get(kind, "Any") for kind in kinds] or ["Any"])

    def _union(self, kinds: list[_Kind]) -> _Kind:
        flat = chain.from_iterable(each.members if isinstance(each, _Union) else [each] for each in kinds)
        members = tuple(dict.fromkeys(flat))
        if "Any" in members or len(members) > _MAX_UNION:
            return "Any"
        return members[0] if len(members) == 1 else _Union(members)


def _required(schema: dict[str, Any]) -> set[str]:
    names = schema.get("required")
    return {each for each in islice(names, _MAX_READ) if isinstance(each, str)} if isinstance(names, list) else set()


def _is_open(schema: dict[str, Any]) -> bool:
    others = schema.get("additionalProperties", False)
    return others is True or isinstance(others, dict) or isinstance(schema.get("patternProperties"), dict)


def _literal(value: object) -> str | None:
    """Return a value as Python has it in `Literal`; None where it isn't short or can't stand there."""
    if isinstance(value, str):
        return _quoted(value) if len(value) <= _MAX_CHOICE and value.isprintable() else None
    is_short = value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) < 1 << 63)
    return repr(value) if is_short else None


def _result(schema: object) -> _Kind:
    """Return the type of what a program gets; FastMCP wraps what is no object, and the program gets what is inside."""
    reader = _Reader(schema)
    properties = schema.get("properties") if isinstance(schema, dict) else None
    is_wrapped = isinstance(schema, dict) and schema.get("x-fastmcp-wrap-result") is True
    if is_wrapped and isinstance(properties, dict) and list(properties) == ["result"]:
        return reader.kind(properties["result"])
    return reader.kind(schema)


def _parameters(schema: object) -> tuple[tuple[_Field, ...], bool]:
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
    fields = [_Field(key, reader.kind(properties.get(key, True)), key in required) for key in names[:_MAX_FIELDS]]
    is_open = not isinstance(given, dict) or len(names) > _MAX_FIELDS or not schema.keys().isdisjoint(_COMBINED)
    return tuple(fields), is_open or _is_open(schema)


_COMBINED = ("allOf", "anyOf", "oneOf", "if", "$ref")
"""A tool's own schema with one of these may take what its properties don't say."""


# -- what is written ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Writer:
    """Writes types as Python has them, and the `TypedDict`s that they name."""

    classes: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=lambda: set(_TAKEN))

    def annotation(self, kind: _Kind, name: str) -> str:
        """Return a type as an annotation; `name` is what its class is called if it has one."""
        if isinstance(kind, str):
            return kind
        if isinstance(kind, _Choice):
            return f"Literal[{', '.join(kind.values)}]"
        if isinstance(kind, _Many):
            item = self.annotation(kind.item, name)
            return f"list[{item}]" if kind.container == "list" else f"dict[str, {item}]"
        if isinstance(kind, _Union):
            return " | ".join(self.annotation(each, name) for each in kind.members)
        return self._class(kind, name)

    def _class(self, kind: _Object, name: str) -> str:
        own, n = name, 1
        while own in self.names:
            n += 1
            own = f"{name}_{n}"
        self.names.add(own)
        fields = [(each.key, self._field(each, name)) for each in kind.fields]
        others = ", extra_items=Any" if kind.is_open else ""
        if all(_is_legal(key, _TAKEN) and not key.startswith("__") for key, _ in fields):
            lines = "".join(f"\n    {key}: {text}" for key, text in fields)
            self.classes.append(f"class {own}(TypedDict{others}):{lines}")
        else:  # a key such as `str` would hide the type of that name from the keys below it
            pairs = ", ".join(f"{_quoted(key)}: {text}" for key, text in fields)
            self.classes.append(f'{own} = TypedDict("{own}", {{{pairs}}}{others})')
        return own

    def _field(self, each: _Field, name: str) -> str:
        text = self.annotation(each.kind, f"{name}{_camel(each.key)}"[:_MAX_NAME])
        return text if each.is_required else f"NotRequired[{text}]"


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in _identifier(name, "arg").split("_"))


def _compact(kind: _Kind) -> str:
    """Return a type in few tokens: `{title: str, state?: "open"|"closed"}`."""
    if isinstance(kind, str):
        return kind
    if isinstance(kind, _Choice):
        return "|".join(kind.values)
    if isinstance(kind, _Many):
        item = "" if kind.item == "Any" else f"[{_compact(kind.item)}]"
        return f"{kind.container}{item}"
    if isinstance(kind, _Union):
        return "|".join(map(_compact, kind.members))
    keys = [_pair(each.key if each.key.isidentifier() else _quoted(each.key), each) for each in kind.fields]
    return f"{{{', '.join([*keys, *(['…'] if kind.is_open else [])])}}}"


def _pair(name: str, each: _Field) -> str:
    mark = "" if each.is_required else "?"
    return f"{name}{mark}" if each.kind == "Any" else f"{name}{mark}: {_compact(each.kind)}"


def stub_of(name: str, python_name: str, input_schema: object, output_schema: object, description: str = "") -> Stub:
    """Return a tool as a function, in at most 4,000 characters and with about 60 keys; what is over is `Any`.

    Args:
        python_name: one of `python_names`.
        input_schema: any JSON value; what is not understood is `Any`.
        output_schema: the same; None where the tool has none.
        description: its first line is the function's docstring, of at most 200 characters.
    """
    fields, is_open = _parameters(input_schema)
    said = _said(description)
    plain = tuple(replace(each, kind="Any") for each in fields)
    result = _result(output_schema)
    for parameters, returned in ((fields, result), (fields, "Any"), (plain, "Any")):
        stub = _written(name, python_name, parameters, is_open, returned, said)
        if len(stub.text) + len(stub.types) <= _MAX_STUB:
            return stub
    return _written(name, python_name, (), True, "Any", said)


def any_stub(stub: Stub) -> Stub:
    """Return a stub that takes and returns anything."""
    text = f"async def {stub.python_name}(**arguments: Any) -> Any: ..."
    return replace(stub, text=text, types="", compact=f"{stub.python_name}(…)")


def _said(description: str) -> str:
    line = next((line for line in description[: 4 * _MAX_SAID].splitlines() if line.strip()), "")
    seen = "".join(each if each.isprintable() and not _NOT_SEEN.match(each) else " " for each in line)
    return " ".join(seen.split())[:_MAX_SAID]


def _written(name: str, python_name: str, fields: tuple[_Field, ...], is_open: bool, result: _Kind, said: str) -> Stub:
    writer, class_name = _Writer(), _camel(python_name)
    named = _named((each.key for each in fields), _KEYWORDS, "arg")
    signature = ["*"] if fields else []
    for each in fields:
        kind = writer.annotation(each.kind, f"{class_name}{_camel(each.key)}"[:_MAX_NAME])
        signature.append(f"{named[each.key]}: {kind}{'' if each.is_required else ' = ...'}")
    others = _free("arguments", named.values())
    returned = writer.annotation(result, f"{class_name}Result"[:_MAX_NAME])
    head = f"async def {python_name}({', '.join([*signature, *([f'**{others}: Any'] if is_open else [])])})"
    shown = [_pair(named[each.key], each) for each in fields] + (["…"] if is_open else [])
    arrow = "" if result == "Any" else f" -> {_compact(result)}"
    return Stub(
        python_name,
        name,
        MappingProxyType({named[each.key]: each.key for each in fields}),
        f"{head} -> {returned}:\n    {_quoted(said)}" if said else f"{head} -> {returned}: ...",
        "\n".join(writer.classes),
        f"{python_name}({', '.join(shown)}){arrow}{f'  # {said}' if said else ''}",
    )


def _free(name: str, taken: Iterable[str]) -> str:
    used = set(taken)
    while name in used:
        name += "_"
    return name


def stubs_text(stubs: Iterable[Stub]) -> str:
    """Return the module that the type checker reads beside a program.

    Where two tools would have a class, or a class and a tool, of one name, the later tool takes and returns `Any`.
    """
    parts, taken = [f"from typing import {', '.join(sorted(_TYPES))}"], set[str]()
    order = list(stubs)
    functions = {stub.python_name for stub in order}
    for stub in order:
        own = class_names(stub.types).keys()
        is_alone = own.isdisjoint(taken | functions)
        taken |= own
        shown = stub if is_alone else any_stub(stub)
        parts += [text for text in (shown.types, shown.text) if text]
    return "\n".join(parts) + "\n"


def class_names(types: str) -> dict[str, tuple[str, ...]]:
    """Return the keys of each `TypedDict` of a stub, by its name."""
    found: dict[str, tuple[str, ...]] = {}
    for node in ast.parse(types).body:
        if isinstance(node, ast.ClassDef):
            names = (each.target for each in node.body if isinstance(each, ast.AnnAssign))
            found[node.name] = tuple(each.id for each in names if isinstance(each, ast.Name))
        elif (
            isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.targets[0], ast.Name)
        ):
            keys = node.value.args[1].keys if isinstance(node.value.args[1], ast.Dict) else []
            found[node.targets[0].id] = tuple(str(key.value) for key in keys if isinstance(key, ast.Constant))
    return found


def compact_text(stubs: Iterable[Stub]) -> str:
    """Return the functions as a model reads them, a line each: `?` marks what may be left out, or may be missing."""
    return "\n".join(stub.compact for stub in stubs)


def arguments_of(stub: Stub, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call's arguments by the tool's own names; unknown ones stay, for the tool's validation to answer.

    Raises:
        InputError: an argument is positional, or two are one of the tool's.
    """
    source = f"call of {stub.python_name}"
    names = ", ".join(islice(stub.parameters, _MAX_FIELDS)) or "none"
    if args:
        raise InputError("arguments are given by name", args[0], source, f"it takes {names}")
    arguments: dict[str, Any] = {}
    for key, value in kwargs.items():
        own = stub.parameters.get(key, key)
        if own in arguments:
            raise InputError("an argument is given twice", key, source, f"it takes {names}")
        arguments[own] = value
    return arguments

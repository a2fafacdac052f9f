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
from itertools import islice
from types import MappingProxyType
from typing import Any

from agent_utilities.errors import InputError
from agent_utilities.programs.schemas import (
    MAX_FIELDS,
    Choice,
    Field,
    Kind,
    Many,
    Object,
    OneOf,
    parameters_of,
    quoted,
    result_of,
)

MODULES = frozenset(
    "asyncio base64 binascii bisect collections copy csv dataclasses datetime decimal functools hashlib itertools json"
    " math os pathlib random re sys time tomllib typing unicodedata".split()
)
"""What a program can import."""

_TYPES = frozenset(("Any", "Literal", "NotRequired", "TypedDict"))
_KEYWORDS = frozenset((*keyword.kwlist, "__debug__"))
FIRST_LINE = "check_only_"
"""The first line of what is only checked: a name that stubs declare and nothing has, so that no line after it runs."""
_TAKEN = _KEYWORDS | MODULES | _TYPES | frozenset(dir(builtins)) | {FIRST_LINE}
"""Names that programs use for something else than a tool."""
_NOT_SEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_MAX_NAME, _MAX_SAID, _MAX_STUB = 64, 200, 4_000
"""Characters of a name, of a docstring and of a stub."""


@dataclass(frozen=True, slots=True)
class Stub:
    """A tool as an async function that takes keyword arguments.

    Args:
        parameters: the schema's property by the function's parameter.
        text: the function, such as `async def list_issues(*, repo: str) -> ListIssuesResult: ...`.
        types: the `TypedDict`s that it names; may be empty.
        compact: the function for a model to read, such as `list_issues(repo: str) -> {items: list[str]}`.
        is_wrapped: whether what a program gets stands under the key `result` of the tool's own result.
    """

    python_name: str
    tool_name: str
    parameters: Mapping[str, str]
    text: str
    types: str
    compact: str
    is_wrapped: bool = False


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


# -- what is written ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Writer:
    """Writes types as Python has them, and the `TypedDict`s that they name."""

    classes: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=lambda: set(_TAKEN))

    def annotation(self, kind: Kind, name: str) -> str:
        """Return a type as an annotation; `name` is what its class is called if it has one."""
        if isinstance(kind, str):
            return kind
        if isinstance(kind, Choice):
            return f"Literal[{', '.join(kind.values)}]"
        if isinstance(kind, Many):
            item = self.annotation(kind.item, name)
            return f"list[{item}]" if kind.container == "list" else f"dict[str, {item}]"
        if isinstance(kind, OneOf):
            return " | ".join(self.annotation(each, name) for each in kind.members)
        return self._class(kind, name)

    def _class(self, kind: Object, name: str) -> str:
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
            pairs = ", ".join(f"{quoted(key)}: {text}" for key, text in fields)
            self.classes.append(f'{own} = TypedDict("{own}", {{{pairs}}}{others})')
        return own

    def _field(self, each: Field, name: str) -> str:
        text = self.annotation(each.kind, f"{name}{_camel(each.key)}"[:_MAX_NAME])
        return text if each.is_required else f"NotRequired[{text}]"


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in _identifier(name, "arg").split("_"))


def _compact(kind: Kind) -> str:
    """Return a type in few tokens: `{title: str, state?: "open"|"closed"}`."""
    if isinstance(kind, str):
        return kind
    if isinstance(kind, Choice):
        return "|".join(kind.values)
    if isinstance(kind, Many):
        item = "" if kind.item == "Any" else f"[{_compact(kind.item)}]"
        return f"{kind.container}{item}"
    if isinstance(kind, OneOf):
        return "|".join(map(_compact, kind.members))
    keys = [_pair(each.key if each.key.isidentifier() else quoted(each.key), each) for each in kind.fields]
    return f"{{{', '.join([*keys, *(['…'] if kind.is_open else [])])}}}"


def _pair(name: str, each: Field) -> str:
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
    fields, is_open = parameters_of(input_schema)
    said = _said(description)
    plain = tuple(replace(each, kind="Any") for each in fields)
    result = result_of(output_schema)
    for parameters, returned in ((fields, result), (fields, "Any"), (plain, "Any")):
        stub = _written(name, python_name, parameters, is_open, returned, said)
        if len(stub.text) + len(stub.types) <= _MAX_STUB:
            break
    else:
        stub = _written(name, python_name, (), True, "Any", said)
    is_wrapped = isinstance(output_schema, Mapping) and output_schema.get("x-fastmcp-wrap-result") is True
    return replace(stub, is_wrapped=is_wrapped)


def any_stub(stub: Stub) -> Stub:
    """Return a stub that takes and returns anything."""
    text = f"async def {stub.python_name}(**arguments: Any) -> Any: ..."
    return replace(stub, text=text, types="", compact=f"{stub.python_name}(…)")


def _said(description: str) -> str:
    line = next((line for line in description[: 4 * _MAX_SAID].splitlines() if line.strip()), "")
    seen = "".join(each if each.isprintable() and not _NOT_SEEN.match(each) else " " for each in line)
    return " ".join(seen.split())[:_MAX_SAID]


def _written(name: str, python_name: str, fields: tuple[Field, ...], is_open: bool, result: Kind, said: str) -> Stub:
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
        f"{head} -> {returned}:\n    {quoted(said)}" if said else f"{head} -> {returned}: ...",
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
    names = ", ".join(islice(stub.parameters, MAX_FIELDS)) or "none"
    if args:
        raise InputError("arguments are given by name", args[0], source, f"it takes {names}")
    arguments: dict[str, Any] = {}
    for key, value in kwargs.items():
        own = stub.parameters.get(key, key)
        if own in arguments:
            raise InputError("an argument is given twice", key, source, f"it takes {names}")
        arguments[own] = value
    return arguments

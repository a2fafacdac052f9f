"""What a config file says, JSON as editors take it, TOML or YAML, and how messages show it. It may be a stranger's."""

from __future__ import annotations

import io
import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NoReturn

from agent_utilities.gateway.upstreams.errors import ConfigError
from agent_utilities.runtime.process_io import read_whole
from agent_utilities.runtime.shown import shown


def described(value: object) -> str:
    """Return what a value is, without the value: `a text`, `a list`."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "a switch", int: "a number", float: "a number"}
    return "null" if value is None else next((name for kind, name in names.items() if isinstance(value, kind)), "odd")


MAX_BYTES = 8 * 1024 * 1024
"""The largest file that is read. `~/.claude.json`, which keeps a history, is the largest that hosts write."""

MAX_COMMENTED = 1024 * 1024
"""The longest text whose comments are looked for, in characters: people write those, and programs the long ones."""

MAX_YAML = 256 * 1024
"""The longest YAML that is read, in characters: it takes some seconds a megabyte."""

_YAML_SCALARS = (
    ("null", r"(?:~|null|Null|NULL|)\Z", ["~", "n", "N", ""]),
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)\Z", [*"tTfF"]),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)\Z", [*"-+0123456789"]),
    ("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?\Z", [*"-+.0123456789"]),
    ("merge", r"<<\Z", ["<"]),
)
"""What is no text in YAML 1.2, which hosts read: to PyYAML `no` is a switch, `22:30` a number, and a date a date."""

_COMMENT_OR_STRING = re.compile(r'"(?:\\.|[^"\\])*+"?|//[^\n]*|/\*.*?\*/', re.DOTALL)
_COMMA_OR_STRING = re.compile(r'"(?:\\.|[^"\\])*+"?|,(?=\s*[}\]])', re.DOTALL)


def read_bytes(path: Path) -> bytes:
    """Return a file's content.

    Raises:
        ConfigError: there is none, it is no regular file (a folder, a pipe, a device), may not be read, or is too
            large.
    """
    try:
        return read_whole(path, MAX_BYTES)
    except FileNotFoundError:
        refuse("no such file", path, "name the file that has your mcpServers, such as .mcp.json")
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        refuse(f"can't read the file ({reason})", path, "put a file there that can be read")


def read_text(path: Path) -> str:
    """Return a file's text, in whatever form of Unicode; `ConfigError` as of `read_bytes`, or where it is no text."""
    return _decoded(read_bytes(path), path)


def parsed(content: bytes, path: Path) -> dict[str, Any]:
    """Return what a file says; of a key that stands twice the last value, as JSON readers do.

    JSON may have comments, commas before closing brackets, and a byte order mark, and be in UTF-8, UTF-16 or UTF-32.
    A file whose name ends in `.toml` is TOML, one whose name ends in `.yaml` or `.yml` is YAML.

    Raises:
        ConfigError: it is empty, says something else than an object, or is neither; with line and column.
    """
    text = _decoded(content, path)
    if not text.strip():
        refuse("the file is empty", path, 'write {"mcpServers": {"NAME": {"command": "…"}}}')
    form = "JSON" if text.lstrip().startswith("{") and form_of(path) == "TOML" else form_of(path)  # no TOML begins so
    try:
        told = tomllib.loads(text) if form == "TOML" else _yaml(text) if form == "YAML" else _json(text)
    except RecursionError:
        refuse("nested too deep", path, "write fewer objects or lists in one another")
    except ValueError as error:
        refuse(f"not {form}: {str(error)[:80]}", path, "mend the file there")
    if not isinstance(told, dict):
        refuse(f"no {form} object", path, 'write {"mcpServers": {"NAME": {"command": "…"}}}')
    return told


def form_of(path: Path) -> Literal["JSON", "TOML", "YAML"]:
    """Return what a file is written in, by its name."""
    if path.suffix in (".yaml", ".yml"):
        return "YAML"
    return "TOML" if path.suffix == ".toml" else "JSON"


def refuse(what: str, path: Path, hint: str) -> NoReturn:
    """Refuse a file, always by a `ConfigError`."""
    raise ConfigError(what, shown(str(path), 1000), "config file", hint)


def _decoded(content: bytes, path: Path) -> str:
    encoding = json.detect_encoding(content)
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        refuse(f"not {encoding.removesuffix('-sig').upper()} at byte {error.start}", path, "save it as UTF-8")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # brackets in a comment count for nothing
        if len(text) > MAX_COMMENTED:
            raise
        return json.loads(_plain(text))


def _yaml(text: str) -> Any:
    import yaml  # the one kind of file that needs it is rare

    if len(text) > MAX_YAML:
        raise ValueError(f"{len(text)} characters, {MAX_YAML} are the most")

    class Loader(yaml.SafeLoader):
        def flatten_mapping(self, node: yaml.MappingNode) -> None:
            super().flatten_mapping(node)
            if len(node.value) > MAX_YAML:  # merged of what was merged
                raise ValueError("more keys in one object than are read")

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            self.flatten_mapping(node)
            return {self.construct_scalar(key): self.construct_object(value, deep) for key, value in node.value}

    Loader.yaml_implicit_resolvers = {}
    for tag, pattern, first in _YAML_SCALARS:
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), first)
    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f": line {mark.line + 1} column {mark.column + 1}" if mark else ""
        raise ValueError(shown(" ".join(str(getattr(error, "problem", None) or error).split()), 50) + where) from None


def _plain(text: str) -> str:
    """Return JSON with comments and trailing commas turned to spaces, so that lines and columns stay."""

    def blank(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith('"') else re.sub(r"[^\n]", " ", found[0])

    return _COMMA_OR_STRING.sub(blank, _COMMENT_OR_STRING.sub(blank, text))


def read_env_file(path: Path) -> Mapping[str, str]:
    """Return the variables of a file of `NAME=value` lines; quotes, `export` and comments are as in any `.env`.

    Values are taken as they stand: `$NAME` in one is no variable, so that a password may have a dollar.

    Raises:
        ConfigError: there is no such file, or it can't be read.
    """
    from dotenv import dotenv_values

    text = read_text(path)
    if "\0" in text:
        refuse("has a NUL character", path, "name a text file")
    return {name: value or "" for name, value in dotenv_values(stream=io.StringIO(text), interpolate=False).items()}

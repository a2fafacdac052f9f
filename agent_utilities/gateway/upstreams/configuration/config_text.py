"""Parses config files: JSON with comments, TOML or YAML, which may be a stranger's; and shows them in messages."""

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
    """Return the type of a value in words: `a text`, `a list`."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "a switch", int: "a number", float: "a number"}
    return "null" if value is None else next((name for kind, name in names.items() if isinstance(value, kind)), "odd")


MAX_BYTES = 8 * 1024 * 1024
"""The largest file that is read; `~/.claude.json`, which keeps a history, is the largest that hosts write."""
MAX_COMMENTED = 1024 * 1024
"""The longest text that may have comments, in characters: longer ones are written by programs."""
MAX_YAML = 256 * 1024
"""The longest YAML that is read, in characters: it takes some seconds a megabyte."""

_YAML_SCALARS = (
    ("null", r"(?:~|null|Null|NULL|)\Z", ["~", "n", "N", ""]),
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)\Z", [*"tTfF"]),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)\Z", [*"-+0123456789"]),
    ("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?\Z", [*"-+.0123456789"]),
    ("merge", r"<<\Z", ["<"]),
)
"""The scalars of YAML 1.2, which hosts read; PyYAML's 1.1 reads `no` as a switch, and `22:30` as a number."""

_COMMENT_OR_STRING = re.compile(r'"(?:\\.|[^"\\])*+"?|//[^\n]*|/\*.*?\*/', re.DOTALL)
_COMMA_OR_STRING = re.compile(r'"(?:\\.|[^"\\])*+"?|,(?=\s*[}\]])', re.DOTALL)


def read_bytes(path: Path) -> bytes:
    """Return a file's content; `ConfigError` where it is missing, no regular file, too large, or unreadable."""
    try:
        return read_whole(path, MAX_BYTES)
    except FileNotFoundError:
        refuse("no such file", path, "name the file that has your mcpServers, such as .mcp.json")
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        refuse(f"can't read the file ({reason})", path, "put a file there that can be read")


def read_text(path: Path) -> str:
    """Return a file's text, in any encoding of Unicode; `ConfigError` as of `read_bytes`, or where it is no text."""
    return _decoded(read_bytes(path), path)


def parsed(content: bytes, path: Path) -> dict[str, Any]:
    """Return the object in a file; of a duplicate key the last value, as JSON readers do.

    JSON may have comments, commas before closing brackets, and a byte order mark, and be in UTF-8, UTF-16 or UTF-32.
    A file whose name ends in `.toml` is TOML, one whose name ends in `.yaml` or `.yml` is YAML.

    Raises:
        ConfigError: it is empty, invalid, or no object; with line and column.
    """
    text = _decoded(content, path)
    if not text.strip():
        refuse("the file is empty", path, 'write {"mcpServers": {"NAME": {"command": "…"}}}')
    form = "JSON" if text.lstrip().startswith("{") and form_of(path) == "TOML" else form_of(path)  # no TOML begins so
    try:
        value = tomllib.loads(text) if form == "TOML" else _yaml(text) if form == "YAML" else _json(text)
    except RecursionError:
        refuse("nested too deep", path, "write fewer objects or lists in one another")
    except ValueError as error:
        refuse(f"not {form}: {str(error)[:80]}", path, "mend the file there")
    if not isinstance(value, dict):
        refuse(f"no {form} object", path, 'write {"mcpServers": {"NAME": {"command": "…"}}}')
    return value


def form_of(path: Path) -> Literal["JSON", "TOML", "YAML"]:
    """Return the format of a file, by its name."""
    if path.suffix in (".yaml", ".yml"):
        return "YAML"
    return "TOML" if path.suffix == ".toml" else "JSON"


def refuse(what: str, path: Path, hint: str) -> NoReturn:
    """Raise a `ConfigError` about a file."""
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
    except (ValueError, RecursionError):  # it may have comments
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
    """Return JSON with comments and trailing commas replaced by spaces, so that lines and columns stay."""

    def blank(match: re.Match[str]) -> str:
        return match[0] if match[0].startswith('"') else re.sub(r"[^\n]", " ", match[0])

    return _COMMA_OR_STRING.sub(blank, _COMMENT_OR_STRING.sub(blank, text))


def read_env_file(path: Path) -> Mapping[str, str]:
    """Return the variables of a file of `NAME=value` lines; quotes, `export` and comments are as in any `.env`.

    Values are literal: `$NAME` in one is no variable, as a password may have a dollar. `ConfigError` where there is no
    such file, or it is unreadable.
    """
    from dotenv import dotenv_values

    text = read_text(path)
    if "\0" in text:
        refuse("has a NUL character", path, "name a text file")
    return {name: value or "" for name, value in dotenv_values(stream=io.StringIO(text), interpolate=False).items()}

"""Read one file of a bundle, never from outside its folder: its schema, and the problems and notices about it."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError

from agent_utilities.gateway.upstreams.configuration.config_text import described, read_text, refuse
from agent_utilities.gateway.upstreams.errors import ConfigError
from agent_utilities.runtime.shown import shown

_LONGEST_LINE = 1000
_LONGEST_TITLE, _LONGEST_DESCRIPTION = 200, 2000
MOST_NOTICES = 200
"""The most notices that are reported."""

# The parser takes minutes for thousands of keys of many parts.
_DEEP = re.compile(r"""(?:\.[ \t]*(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*){16}""")


@dataclass(slots=True)
class Notes:
    """Collects problems and notices about the files.

    Args:
        problems: a line for each error, which leaves its bundle out.
        notices: a line for each thing that is ignored.
        files: every file that was read or looked for.
        unknown: unknown keys; each is reported once, where it stands first.
    """

    problems: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)

    def problem(self, where: object, what: str, hint: str) -> None:
        """Add a problem: where it is, what is wrong, what would do."""
        self.problems.append(shown(f"{where}: {what}; {hint}", _LONGEST_LINE))

    def notice(self, where: object, what: str) -> None:
        """Add a notice: where it is, and what is ignored."""
        self.notices.append(shown(f"{where}: {what}", _LONGEST_LINE))


def real_path(path: Path, folder: Path) -> Path:
    """Return a path with its links resolved; `ConfigError` where it leads nowhere, or out of the folder."""
    try:
        real = Path(os.path.realpath(path, strict=True))
        within = os.path.realpath(folder, strict=True)
    except FileNotFoundError:
        refuse("is a link that leads nowhere", path, "point it at a file beside it")
    except (OSError, ValueError) as error:
        refuse(f"can't be read ({reason(error)})", path, "make it readable")
    if not real.is_relative_to(within):
        refuse("leads out of its folder", path, "point it at a file beside it, or copy that there")
    return real


def read_within(path: Path, folder: Path) -> str:
    """Return the text of a file as `read_text` does; no link may lead out of the bundle's folder."""
    return read_text(real_path(path, folder))


def reason(error: Exception) -> str:
    """Return why the operating system refused something."""
    return (getattr(error, "strerror", None) or str(error)).lower()


_Text = Annotated[str, StringConstraints(strip_whitespace=True)]
_Texts = Annotated[list[_Text], AfterValidator(lambda texts: list(dict.fromkeys(filter(None, texts))))]


class _Table(BaseModel):
    """A table of a file; unknown keys are ignored, with a notice."""

    model_config = ConfigDict(strict=True, extra="allow")


class _Deps(_Table):
    require: _Texts = []


class _Wanted(_Table):
    server_refs: _Texts = []
    allowed_tools: _Texts = []


class _Roles(_Table):
    mcp: _Wanted = _Wanted()


class ServerTable(_Table):
    """A provider's entry for a server; its other keys say how to reach it, as in an `mcp.json`."""

    name: _Text = ""
    type: Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True)] = ""
    tools: _Texts = []


class _Mcp(_Table):
    servers: list[ServerTable] = []


class _Titled(_Table):
    title: _Text = ""
    description: _Text = ""


class ConfigTable(_Titled):
    """The schema of `config.toml`: the triggers, and the profiles that see the capability."""

    triggers: _Texts = []
    domains: _Texts = []


class ProviderTable(_Titled):
    """The schema of a provider's file: its requirements, the tools that it wants, and its servers."""

    deps: _Deps = _Deps()
    roles: _Roles = _Roles()
    mcp: _Mcp = _Mcp()


_HINTS = {"list_type": 'write a list of texts, such as ["git"]', "string_type": "write a text"}
_T = TypeVar("_T", bound=_Titled)


def read_table(kind: type[_T], path: Path, folder: Path, notes: Notes) -> _T | None:
    """Return a bundle's file, parsed; None where it has errors, all of which are added to the notes.

    Title and description come from the keys, or else from the head comment.
    """
    try:
        text = read_within(path, folder)
        if _DEEP.search(text):
            raise RecursionError
        table = kind.model_validate(tomllib.loads(text))
    except ConfigError as error:
        notes.problem(path, error.what, error.hint)
        return None
    except RecursionError:
        notes.problem(path, "is nested too deeply", "flatten it")
        return None
    except ValidationError as error:
        for each in error.errors(include_url=False, include_context=False):
            where, hint = ".".join(map(str, each["loc"])), _HINTS.get(each["type"], "write a table")
            notes.problem(f"{path}: {where}", f"is {described(each['input'])}", hint)
        return None
    except ValueError as error:  # a number of thousands of digits is none that the parser names
        notes.problem(path, f"is no TOML: {str(error)[:120]}", "mend it there; see https://toml.io")
        return None
    for place, key in _unknown(table, str(path)):
        if key not in notes.unknown:
            notes.unknown.add(key)
            notes.notice(place, f"the key {shown(key)!r} is not known, and passed over")
    head = head_comment(text)
    table.title = _shortened(table.title or head.get("title", ""), _LONGEST_TITLE)
    table.description = _shortened(table.description or head.get("description", ""), _LONGEST_DESCRIPTION)
    return table


def _unknown(table: BaseModel, place: str, separator: str = ": ") -> Iterator[tuple[str, str]]:
    """Yield unknown keys, each with the place of its table."""
    for key in table.model_extra or ():
        yield place, key
    for key, value in table:
        if isinstance(value, BaseModel):
            yield from _unknown(value, f"{place}{separator}{key}", ".")


_LINE = re.compile(r"#\s*(?P<key>[A-Za-z]+):\s*(?P<value>.*)\Z")


def head_comment(text: str) -> Mapping[str, str]:
    """Return the `KEY: value` lines of a file's head comment, by keys in lower case; a key's first line holds."""
    values: dict[str, str] = {}
    for line in map(str.strip, text.split("\n")):
        if line and not line.startswith("#"):
            break
        if match := _LINE.match(line):
            values.setdefault(match["key"].lower(), match["value"].strip())
    return values


def _shortened(text: str, longest: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"

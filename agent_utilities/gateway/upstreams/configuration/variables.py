"""Variables in values of config files, in each host's syntax: `${VAR}`, `${env:VAR}`, `${input:ID}`, and places."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from agent_utilities.gateway.upstreams.configuration.config_text import read_text
from agent_utilities.gateway.upstreams.errors import ConfigError

MAX_LENGTH = 128 * 1024
"""The longest text with its variables filled in, in characters; no system starts a program with a longer one."""

REFERENCE = re.compile(r"\$\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*+\})*+\})*+)\}")
"""A `${…}`, whose default may have variables, whose defaults may; an unclosed one is plain text."""
_OF_OPENCODE = re.compile(r"\{((?:env|file):[^{}]+)\}")
REFERENCES: Mapping[str, re.Pattern[str]] = {
    "usual": REFERENCE,
    "opencode": _OF_OPENCODE,
    "librechat": re.compile(rf"{REFERENCE.pattern}|\{{\{{\s*(\w+)\s*\}}\}}"),  # what it asks each of its users
}
_OF_CONTINUE = re.compile(r"\{\s*(?:secrets|inputs)\.([\w.-]+)\s*\}\Z")
"""The inside of `${{ secrets.NAME }}`."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_BARE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_OF_EDITORS = ("command", "config", "extensionInstallFolder")


class Unusable(ValueError):
    """A value that can't be taken.

    Args:
        what: what is wrong with it; empty where it is of a wrong type.
        hint: what would be valid; empty for the usual hint of its key.
    """

    def __init__(self, what: str = "", hint: str = "") -> None:
        self.what, self.hint = what, hint
        super().__init__(f"{what}; {hint}")


def input_variable(input_id: str) -> str:
    """Return the environment variable of an input: `MCP_INPUT_GITHUB_TOKEN` for `github-token`."""
    return "MCP_INPUT_" + re.sub(r"[^A-Za-z0-9]", "_", input_id).upper()


@dataclass(frozen=True)
class Reading:
    """How the values of one file are read.

    Args:
        folder: the project's folder: `${workspaceFolder}`.
        home: the user's home folder: `${userHome}`.
        base: the folder of relative paths; the project's where None.
        place: the folder of the file itself, where `${file:PATH}` starts; the project's where None.
        inputs: by id, VS Code's description of a value that it prompts for; here the environment has the value.
        has_bare_variables: whether `$VAR` is a variable too, as in Gemini's files.
        is_in_seconds: whether `timeout` is in seconds whatever its size.
        times_lists: whether `timeout` is that of a list.
        order: precedence of the keys that say how a server is reached; if empty, only one may be present.
        references: the syntax of variables, by host.
        unset: the value of a variable that is not set: nothing, itself, or an error.
        notices: a line for each variable that was not set and is no error.
        keeps_references: whether every value of the environment stays a reference, in the syntax of the gateway's own
            file: to show no secret, to write such a file, and for a server that is not started.
    """

    environ: Mapping[str, str]
    folder: Path
    home: Path
    base: Path | None = None
    place: Path | None = None
    inputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    has_bare_variables: bool = False
    is_in_seconds: bool = False
    times_lists: bool = False
    order: Sequence[str] = ()
    references: str = "usual"
    unset: Literal["empty", "kept", "refused"] = "refused"
    notices: list[str] = field(default_factory=list)
    keeps_references: bool = False

    def fill(self, text: str) -> str:
        """Return a text with its variables filled in; variables within their values are not.

        Raises:
            Unusable: one is not set and has no default, or is known to editors alone, or the text gets too long.
        """
        if len(text) > MAX_LENGTH:
            raise Unusable("too long", f"{MAX_LENGTH} characters are the most")
        parts, length, rest = [], 0, 0
        for match in REFERENCES[self.references].finditer(text):
            parts += [self._bare(text[rest : match.start()]), self._value(match)]
            length += len(parts[-2]) + len(parts[-1])
            if length > MAX_LENGTH:
                raise Unusable("too long once its variables are filled in", f"{MAX_LENGTH} characters are the most")
            rest = match.end()
        return "".join([*parts, self._bare(text[rest:])])

    def _bare(self, text: str) -> str:
        if not self.has_bare_variables:
            return text
        return _BARE.sub(lambda match: self._variable(match[1], None, match[0]), text)

    def _value(self, match: re.Match[str]) -> str:
        reference, inside = match[0], match[1]
        if inside is None:
            return self._variable(match[2], None, reference, unset="empty")
        if secret := _OF_CONTINUE.match(inside):
            return self._variable(secret[1], None, reference)
        kind, colon, rest = inside.partition(":")
        if (place := self._place(kind)) is not None:
            return place
        if colon and kind in ("input", *_OF_EDITORS) and self.keeps_references:
            return reference
        if colon and kind in ("input", "file"):
            return self._input(rest) if kind == "input" else self._file(rest)
        if colon and kind in _OF_EDITORS:
            raise Unusable(f"${{{kind}:…}} is known to editors alone", "write the value, or ${VAR} for a variable")
        name, has_default, default = (rest if colon and kind == "env" else inside).partition(":-")
        if kind != "env" and not _NAME.match(name):
            return reference
        return self._variable(name, self.fill(default) if has_default else None, reference)

    def _place(self, kind: str) -> str | None:
        """Return the path of an editor's variable for a place; None for any other variable."""
        folder = str(self.folder)
        return {
            **dict.fromkeys(("workspaceFolder", "workspaceRoot", "cwd"), folder),
            **{"workspaceFolderBasename": self.folder.name, "userHome": str(self.home)},
            **{name: self.environ.get(name, folder) for name in ("CLAUDE_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT")},
            **dict.fromkeys(("pathSeparator", "/"), os.sep),
        }.get(kind)

    def _variable(self, name: str, default: str | None, reference: str, unset: str = "") -> str:
        unset = unset or self.unset
        if self.keeps_references:
            otherwise = "" if default is None and unset == "empty" else default
            return f"${{{name}}}" if otherwise is None else f"${{{name}:-{otherwise}}}"
        value = self.environ.get(name)
        if default is not None:
            return value or default
        if value is not None:
            return value
        if unset == "refused":
            raise Unusable(f"the variable {name} is not set", f"set it, or write ${{{name}:-default}}")
        self.notices.append(
            f"the variable {name} is not set, and taken as {'it is written' if unset == 'kept' else 'empty'}"
        )
        return reference if unset == "kept" else ""

    def _file(self, name: str) -> str:
        path = (self.place or self.folder) / (f"{self.home}{name[1:]}" if name.startswith("~/") else name)
        if self.keeps_references:
            return f"${{file:{path}}}"
        try:
            return read_text(path).strip()
        except ConfigError as error:
            raise Unusable(f"{error.what}: {error.value!r}", "name a file that has the value") from None

    def _input(self, input_id: str) -> str:
        variable, prompt = input_variable(input_id), self.inputs.get(input_id, {})
        value = self.environ.get(variable, prompt.get("default"))
        if isinstance(value, str):
            return value
        about = f" ({prompt['description']})" if isinstance(prompt.get("description"), str) else ""
        raise Unusable(f"the input {input_id!r}{about} is not given", f"set the variable {variable} to it")


def names_in(text: str) -> tuple[str, ...]:
    """Return the variables in a text, each once, those of defaults included; inputs by their own variable."""
    names: list[str] = []
    for inside in (*REFERENCE.findall(text), *_OF_OPENCODE.findall(text)):
        kind, colon, rest = inside.partition(":")
        if colon and kind in ("input", "file"):
            names.append(input_variable(rest) if kind == "input" else f"file {rest}")
            continue
        if secret := _OF_CONTINUE.match(inside):
            names.append(secret[1])
            continue
        name, _, default = (rest if colon and kind == "env" else inside).partition(":-")
        names += [name, *names_in(default)]
    return tuple(dict.fromkeys(names))

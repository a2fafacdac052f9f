"""One server's entry in a config file: what it comes to, or all that is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agent_utilities.upstream.config import ToolOverride, Transport, UpstreamConfig
from agent_utilities.upstream.configuration.config_keys import NOT_DONE, OF_HOSTS_ONLY, Key, by_spelling
from agent_utilities.upstream.configuration.config_text import Table, described, read_env_file, shown
from agent_utilities.upstream.configuration.entry_values import Auth, Reading, fold, off_switch
from agent_utilities.upstream.configuration.variables import Unusable, Variables
from agent_utilities.upstream.errors import ConfigError

MAX_NAME = 128
"""The longest name of a server, in characters."""


@dataclass(slots=True)
class Reader:
    """Reads the entries of one file.

    Args:
        is_in_seconds: whether `timeout` is in seconds whatever its size.
    """

    variables: Variables
    folder: Path
    is_in_seconds: bool
    problems: list[str] = field(default_factory=list)
    unknown: dict[str, list[str]] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)

    def read(self, name: str, value: object, source: str) -> UpstreamConfig | None:
        """Return what an entry comes to; None where something is wrong with it, or it only says that it is off.

        Args:
            source: where it stands, such as `.mcp.json: mcpServers.git`.
        """
        n_before = len(self.problems)
        try:
            if not isinstance(value, dict):
                raise Unusable(f"is {described(value)}", 'write an object, such as {"command": "npx"}')
            _check_name(name)
            given = self._given(value, source)
            return self._config(name, shown(source, 1000), given) if len(self.problems) == n_before else None
        except (Unusable, ConfigError) as error:
            self._problem(source, error)
            return None

    def _given(self, value: Mapping[str, Any], source: str) -> dict[str, Any]:
        """Return what the entry's keys come to, by field."""
        keyed = self._keyed(value, source)
        variables = replace(self.variables, keeps_missing=_is_off(value, keyed))
        given: dict[str, Any] = {}
        written_as: dict[str, str] = {}
        for name, key in keyed.items():
            try:
                told = key.read(value[name], Reading(variables, self.folder, self.is_in_seconds, key.is_secret))
            except Unusable as error:
                self._problem(f"{source}.{name}", error)
                continue
            if key.field in given and given[key.field] != told:
                what = f"contradicts {written_as[key.field]!r}"
                self._problem(f"{source}.{name}", Unusable(what, "leave one of the two out"))
            given.setdefault(key.field, told)
            written_as.setdefault(key.field, name)
            if fold(name) == "httpurl":
                given.setdefault("is_http", True)
        return {**given, "keys": written_as}

    def _keyed(self, value: Mapping[str, Any], source: str) -> dict[str, Key]:
        """Return the known keys that an entry has, by how they are written there; tell of the others."""
        known, of_hosts, not_done = by_spelling(), {fold(key) for key in OF_HOSTS_ONLY}, _NOT_DONE
        keyed = {}
        for name, told in value.items():
            folded = fold(name)
            if folded in known:
                if told is not None:
                    keyed[name] = known[folded]
            elif folded in not_done:
                self.notices.append(shown(f"{source}.{name}: {not_done[folded]}", 1000))
            elif folded not in of_hosts:
                self.unknown.setdefault(name, []).append(source)
        if isinstance(value, Table) and value.repeated:
            names = ", ".join(value.repeated[:5])
            self.notices.append(shown(f"{source}: stands twice: {names}; the last one is taken", 1000))
        return keyed

    def _config(self, name: str, source: str, given: dict[str, Any]) -> UpstreamConfig | None:
        enabled: bool = given.get("enabled", True)
        transport = _transport(given, enabled)
        if transport is None:
            return None
        fields = {field: given[field] for field in _AS_THEY_ARE & given.keys()}
        if transport == "stdio":
            fields |= self._process(given, source, enabled)
        else:
            auth = given.get("auth", Auth(None))
            sent = {**given.get("env_headers", {}), **given.get("headers", {})}
            fields |= {"url": given["url"], "headers": sent, "auth": auth.token, "oauth": auth.client}
        allow, overrides = _tools(given)
        return UpstreamConfig(
            name=name,
            source=source,
            transport=transport,
            enabled=enabled,
            allow=allow,
            deny=frozenset(given.get("deny", ())),
            overrides=overrides,
            keys={field: given["keys"][field] for field in ("allow", "deny", "tools") if field in given["keys"]},
            **fields,
        )

    def _process(self, given: Mapping[str, Any], source: str, enabled: bool) -> dict[str, Any]:
        program, *arguments = given["command"]
        if " " in program.strip() and not arguments and "args" not in given and not re.search(r"[/\\]", program):
            self.notices.append(
                f"{source}.command: has spaces, and is looked up as one name; write arguments under `args`"
            )
        env = dict(given.get("env_names", {}))
        env_file: str | None = given.get("env_file")
        if enabled and env_file is not None and not self.variables.keeps_all:
            env |= read_env_file(Path(env_file))
        return {
            "command": program,
            "args": (*arguments, *given.get("args", ())),
            "env": env | given.get("env", {}),
            "env_file": env_file,
            "cwd": given.get("cwd", str(self.folder)),
        }

    def _problem(self, where: str, error: Unusable | ConfigError) -> None:
        what = f"{error.what}: {error.value!r}" if isinstance(error, ConfigError) else error.what
        self.problems.append(shown(f"{where}: {what}; {error.hint}", 1000))


_AS_THEY_ARE = UpstreamConfig.model_fields.keys() - {
    *("command", "args", "env", "env_file", "cwd", "url", "headers", "auth"),
    *("transport", "enabled", "allow", "deny", "keys"),
}
_NOT_DONE = {fold(key): told for key, told in NOT_DONE.items()}


def _check_name(name: str) -> None:
    if not name.strip() or name != name.strip() or len(name) > MAX_NAME or not name.isprintable() or "," in name:
        hint = f'write up to {MAX_NAME} letters, digits, `-` or `_`, such as "git"'
        raise Unusable("the name can't be a toolset's", hint)


def _is_off(value: Mapping[str, Any], keyed: Mapping[str, Key]) -> bool:
    """Whether an entry is switched off, so that a variable which is not set there matters to nobody."""
    return any(value[name] is (key.read is off_switch) for name, key in keyed.items() if key.field == "enabled")


def _transport(given: Mapping[str, Any], enabled: bool) -> Transport | None:
    """Return how a server is reached; None where an entry only says that it is off."""
    named: Transport | None = given.get("transport")
    has_command, has_url = "command" in given, "url" in given
    if not has_command and not has_url:
        if not enabled:
            return None
        raise Unusable("has neither a command nor a url", "write the one or the other")
    if named is None and has_command and has_url:
        raise Unusable("has a command and a url", "leave one out, or write which holds under `type`")
    if (named == "stdio" and not has_command) or (named in ("http", "sse") and not has_url):
        lacks = "command" if named == "stdio" else "url"
        raise Unusable(f"is of type {named}, and has no {lacks}", f"write the {lacks}, or another type")
    if named == "sse" and given.get("is_http"):
        raise Unusable("is of type sse, and httpUrl says http", "leave one of the two out")
    if named is not None:
        return named
    if has_command:
        return "stdio"
    return "sse" if not given.get("is_http") and _ends_in_sse(given["url"]) else "http"


def _ends_in_sse(url: str) -> bool:
    return urlsplit(url).path.rstrip("/").endswith("/sse")


def _tools(given: Mapping[str, Any]) -> tuple[frozenset[str] | None, Mapping[str, ToolOverride]]:
    allow, tools = given.get("allow"), given.get("tools", {})
    if isinstance(tools, tuple):
        if allow is not None and set(allow) != set(tools):
            raise Unusable("`tools` is a list, and contradicts the list of what is allowed", "leave one out")
        allow, tools = tools, {}
    return (None if allow is None else frozenset(allow)), tools

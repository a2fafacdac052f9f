"""Reads one server's entry of a config file: its keys, and the `UpstreamConfig` it makes, or all that is wrong."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent_utilities.gateway.upstreams.config import Transport, UpstreamConfig
from agent_utilities.gateway.upstreams.configuration import entry_values as values
from agent_utilities.gateway.upstreams.configuration.config_text import described, read_env_file
from agent_utilities.gateway.upstreams.configuration.entry_values import fold
from agent_utilities.gateway.upstreams.configuration.variables import Reading, Unusable
from agent_utilities.gateway.upstreams.errors import ConfigError
from agent_utilities.runtime.shown import shown
from agent_utilities.selection.model import nearest


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a server's entry; `keys.toml` explains each field."""

    sets: str
    spellings: tuple[str, ...]
    read: str = ""
    is_secret: bool = False


_TABLE = tomllib.loads(
    (files("agent_utilities.gateway.upstreams.configuration") / "keys.toml").read_text(encoding="utf-8")
)
KEYS = tuple(Key(**key | {"spellings": tuple(key["spellings"])}) for key in _TABLE["keys"])
OF_HOSTS_ONLY = frozenset(map(fold, _TABLE["of_hosts_only"]))
EXPECTED: Mapping[str, str] = _TABLE["expected"]
BY_SPELLING: Mapping[str, Key] = {fold(spelling): key for key in KEYS for spelling in key.spellings}
"""The keys by each of their spellings, folded."""

_OF_GOOSE = ("builtin", "platform", "frontend", "inline_python")
"""Types of extensions that are no servers."""
MAX_UNKNOWN = 20
"""The most unknown keys of one file that are reported."""
MAX_NAME = 128
"""The longest name of a server, in characters."""
_AS_THEY_ARE = UpstreamConfig.model_fields.keys() - {
    *("transport", "command", "args", "env", "env_file", "cwd", "url", "headers", "auth"),
}
"""The fields that take a key's value as it is; the others depend on the transport."""


@dataclass(slots=True)
class Reader:
    """Reads the entries of one file, and collects problems and notices.

    Args:
        reading: how their values are read.
        problems: a line for each error.
        notices: a line for each thing that is ignored.
        unknown: unknown keys, each reported at its first place.
    """

    reading: Reading
    problems: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)

    def read(self, name: str, entry: object, source: str) -> UpstreamConfig | None:
        """Return the server of an entry; None for an invalid entry, or one that only says that it is off.

        Args:
            source: its place, such as `.mcp.json: mcpServers.git`.
        """
        if not isinstance(entry, dict):
            self._problem(source, f"is {described(entry)}", 'write an object, such as {"command": "npx"}')
            return None
        if entry.get("type") in _OF_GOOSE:
            self.notices.append(shown(f"{source}: is a part of Goose and no server, and left out", 1000))
            return None
        entry = _unfolded(entry, self.reading.order)
        n_before = len(self.problems)
        settings, written_as = self._settings(entry, source)
        fields = {"transport": "stdio", **{name: settings[name] for name in _AS_THEY_ARE & settings.keys()}}
        try:
            _check_name(name)
            if len(self.problems) == n_before:
                reached_by = self._reached_by(settings)
                if reached_by is None:
                    return None
                fields |= reached_by
            upstream = UpstreamConfig(name=name, source=shown(source, 1000), keys=written_as, **fields)
            return upstream if len(self.problems) == n_before else None
        except Unusable as error:
            self._problem(source, error.what, error.hint)
        except ConfigError as error:
            self._problem(source, f"{error.what}: {error.value!r}", error.hint)
        except ValidationError as error:
            # A field may be wrong in thousands of places: the first is reported.
            for each in {each["loc"][0]: each for each in reversed(error.errors())}.values():
                field, *inside = map(str, each["loc"])
                field = "auth" if field == "oauth" else field
                written = written_as.get(field, field)
                key = BY_SPELLING.get(fold(written))
                is_secret = key is None or key.is_secret
                what = _wrong(each["input"] if inside else entry[written], inside, is_secret=is_secret)
                self._problem(f"{source}.{written}", what, _hint(field))
        return None

    def _settings(self, entry: Mapping[str, Any], source: str) -> tuple[dict[str, Any], dict[str, str]]:
        """Return an entry's values by field, and each field's key as written there; unknown keys become notices."""
        known = {name: key for name in entry if (key := BY_SPELLING.get(fold(name))) is not None}
        for name in entry:
            if name not in known and fold(name) not in OF_HOSTS_ONLY:
                self._pass_over(name, source)
        # Unset variables don't matter for a server that is switched off.
        is_off = any(key.sets == "enabled" and entry[name] is (key.read == "opposite") for name, key in known.items())
        reading = replace(self.reading, keeps_references=self.reading.keeps_references or is_off)
        settings: dict[str, Any] = {}
        written_as: dict[str, str] = {}
        for name, key in known.items():
            written, n_notices = entry[name], len(reading.notices)
            if written is None:
                continue
            field = "list_timeout_s" if reading.times_lists and fold(name) == "timeout" else key.sets
            try:
                value = getattr(values, key.read)(written, reading) if key.read else written
            except Unusable as error:
                what = error.what or _wrong(written, is_secret=key.is_secret)
                self._problem(f"{source}.{name}", what, error.hint or _hint(key.sets))
                continue
            self.notices += [shown(f"{source}.{name}: {line}", 1000) for line in reading.notices[n_notices:]]
            # A list of tools means the same as `onlyAllow`, and `httpUrl` sets the transport too.
            says = {"allow" if field == "overrides" and isinstance(value, list) else field: value}
            if fold(name) == "httpurl":
                says["transport"] = "http"
            for set_by, value in says.items():
                if set_by in settings and settings[set_by] != value:
                    self._problem(f"{source}.{name}", f"contradicts {written_as[set_by]!r}", "leave one of the two out")
                settings.setdefault(set_by, value)
                written_as.setdefault(set_by, name)
        return settings, written_as

    def _reached_by(self, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the fields of a server's transport; None where its entry only says that it is off."""
        transport = _transport(settings)
        if transport is None:
            return None
        if transport != "stdio":
            headers = {**settings.get("env_headers", {}), **settings.get("headers", {})}
            auth = settings.get("auth", {})
            _check_credentials(settings, str(auth.get("auth") or "oauth"), headers)
            return {"transport": transport, "url": settings["url"], "headers": headers, **auth}
        _check_credentials(settings, "", {})
        program, *arguments = settings["command"]
        env_file: str | None = settings.get("env_file")
        is_started = settings.get("enabled", True) and not self.reading.keeps_references
        of_file = read_env_file(Path(env_file)) if env_file is not None and is_started else {}
        return {
            "command": program,
            "args": (*arguments, *settings.get("args", ())),
            "env": {**settings.get("env_names", {}), **of_file, **settings.get("env", {})},
            "env_file": env_file,
            "cwd": settings.get("cwd", str(self.reading.base or self.reading.folder)),
        }

    def _pass_over(self, name: str, source: str) -> None:
        """Report an unknown key, once, and `MAX_UNKNOWN` at most."""
        if name in self.unknown or len(self.unknown) == MAX_UNKNOWN:
            return
        self.unknown.add(name)
        near = nearest(name[:64], [spelling for key in KEYS for spelling in key.spellings])
        meant = f"; did you mean {near!r}?" if near else ""
        self.notices.append(shown(f"{source}: the key {shown(name, 64)!r} is not known, and passed over{meant}", 1000))

    def _problem(self, where: str, what: str, hint: str) -> None:
        self.problems.append(shown(f"{where}: {what}; {hint}", 1000))


def _unfolded(entry: Mapping[str, Any], order: Sequence[str]) -> Mapping[str, Any]:
    """Return an entry with nested settings at its top, and of several transports the one that its host takes."""
    flat = dict(entry)
    if isinstance(command := flat.get("command"), dict):  # of Zed, once
        flat |= {key: command[key] for key in ("args", "env") if key in command} | {"command": command.get("path")}
    if isinstance(options := flat.get("requestOptions"), dict) and "headers" in options:  # of Continue
        flat["headers"] = options["headers"]
        flat.pop("requestOptions" if len(options) == 1 else "", None)
    if flat.get("requiresOAuth") is True:  # of LibreChat
        flat.setdefault("oauth", True)
    if ways := [key for key in order if key in flat]:
        passed_over = {*ways[1:], *(["type"] if ways[0] == "httpUrl" else [])}
        flat = {key: value for key, value in flat.items() if key not in passed_over}
    return flat


def _check_credentials(settings: Mapping[str, Any], token: str, headers: Mapping[str, Any]) -> None:
    """Refuse callers' own logins beside a credential of the gateway's, which would serve all callers."""
    if settings.get("credentials") != "caller":
        return
    if settings.get("prefix") == "":
        raise Unusable("has callers' own logins, and no prefix for the tool to log in by", "write another `prefix`")
    if not token:
        raise Unusable("is a command, which callers can't log in at", "leave `credentials` out")
    if token != "oauth" or any(name.lower() == "authorization" for name in headers):
        raise Unusable("has callers' own logins, and a token for all", "leave out the token, or `credentials`")


def _check_name(name: str) -> None:
    if not name.strip() or name != name.strip() or len(name) > MAX_NAME or not name.isprintable() or "," in name:
        hint = f'write up to {MAX_NAME} letters, digits, `-` or `_`, such as "git"'
        raise Unusable("the name can't be a toolset's", hint)


def _wrong(value: object, inside: Sequence[str] = (), *, is_secret: bool) -> str:
    """Return what is wrong: a value, or a value inside of it at a place; secrets are shown by their type alone."""
    if len(inside) == 2 and inside[1] == "[key]":
        return f"{shown(repr(inside[0]))} can't be a name"
    what = described(value) if is_secret or isinstance(value, dict | list) else shown(repr(value))
    names = ".".join(part for part in inside if not part.isdecimal())
    under = f" under {shown(names)!r}" if names else ""
    return f"{'has' if inside else 'is'} {what}{under}"


def _hint(field: str) -> str:
    return f"write {EXPECTED.get(field, 'a number above 0, a week at most')}"


def _transport(settings: Mapping[str, Any]) -> Transport | None:
    named: Transport | None = settings.get("transport")
    there = [key for key in ("command", "url") if key in settings]
    if not there:
        if settings.get("enabled") is False:
            return None
        raise Unusable("has neither a command nor a url", "write the one or the other")
    if named is None and len(there) > 1:
        raise Unusable("has a command and a url", "leave one out, or write which holds under `type`")
    needed = "command" if named == "stdio" else "url"
    if named is not None and needed not in there:
        raise Unusable(f"is of type {named}, and has no {needed}", f"write the {needed}, or another type")
    if named is not None or "command" in there:
        return named or "stdio"
    return "sse" if re.split("[?#]", settings["url"])[0].rstrip("/").endswith("/sse") else "http"

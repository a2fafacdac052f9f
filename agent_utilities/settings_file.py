"""`agent-utilities.toml`: reads the user's file, and the project's over it.

A project's file may be somebody else's work: it may narrow, and not change who gets in or where data goes.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_utilities.errors import SettingsError
from agent_utilities.selection.channels import field_of
from agent_utilities.selection.parse import unquoted
from agent_utilities.selection.profiles import (
    PROFILES,
    FileChannel,
    FileFields,
    FileSetting,
    SettingsFiles,
    read_fields,
)
from agent_utilities.settings import TABLES, Settings, checked, read_settings

FILE = "agent-utilities.toml"
"""The name of a settings file."""
VARIABLE = "MCP_CONFIG_FILE"
"""The environment variable that names the one file to read, or `none`."""
MAX_BYTES = 1024 * 1024

_DEEP = re.compile(r"""(?:\.[ \t]*(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*){16}""")
"""A key of many parts: for thousands of parts tomllib takes minutes."""
_RULE = re.compile(rb"^[ \t]*\[\[[ \t]*access[ \t]*\]\]", re.MULTILINE)
"""The first line of a rule of access: tomllib reports no line numbers."""
_PASS_ON = f"{VARIABLE}=none reads none"

_ELSEWHERE = "set it in your own file or in the environment"
_USAGE = ("off", "auto", "counts", "words")
"""The values of `usage`, from the least that is logged to the most."""

_OWN = frozenset((*Settings.model_fields, *TABLES, PROFILES))
"""Keys of a file that are no selection fields, and known without features."""
FEATURES = "features"
"""The setting that names features of other packages."""
_REFUSED = {
    FEATURES: "what is loaded",
    **dict.fromkeys(("allowed_hosts", "allowed_origins"), "who gets in"),
    **{name: "who gets in" for name in Settings.model_fields if name.startswith("auth_")},
    **dict.fromkeys(("page", "page_app"), "who looks"),
    "access": "who may what",
    **{name: "what is recorded" for name in Settings.model_fields if name.startswith("audit_")},
    "quota": "how much is called",
    "approve": "what is asked before it is called",
    "gateway_folder": "where logins and agreements are kept",
    **dict.fromkeys(("graph_folder", "usage_file"), "where anything is kept"),
    **dict.fromkeys(("capability_folders", "capabilities"), "what may be started"),
    "boot_capabilities": "what is started",
    **dict.fromkeys(("state_url", "state", "state_prefix"), "what replicas share"),
    **dict.fromkeys(("secret_key", "secret_key_file"), "what logins are sealed with"),
    "usage_scope": "whose calls teach whom",
    "usage_days": "how long anything is kept",
    "usage_rows": "how much is kept",
}
"""Settings that a project's file may not have, each with what it would decide."""


def read_files(environ: Mapping[str, str] | None = None, declared: Collection[str] | None = None) -> SettingsFiles:
    """Read the settings files: the working folder's over the user's, or the one that `MCP_CONFIG_FILE` names.

    Args:
        environ: replaces the process's environment, and then only a file that it names is read.
        declared: names of settings that features declare, beside those of every server; where None they are not known
            yet, and a file that names features may have others.

    Raises:
        InputError: a file can't be read, is malformed, or has a setting that it may not have.
    """
    files: list[FileFields] = []
    for name, content, channel in _contents(environ):
        file = _fields(content, name, channel, declared)
        files.append(file if channel == "file" else _check_project(file, files[0] if files else None))
    return SettingsFiles(tuple(files))


def named_features(environ: Mapping[str, str] | None = None) -> FileSetting | None:
    """Return the names of features that the environment or the user's file gives; None for none.

    They are known before the rest of a file is read, which may have settings of theirs.

    Raises:
        SettingsError: a file can't be read.
    """
    variables = os.environ if environ is None else environ
    if text := unquoted(variables.get(f"MCP_{FEATURES.upper()}", "")).strip():
        return FileSetting(text, f"env MCP_{FEATURES.upper()}")
    for name, content, channel in _contents(environ):
        if channel == "file" and (value := _table(content, name).get(FEATURES)):
            return FileSetting(value, f"file {name}: {FEATURES}")
    return None


def _contents(environ: Mapping[str, str] | None) -> list[tuple[str, bytes, FileChannel]]:
    """Return name, content and channel of each settings file, the lowest first."""
    named = unquoted((os.environ if environ is None else environ).get(VARIABLE, "")).strip()
    if named.lower() in ("none", "off"):
        return []
    if named:
        from agent_utilities.runtime.process_io import expanded

        if (content := _content(expanded(named))) is None:
            raise SettingsError("no such file", named, f"env {VARIABLE}", f"name a settings file; {_PASS_ON}")
        return [(named, content, "file")]
    if environ is not None:
        return []
    own, project = user_folder() / FILE, Path(FILE)
    contents: list[tuple[str, bytes, FileChannel]] = []
    if (content := _content(own)) is not None:
        contents.append((str(own), content, "file"))
    if (content := _content(project)) is not None and not (contents and project.samefile(own)):
        contents.append((FILE, content, "project"))
    return contents


def settings_of(environ: Mapping[str, str]) -> Settings:
    """Return the settings of an environment over those of files; see `read_files`."""
    files = read_files(None if environ is os.environ else environ).files
    return read_settings(environ, [file.settings for file in files])


def user_folder() -> Path:
    """Return the folder that the user's own settings are in."""
    from agent_utilities.runtime.process_io import own_folder

    return own_folder("config")


def _content(path: Path) -> bytes | None:
    if not os.path.lexists(path):
        return None
    from agent_utilities.runtime.process_io import read_whole  # where there is a file

    try:
        return read_whole(path, MAX_BYTES)
    except OSError as error:
        raise SettingsError(
            "can't be read", error.strerror or str(error), f"file {path}", f"make it readable; {_PASS_ON}"
        ) from None


def _fields(content: bytes, name: str, channel: FileChannel, declared: Collection[str] | None) -> FileFields:
    table = _table(content, name)
    lines = [content.count(b"\n", 0, match.start()) + 1 for match in _RULE.finditer(content)]
    if isinstance(rules := table.get("access"), list) and len(rules) == len(lines):
        table["access"] = [{**rule, "line": line} for rule, line in zip(rules, lines, strict=True)]
    if declared is None and channel == "file" and table.get(FEATURES):
        declared = [plain for key in table if field_of(key, channel) is None and (plain := _plain(key)) not in _OWN]
    fields = read_fields(table, name, channel, [*Settings.model_fields, *(declared or ())], TABLES)
    checked({field: setting for field, setting in fields.settings.items() if field in Settings.model_fields})
    return fields


def _plain(key: str) -> str:
    return key.lower().replace("-", "_")


def _table(content: bytes, name: str) -> dict[str, Any]:
    try:
        text = content.decode("utf-8-sig")
        if _DEEP.search(text):
            raise RecursionError
        return tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SettingsError("not UTF-8", f"line {line}", f"file {name}", "save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError("not TOML", str(error), f"file {name}", "mend it there; see https://toml.io") from None
    except RecursionError:
        raise SettingsError("nested too deeply", "tables in tables", f"file {name}", "flatten it") from None


def _check_project(file: FileFields, own: FileFields | None) -> FileFields:
    for name, setting in file.settings.items():
        if reason := _refused(name, setting):
            raise SettingsError(reason, setting.value, setting.source, _ELSEWHERE)
    usage, own_usage = (each.settings.get("usage") if each is not None else None for each in (file, own))
    if usage and own_usage and _n_logged(usage) > _n_logged(own_usage):
        return replace(file, settings={n: setting for n, setting in file.settings.items() if n != "usage"})
    return file


def _refused(name: str, setting: FileSetting) -> str | None:
    text = str(setting.value).strip().lower()
    if name not in Settings.model_fields:
        return "a project's file does not say what features do"
    if name in _REFUSED:
        return f"a project's file does not say {_REFUSED[name]}"
    if name == "allow_install":
        return "a project's file does not have anything installed"
    if name == "embeddings" and text not in ("", "minilm", "fastembed") and not text.startswith("fastembed:"):
        return "a project's file does not say where words are sent"
    if name == "selection_policy" and text == "override":
        return "a project's file does not lift the operator's bounds"
    if name == "usage" and text == "words":
        return "a project's file does not have words logged"
    if name == "strict" and text in ("false", "0", "no", "off", "n", "f"):
        return "a project's file does not take checks away"
    return None


def _n_logged(setting: FileSetting) -> int:
    return _USAGE.index(str(setting.value).strip().lower())

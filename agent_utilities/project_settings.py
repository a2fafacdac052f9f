"""What a project's settings file may say: it may be somebody else's work, so it narrows, and leads nothing out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agent_utilities.errors import SettingsError
from agent_utilities.selection.file_fields import FileFields, FileSetting

_ELSEWHERE = "set it in your own file or in the environment"
_USAGE = ("off", "auto", "counts", "words")
"""What is logged, the least first."""

_REFUSED: Mapping[str, str] = {
    "allowed_hosts": "a project's file does not say who gets in",
    "allowed_origins": "a project's file does not say who gets in",
    "gateway_folder": "a project's file does not say where logins and agreements are kept",
    "graph_folder": "a project's file does not say where anything is kept",
    "capability_folders": "a project's file does not say what may be started",
    "capabilities": "a project's file does not say what may be started",
    "boot_capabilities": "a project's file does not say what is started",
    "allow_install": "a project's file does not have anything installed",
    "usage_file": "a project's file does not say where anything is kept",
    "usage_scope": "a project's file does not say whose calls teach whom",
    "usage_days": "a project's file does not say how long anything is kept",
    "usage_rows": "a project's file does not say how much is kept",
}
"""Settings that a project's file may not have, each with the reason."""


def check_project(file: FileFields, own: FileFields | None) -> FileFields:
    """Return a project's file as it holds over the user's.

    Args:
        file: what the project's says.
        own: what the user's says; None where there is none.

    Raises:
        SettingsError: it says what only the user may.
    """
    for name, setting in file.settings.items():
        if reason := _refused(name, setting):
            raise SettingsError(reason, setting.value, setting.source, _ELSEWHERE)
    given = dict(own.settings) if own is not None else {}
    if "usage" in file.settings and "usage" in given and _n_logged(file.settings["usage"]) > _n_logged(given["usage"]):
        return replace(file, settings={n: setting for n, setting in file.settings.items() if n != "usage"})
    return file


def _refused(name: str, setting: FileSetting) -> str | None:
    """Return why a setting of a project's file is refused; None where it is not."""
    text = str(setting.value).strip().lower()
    if name in _REFUSED:
        return _REFUSED[name]
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

"""Placeholders of taps, such as `{{ENV:VAR}}`, in the words of a server's entry in an `mcp.json`."""

from __future__ import annotations

import re
from typing import Any

_VARIABLE = re.compile(r"\{\{(?:ENV|INPUT):([A-Za-z_][A-Za-z0-9_]*)\}\}")
_PLACEHOLDER = re.compile(r"\{\{[A-Z]+(?::[^{}]*)?\}\}")
_FOLDER = "{{CWD}}"


def translated(value: Any) -> Any:
    """Return a value with the placeholders in its texts as references; nothing is filled in.

    `{{ENV:VAR}}`, and `{{INPUT:VAR}}` that another host would ask its user for, become `${env:VAR}`; `{{CWD}}` becomes
    `${workspaceFolder}`. What a variable holds is not looked into for more, here or later.

    Args:
        value: a text, or a list or table with texts; keys are left as they are.
    """
    if isinstance(value, str):
        return _VARIABLE.sub(r"${env:\1}", value).replace(_FOLDER, "${workspaceFolder}")
    if isinstance(value, dict):
        return {key: translated(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [translated(each) for each in value]
    return value


def untranslated(value: Any) -> tuple[str, ...]:
    """Return the placeholders in a translated value that mean nothing here, each once."""
    if isinstance(value, str):
        return tuple(dict.fromkeys(_PLACEHOLDER.findall(value)))
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return tuple(dict.fromkeys(placeholder for each in inside for placeholder in untranslated(each)))

"""`agent-utilities new`: a server package that passes its own tests."""

from __future__ import annotations

import keyword
import re
from importlib.resources import files
from pathlib import Path
from string import Template

from agent_utilities.errors import InputError

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LAYOUT = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "{module}/__init__.py": "init.py",
    "{module}/__main__.py": "main.py",
    "{module}/server.py": "server.py",
    "tests/test_{module}.py": "test.py",
}


def make_package(name: str, directory: Path) -> Path:
    """Write a new package's files and return its folder.

    Args:
        name: the package's name: lower-case words joined by `-`.
        directory: the folder to make it in.

    Raises:
        InputError: the name can't be one, or the folder is there already; nothing is overwritten.
    """
    module = name.replace("-", "_")
    if not _NAME.fullmatch(name) or keyword.iskeyword(module) or len(name) > 64:
        raise InputError("not a package name", name, "argument NAME", "use lower-case words, such as weather-agent")
    folder = directory / name
    if folder.exists():
        raise InputError("already there", str(folder), "argument NAME", "choose another name or --directory")
    templates = files("agent_utilities.cli") / "templates"
    for target, source in _LAYOUT.items():
        path = folder / target.format(module=module)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = Template((templates / f"{source}.tmpl").read_text(encoding="utf-8"))
        path.write_text(text.substitute(name=name, module=module), encoding="utf-8")
    return folder

"""`agent-utilities new` and `capabilities new`: a server package, and a bundle, that work as they are written."""

from __future__ import annotations

import keyword
import os
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from string import Template

import typer

from agent_utilities.errors import InputError

app = typer.Typer(add_completion=False)

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LAYOUT = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "{module}/__init__.py": "init.py",
    "{module}/__main__.py": "main.py",
    "{module}/server.py": "server.py",
    "tests/test_{module}.py": "test.py",
}


@app.command()
def new(name: str, directory: Path = Path(".")) -> None:
    """Make a new server package that passes its own tests.

    Args:
        name: The package's name, such as weather-agent.
        directory: Where to make its folder.
    """
    made = make_package(name, directory)
    print(f"made {made}; next: cd {made} && python -m pip install -e . pytest && python -m pytest")


def make_package(name: str, directory: Path) -> Path:
    """Write a new package's files and return its folder."""
    module = name.replace("-", "_")
    if not _NAME.fullmatch(name) or keyword.iskeyword(module) or len(name) > 64:
        raise InputError("not a package name", name, "argument NAME", "use lower-case words, such as weather-agent")
    folder = directory / name
    if folder.exists():
        raise InputError("already there", str(folder), "argument NAME", "choose another name or --directory")
    _fill(folder, _LAYOUT, name=name, module=module)
    return folder


def _fill(folder: Path, layout: Mapping[str, str], **words: str) -> None:
    """Make a folder, and write templates with words put in, each to the file that it is for."""
    templates = files("agent_utilities.cli") / "templates"
    folder.mkdir(parents=True)
    for target, source in layout.items():
        path = folder / target.format(**words)
        path.parent.mkdir(exist_ok=True)
        text = Template((templates / f"{source}.tmpl").read_text(encoding="utf-8"))
        path.write_text(text.substitute(words), encoding="utf-8")


_TEMPLATES = {"config.toml": "capability_config.toml", "{name}.toml": "capability_provider.toml"}


def make_capability(name: str, folder: Path | None) -> Path:
    """Write a new bundle's files and return its folder; the user's own bundles are where none is given."""
    from agent_utilities.capabilities.tap import BUNDLES, is_capability_name
    from agent_utilities.settings_file import user_folder

    if not is_capability_name(name) or name in ("config", "default"):
        hint = "use up to 128 letters, digits, `-`, `_` or `.`, such as websearch"
        raise InputError("not a capability's name", name, "argument NAME", hint)
    bundles = user_folder() / "capabilities" if folder is None else folder
    bundles = bundles / BUNDLES if (bundles / BUNDLES).is_dir() else bundles
    bundle = bundles / name
    if os.path.lexists(bundle):
        raise InputError("already there", str(bundle), "argument NAME", "choose another name or --folder")
    try:
        _fill(bundle, _TEMPLATES, name=name)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        what = f"can't be written ({reason})"
        raise InputError(what, str(bundle), "option --folder", "name another folder") from None
    return bundle

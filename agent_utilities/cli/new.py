"""`agent-utilities new` and `capabilities new`: write a server package, or a bundle, that works as it is."""

from __future__ import annotations

import importlib.util
import keyword
import os
import re
import sys
from pathlib import Path
from string import Template

import typer

from agent_utilities.errors import InputError

app = typer.Typer(add_completion=False)

PUBLISHED_AS = ""
"""The name that this package is published by on an index; none yet. `agent-utilities` there is somebody else's."""

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


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
    # What it would hide, or be hidden by: of Python, of this environment, and the folder of its own tests.
    if module in {*sys.stdlib_module_names, "tests"} or importlib.util.find_spec(module) is not None:
        hint = "name it by what it is of, such as weather-agent"
        raise InputError("another module is imported by that name", name, "argument NAME", hint)
    requires = f'"{PUBLISHED_AS}>=2.0,<3"' if PUBLISHED_AS else ""
    return _filled(directory / name, "package", "--directory", name=name, module=module, requires=requires)


def _filled(folder: Path, kind: str, option: str, **words: str) -> Path:
    """Write the templates of one kind to a new folder, with words filled in to names and texts; return the folder."""
    if os.path.lexists(folder):
        raise InputError("already there", str(folder), "argument NAME", f"choose another name or {option}")
    templates = Path(__file__).with_name("templates") / kind
    try:
        folder.mkdir(parents=True)
        for template in templates.rglob("*.tmpl"):
            path = folder / str(template.relative_to(templates)).removesuffix(".tmpl").format(**words)
            path.parent.mkdir(exist_ok=True)
            text = Template(template.read_text(encoding="utf-8")).substitute(words)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        what = f"can't be written ({(error.strerror or str(error)).lower()})"
        raise InputError(what, str(folder), f"option {option}", "name another folder") from None
    return folder


def make_capability(name: str, folder: Path | None) -> Path:
    """Write a new bundle's files and return its folder; it is among the user's own by default."""
    from agent_utilities.gateway.capabilities.tap import BUNDLES, is_capability_name
    from agent_utilities.settings_file import user_folder

    if not is_capability_name(name) or name in ("config", "default"):
        hint = "use up to 128 letters, digits, `-`, `_` or `.`, such as websearch"
        raise InputError("not a capability's name", name, "argument NAME", hint)
    bundles = user_folder() / "capabilities" if folder is None else folder
    bundles = bundles / BUNDLES if (bundles / BUNDLES).is_dir() else bundles
    return _filled(bundles / name, "capability", "--folder", name=name)

"""`agent-utilities capabilities new`: a bundle that works as it is written."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from string import Template

from agent_utilities.capabilities.bundle import is_capability_name
from agent_utilities.capabilities.tap import BUNDLES
from agent_utilities.cli.capabilities_read import own_folder
from agent_utilities.errors import InputError

_TEMPLATES = {"config.toml": "capability_config.toml", "{name}.toml": "capability_provider.toml"}


def make_capability(name: str, folder: Path | None) -> Path:
    """Write a new bundle's files and return its folder.

    Args:
        name: the capability's.
        folder: a tap, or the folder of its bundles; the user's own where None.

    Raises:
        InputError: the name can't be one, the bundle is there already, or it can't be written; nothing is overwritten.
    """
    if not is_capability_name(name) or name in ("config", "default"):
        hint = "use up to 128 letters, digits, `-`, `_` or `.`, such as websearch"
        raise InputError("not a capability's name", name, "argument NAME", hint)
    bundles = own_folder(os.environ) if folder is None else folder
    bundles = bundles / BUNDLES if (bundles / BUNDLES).is_dir() else bundles
    bundle = bundles / name
    if os.path.lexists(bundle):
        raise InputError("already there", str(bundle), "argument NAME", "choose another name or --folder")
    templates = files("agent_utilities.cli") / "templates"
    try:
        bundle.mkdir(parents=True)
        for target, source in _TEMPLATES.items():
            text = Template((templates / f"{source}.tmpl").read_text(encoding="utf-8")).substitute(name=name)
            (bundle / target.format(name=name)).write_text(text, encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(
            f"can't be written ({reason})", str(bundle), "option --folder", "name another folder"
        ) from None
    return bundle

"""The capabilities that are installed along: twelve bundles over public servers that need no key."""

from __future__ import annotations

from pathlib import Path

STARTER = "starter"
"""What names the folder of the capabilities that come with the package."""


def starter_tap() -> Path:
    """Return the folder of the starter tap, which has `capabilities/` and `deps/` as every tap has."""
    return Path(__file__).parent / "starter"


def folder_named(text: str) -> Path:
    """Return the folder that an option or a setting names: `starter` for that of the package, unless one is there."""
    path = Path(text).expanduser()
    return starter_tap() if text == STARTER and not path.exists() else path

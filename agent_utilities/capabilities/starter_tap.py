"""The capabilities that are installed along: twelve bundles over public servers that need no key."""

from __future__ import annotations

from pathlib import Path


def starter_tap() -> Path:
    """Return the folder of the starter tap, which has `capabilities/` and `deps/` as every tap has."""
    return Path(__file__).parent / "starter"

"""The command line that every server has: its options, its tables, and what it prints for `--list`."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

NO_VERSION = "unknown"
"""The version of a server without one, since the protocol requires one that is not empty."""


def installed_version(name: str) -> str | None:
    """Return the version of the package of a name, None where none is installed."""
    try:
        return version(name)
    except (PackageNotFoundError, ValueError):
        return None

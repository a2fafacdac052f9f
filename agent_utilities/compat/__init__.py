"""All that is private of other libraries and used here, a file for each library: no other room touches a private name.

Each file says of its `PARTS` why they are used, what would end that, and what happens where the installed version has
them no longer: what a bound stands on ends the start, what else is told and left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Any

from agent_utilities.errors import InputError


class UnsupportedError(InputError):
    """The installed version of a library lacks what a bound stands on: nothing may be served."""


@dataclass(frozen=True, slots=True)
class Part:
    """A private part of another library.

    Args:
        place: as `fastmcp.server.server:FastMCP._mcp_server`; a part that `__init__` sets is found by its class too.
        why: what it is used for.
        ends: what would end that.
        without: what is left out where it is missing; empty where a bound stands on it.
    """

    place: str
    why: str
    ends: str
    without: str = ""

    @property
    def is_there(self) -> bool:
        """Whether the installed library has it."""
        module, _, path = self.place.partition(":")
        *owners, name = path.split(".")
        try:
            owner: Any = import_module(module)
            for each in owners:
                owner = getattr(owner, each)
        except (ImportError, AttributeError):
            return False
        makers = [getattr(kind.__init__, "__code__", None) for kind in getattr(owner, "__mro__", ())]
        return hasattr(owner, name) or any(code is not None and name in code.co_names for code in makers)

    @property
    def library(self) -> str:
        """The library and its installed version."""
        name = self.place.partition(".")[0].partition(":")[0]
        return f"{name} {version(name)}"


def unsupported(parts: Iterable[Part]) -> UnsupportedError | None:
    """Return what to tell of the first part that a bound stands on and that is missing; None where all are there."""
    for part in parts:
        if not part.without and not part.is_there:
            hint = (
                "a bound stands on it: install the versions that agent-utilities asks for, or a newer agent-utilities"
            )
            return UnsupportedError(
                f"{part.library} has no part that is needed", part.place.rpartition(":")[2], part.library, hint
            )
    return None


def left_out(parts: Iterable[Part]) -> list[str]:
    """Return what is left out for want of a part, a line each, for those who start a server."""
    missing: dict[tuple[str, str], list[str]] = {}
    for part in parts:
        if part.without and not part.is_there:
            missing.setdefault((part.without, part.library), []).append(part.place.rpartition(":")[2])
    return [f"{without}, since {library} has no {', '.join(names)}" for (without, library), names in missing.items()]

"""Private names of other libraries, a file for each library: no other room uses any.

`PARTS` of each file says why each is used, and what would make it unnecessary. Where the installed version lacks one
that bounds depend on, the start fails; any other disables what needs it, which is logged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Any

from agent_utilities.errors import InputError


class UnsupportedError(InputError):
    """The installed version of a library lacks a part that bounds depend on: nothing may be served."""


@dataclass(frozen=True, slots=True)
class Part:
    """A private part of another library.

    Args:
        place: such as `fastmcp.server.server:FastMCP._mcp_server`, also for an attribute that `__init__` sets.
        why: what it is used for.
        ends: what would make it unnecessary.
        without: what is disabled where it is missing; empty where bounds depend on it.
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
    """Return the error for the first missing part that bounds depend on; None where all are there."""
    for part in parts:
        if not part.without and not part.is_there:
            what, name = f"{part.library} has no part that is needed", part.place.rpartition(":")[2]
            install = "install the versions that agent-utilities asks for, or a newer agent-utilities"
            return UnsupportedError(what, name, part.library, f"a bound stands on it: {install}")
    return None


def left_out(parts: Iterable[Part]) -> list[str]:
    """Return a warning for each function that is disabled since a part is missing."""
    missing: dict[tuple[str, str], list[str]] = {}
    for part in parts:
        if part.without and not part.is_there:
            missing.setdefault((part.without, part.library), []).append(part.place.rpartition(":")[2])
    return [f"{without}, since {library} has no {', '.join(names)}" for (without, library), names in missing.items()]

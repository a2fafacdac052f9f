"""What a settings file says of quotas, and what of it holds for a person, a tool, a server. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import Field, ValidationError

from agent_utilities.errors import SettingsError
from agent_utilities.selection.model import fold, nearest
from agent_utilities.selection.profiles import PROFILES, QUOTA
from agent_utilities.settings import Quota
from agent_utilities.visibility.bounds import fits

NO_QUOTA = Quota()
"""What is not bounded."""
BOUNDS = tuple(Quota.model_fields)
"""What a quota may bound."""


class QuotaTable(Quota):
    """All quotas of a settings file, its own bounds each person's; of those that fit, the smallest holds."""

    profiles: dict[str, Quota] = Field(default_factory=dict)
    """Each person's with a profile, by the profile's folded name."""
    tools: dict[str, Quota] = Field(default_factory=dict)
    """Of each tool that a name or glob fits, by itself: all callers' calls of it together."""
    servers: dict[str, Quota] = Field(default_factory=dict)
    """The same of the servers that tools come from."""

    def of_person(self, profiles: Collection[str]) -> Quota:
        """Return the quota of a person with some profiles."""
        return smallest(self, *(quota for name, quota in self.profiles.items() if name in profiles))

    def of_tool(self, name: str) -> Quota:
        """Return the quota of a tool."""
        return _fitting(self.tools, name)

    def of_server(self, name: str) -> Quota:
        """Return the quota of a server."""
        return _fitting(self.servers, name)


def read_quotas(given: Mapping[str, Any], file: str) -> QuotaTable:
    """Return the quotas of a settings file.

    Args:
        given: its `[quota]` table, in which profiles' own quotas stand under `profiles`.
        file: the file, as people read it.

    Raises:
        SettingsError: one can't be read.
    """
    try:
        return QuotaTable.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    path = [QUOTA, *map(str, first["loc"])]
    if path[1] == PROFILES:
        path = [PROFILES, path[2], QUOTA, *path[3:]]
    *inside, key = path
    where = f"{file}: {'.'.join(inside)}"
    known = (*BOUNDS, "tools", "servers") if inside == [QUOTA] else BOUNDS
    if first["type"] == "extra_forbidden":
        meant = nearest(key, known)
        hint = f"did you mean {meant}?" if meant else f"there are: {', '.join(known)}"
        raise SettingsError("unknown key", key, where, hint)
    hint = "write a whole number above 0" if key in BOUNDS else f"write it as a table with any of: {', '.join(BOUNDS)}"
    if key in known and key not in BOUNDS:
        hint = f'write [{QUOTA}.{key}."NAME"] with its bounds below'
    raise SettingsError(f"{key} can't be read", first["input"], where, hint)


def smallest(*quotas: Quota) -> Quota:
    """Return what holds where several quotas do: the smallest number of each bound."""
    numbers = {bound: [n for quota in quotas if (n := getattr(quota, bound)) is not None] for bound in BOUNDS}
    return Quota.model_construct(**{bound: min(given) for bound, given in numbers.items() if given})


def _fitting(quotas: Mapping[str, Quota], name: str) -> Quota:
    return smallest(*(quota for glob, quota in quotas.items() if fits(fold(name), frozenset((fold(glob),)))))

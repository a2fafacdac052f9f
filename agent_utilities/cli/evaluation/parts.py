"""The parts of what usage teaches, each of which can be left out by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal, get_args

from agent_utilities.errors import InputError
from agent_utilities.selection.nearest import nearest
from agent_utilities.usage.learned import Learned

Part = Literal["past_requests", "recency", "used_with", "followed_by"]
"""`past_requests`: requests that each tool answered · `recency`: how much each was used of late · `used_with`: tools
that sessions called together · `followed_by`: the tool that was called next."""
PARTS: tuple[Part, ...] = get_args(Part)
"""In the order in which they are told."""


def read_parts(without: Iterable[str]) -> frozenset[Part]:
    """Return the parts that are left over.

    Args:
        without: names of those to leave out.

    Raises:
        InputError: no part has such a name.
    """
    left_out = tuple(without)
    for name in left_out:
        if name not in PARTS:
            near = nearest(name, PARTS)
            hint = f"did you mean {near}? " if near else ""
            raise InputError("nothing that is learned has this name", name, "--without", f"{hint}one of {_listed()}")
    return frozenset(part for part in PARTS if part not in left_out)


def only(learned: Learned, parts: frozenset[Part]) -> Learned:
    """Return some parts of what was learned."""
    return replace(
        learned,
        uses=learned.uses if "recency" in parts else {},
        past_requests=learned.past_requests if "past_requests" in parts else {},
        used_with=learned.used_with if "used_with" in parts else {},
        followed_by=learned.followed_by if "followed_by" in parts else {},
    )


def parts_of(learned: Learned) -> frozenset[Part]:
    """Return the parts of which anything was learned."""
    has = {
        "past_requests": learned.past_requests,
        "recency": learned.uses,
        "used_with": learned.used_with,
        "followed_by": learned.followed_by,
    }
    return frozenset(part for part in PARTS if has[part])


def _listed() -> str:
    return ", ".join(PARTS)

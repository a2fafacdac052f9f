"""Which capabilities are active for one caller: a frozen value, least recently used first, with no clock in it."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

MAX_ACTIVE = 4
"""The most that are active where the operator does not say how many; those that he fixed do not count."""


@dataclass(frozen=True, slots=True)
class ActiveCapabilities:
    """Names of the active capabilities, the least recently used first.

    Args:
        names: each once.
    """

    names: tuple[str, ...] = ()


NONE_ACTIVE = ActiveCapabilities()
"""Nothing is active."""


@dataclass(frozen=True, slots=True)
class CapabilityChange:
    """What came of one step.

    Args:
        active: what is active now.
        added: what was not before, or empty.
        removed: what was disabled, or gave way to what was added.
    """

    active: ActiveCapabilities
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def enable(active: ActiveCapabilities, name: str, most: int) -> CapabilityChange:
    """Return what is active once a capability is enabled: where there are too many, the least recently used gives way.

    One that is active already counts as used, and nothing gives way.

    Args:
        active: what was active.
        name: the capability.
        most: the most that may be active; 0 for none at all.
    """
    if name in active.names:
        return CapabilityChange(touch(active, name))
    if most <= 0:
        return CapabilityChange(active)
    names = (*active.names, name)
    gone, kept = names[: max(0, len(names) - most)], names[max(0, len(names) - most) :]
    return CapabilityChange(ActiveCapabilities(kept), (name,), gone)


def disable(active: ActiveCapabilities, name: str) -> CapabilityChange:
    """Return what is active once a capability is disabled; one that is not active changes nothing."""
    if name not in active.names:
        return CapabilityChange(active)
    return CapabilityChange(ActiveCapabilities(tuple(each for each in active.names if each != name)), (), (name,))


def touch(active: ActiveCapabilities, name: str) -> ActiveCapabilities:
    """Return the same with one counting as used last; one that is not active is passed over."""
    if name not in active.names or active.names[-1] == name:
        return active
    return ActiveCapabilities((*(each for each in active.names if each != name), name))


def brought(names: Sequence[str], usable: Container[str], most: int) -> ActiveCapabilities:
    """Return what of a caller's list is active: what there is and he may use, the last ones where they are too many.

    Args:
        names: as he gave them, the least recently used first.
        usable: the capabilities that there are for him.
        most: the most that may be active.
    """
    # The last mention of a name counts: what is used again is used last.
    known = [name for name in dict.fromkeys(reversed(names)) if name in usable][: max(0, most)]
    return ActiveCapabilities(tuple(reversed(known)))

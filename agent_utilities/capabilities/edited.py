"""What there is of capabilities once their files were edited: a half-finished edit takes nothing away."""

from __future__ import annotations

from dataclasses import replace

from agent_utilities.capabilities.model import Capabilities, Capability


def edited(before: Capabilities, now: Capabilities) -> Capabilities:
    """Return what the folders say now, with what can't be taken of it as it was before.

    A bundle that something is wrong with stays as it was, and so does one whose provider's file is empty for now:
    editors write a file in several steps, and who has it on would lose it in the middle of his work. One whose folder
    is gone is gone.

    Args:
        before: what there was.
        now: what the folders say now.
    """
    kept = {
        name: was
        for name, was in before.by_name.items()
        if name in now.broken or (name in now.by_name and _brings(was) and not _brings(now.by_name[name]))
    }
    if not kept:
        return now
    taps = {name: before.taps[name] for name in kept if name in before.taps}
    return replace(now, by_name={**now.by_name, **kept}, taps={**now.taps, **taps})


def _brings(capability: Capability) -> bool:
    return bool(capability.servers or capability.server_refs or capability.require)

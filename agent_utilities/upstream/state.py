"""The state of an upstream, as `/ready`, metrics, tables and errors tell it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agent_utilities.upstream.errors import Cause

StateName = Literal["unseen", "idle", "starting", "ready", "failing", "off"]


@dataclass(frozen=True, slots=True)
class UpstreamState:
    """What an upstream does now.

    Args:
        name: `unseen`: never reached, so that its tools are absent. `idle`: not running, its tools are known.
            `starting`, `ready`: a connection is being made, or is up. `failing`: the last try failed. `off`: disabled.
        cause: of `failing`, in a word.
        detail: of `failing`, for a person; no secret is in it.
        n_failures: tries that failed in a row.
        next_try_s: the event loop's time of the next try; None where only a call brings one.
        n_tools: the tools that its snapshot has.
    """

    name: StateName
    cause: Cause | None = None
    detail: str = ""
    n_failures: int = 0
    next_try_s: float | None = None
    n_tools: int = 0

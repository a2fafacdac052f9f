"""The state of an upstream, and its errors: each names the upstream, what went wrong, and what would help next."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal

from agent_utilities.errors import AgentUtilitiesError, InputError

Cause = Literal[
    "not found",
    "did not start",
    "did not answer",
    "died",
    "not MCP",
    "sent too much",
    "refused",
    "unreachable",
    "off",
    "stopping",
]
"""What is wrong with an upstream, in a word that state, metrics and tables share."""
StateName = Literal["unseen", "idle", "starting", "ready", "failing", "off"]
"""What an upstream does now, as `/ready`, metrics and tables tell it."""


class ConfigError(InputError):
    """A config file, a server in it, or a value of it that can't be taken."""


class UpstreamError(AgentUtilitiesError, ConnectionError):
    """An upstream can't be used, or failed in a call.

    Args:
        retry_in_s: seconds until it is tried again; None where it is not, or at the next call.
    """

    def __init__(self, upstream: str, cause: Cause, detail: str, *, retry_in_s: float | None = None) -> None:
        self.upstream, self.cause, self.detail, self.retry_in_s = upstream, cause, detail, retry_in_s
        again = f"; tried again in {ceil(retry_in_s)} s" if retry_in_s is not None else ""
        super().__init__(f"upstream {upstream!r} {cause}: {detail}{again}")


@dataclass(frozen=True, slots=True)
class UpstreamState:
    """What an upstream does now.

    Args:
        name: `unseen`: never reached, so that its tools are absent. `idle`: not running, its tools are known.
            `starting`, `ready`: a connection is being made, or is up. `failing`: the last try failed. `off`: disabled.
        cause: of `failing`, in a word.
        detail: of `failing`, for a person; no secret is in it.
        n_failures: tries that failed in a row.
    """

    name: StateName
    cause: Cause | None = None
    detail: str = ""
    n_failures: int = 0

"""The policy for all upstreams: timeouts and limits, and backoff after failures."""

from __future__ import annotations

import asyncio
import math
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from agent_utilities.gateway.upstreams.errors import UpstreamError


@dataclass(frozen=True, slots=True)
class BackoffRule:
    """The wait after a number of failures.

    Args:
        limit_s: the most seconds while the breaker is closed.
        n_until_open: failures in a row after which the breaker opens, and only slow probes are made.
        probe_s: seconds between probes.
        sustained_s: seconds up after which the end of a connection counts as the first failure again.
        spread: the jitter, as a share of the wait in either direction.
    """

    first_s: float = 0.5
    factor: float = 2.0
    limit_s: float = 60.0
    n_until_open: int = 10
    probe_s: float = 300.0
    sustained_s: float = 60.0
    spread: float = 0.2

    def wait_s(self, n_failures: int, dice: Callable[[], float]) -> float:
        growing = min(self.limit_s, self.first_s * self.factor ** min(n_failures - 1, 64))
        wait = self.probe_s if n_failures >= self.n_until_open else growing
        return wait * (1 + self.spread * (2 * dice() - 1))


@dataclass(frozen=True)
class Policy:
    """Limits for every upstream of a gateway. Tests shorten them.

    Args:
        n_items: the most components of a kind in a list; `n_pages` of it, and `n_bytes` as JSON.
        n_starts: the most upstreams that are started at once to take their lists.
        probe_s: seconds to wait for a probe of the newer era before the handshake is tried too.
        slot_s: seconds that a listing may keep its place among `n_starts`.
        max_age_s: seconds after which a snapshot is taken again.
        empty_s: seconds to stay connected to an upstream that lists nothing yet, such as one that still loads; its
            snapshot is taken again after four times as many, then each time after four times as many again.
        settle_s: seconds between a notice of change and the next listing; up to `settle_limit_s` for many notices.
        ping_s: seconds to answer a ping after a call without an answer.
        close_s: seconds that ending a connection may take, before it is ended by force.
        disk_s: seconds that an end waits for writes.
        grace_s: seconds that calls have to end at an upstream that is removed from the configuration.
        n_isolated: the most sessions with a connection of their own.
        n_offers: the most connections for questions during calls, one for all clients with the same capabilities.
        n_unreachable: calls in a row that did not get through, after which the connection counts as failed.
        is_once: whether a failure is final, and the command that asked reports it.
    """

    backoff: BackoffRule = field(default_factory=BackoffRule)
    n_items: int = 20_000
    n_pages: int = 1_000
    n_bytes: int = 64 * 1024 * 1024
    n_starts: int = max(8, 4 * (os.cpu_count() or 1))
    probe_s: float = 1.0
    slot_s: float = 10.0
    max_age_s: float = 24 * 3600.0
    empty_s: float = 60.0
    settle_s: float = 0.2
    settle_limit_s: float = 30.0
    ping_s: float = 10.0
    close_s: float = 10.0
    disk_s: float = 1.0
    grace_s: float = 10.0
    n_isolated: int = 64
    n_offers: int = 8
    n_unreachable: int = 3
    is_once: bool = False
    dice: Callable[[], float] = random.random


@dataclass
class Counts:
    """Counts of an upstream since the gateway started, for metrics."""

    n_starts: int = 0
    n_failures: int = 0  # of starts and connections
    n_calls: int = 0
    n_failed_calls: int = 0  # in an error of the upstream's connection
    n_untold: int = 0  # messages of calls that callers read too slowly for
    calls_s: float = 0.0


class Health:
    """The failures of one upstream, shared by all of its connections. Only time up resets them."""

    def __init__(self, policy: Policy, counts: Counts) -> None:
        self._policy, self.counts = policy, counts
        self.n_failures = 0
        """Failures in a row."""
        self.next_try_s: float | None = None
        """The event loop's time of the next try; None after a success, or before the first."""
        self.trouble: UpstreamError | None = None
        """Why the last try or connection failed; None after a success."""
        self.since_s = time.time()
        """When a connection last came up, failed or ended, in seconds since 1970."""

    def failed(self, trouble: UpstreamError, up_s: float) -> None:
        """Count the failure of a try or a connection, after so many seconds up; 0 where it never was up."""
        self.counts.n_failures += 1
        self.since_s = time.time()
        rule, now_s = self._policy.backoff, asyncio.get_running_loop().time()
        if up_s > 0 and up_s >= rule.sustained_s:
            self.n_failures, wait_s = 1, 0.0
        else:
            self.n_failures += 1
            n_failures = max(self.n_failures, rule.n_until_open) if trouble.cause == "refused" else self.n_failures
            wait_s = rule.wait_s(n_failures, self._policy.dice)
        self.next_try_s = math.inf if self._policy.is_once else now_s + wait_s
        self.trouble = trouble

    def is_well(self) -> None:
        """Reset all after a connection that worked, and ended for disuse."""
        self.n_failures, self.next_try_s, self.trouble = 0, None, None
        self.since_s = time.time()

    def allow_one(self) -> None:
        """Let a call that was never sent be tried at once after a first failure."""
        if self.n_failures <= 1:
            self.next_try_s = None

    @property
    def wait_s(self) -> float:
        """Seconds until it may be tried again."""
        return 0.0 if self.next_try_s is None else max(0.0, self.next_try_s - asyncio.get_running_loop().time())

    def refusal(self) -> UpstreamError | None:
        """Return the error for calls until the next try is due; None where it is due."""
        wait_s, trouble = self.wait_s, self.trouble
        if trouble is None or wait_s <= 0:
            return None
        retry_in_s = None if math.isinf(wait_s) else wait_s
        return UpstreamError(trouble.upstream, trouble.cause, trouble.detail, retry_in_s=retry_in_s)

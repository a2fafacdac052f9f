"""What holds for every upstream: how long, how many, how often; and when one that failed is tried again."""

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
    """How long to wait after so many failures.

    Args:
        limit_s: seconds that are never passed while the breaker is closed.
        n_until_open: failures in a row after which the breaker opens, and only a slow probe is made.
        probe_s: seconds between probes.
        sustained_s: seconds that a connection must have been up for its end to count as the first failure again.
        spread: the share of a wait that the dice move it by, either way.
    """

    first_s: float = 0.5
    factor: float = 2.0
    limit_s: float = 60.0
    n_until_open: int = 10
    probe_s: float = 300.0
    sustained_s: float = 60.0
    spread: float = 0.2

    def wait_s(self, n_failures: int, dice: Callable[[], float]) -> float:
        """Return the seconds until the next try."""
        growing = min(self.limit_s, self.first_s * self.factor ** min(n_failures - 1, 64))
        wait = self.probe_s if n_failures >= self.n_until_open else growing
        return wait * (1 + self.spread * (2 * dice() - 1))


@dataclass(frozen=True)
class Policy:
    """What holds for every upstream of a gateway. Tests shorten it.

    Args:
        n_items: how many components of a kind are taken of a listing; `n_pages` of it, and `n_bytes` as JSON.
        n_starts: how many are started at once unasked, to see what they list.
        probe_s: seconds that a probe for the newer era is waited for alone.
        slot_s: seconds that a listing may keep others from being started for theirs.
        max_age_s: seconds after which a snapshot is taken again.
        empty_s: seconds that one is listened to which lists nothing yet, as those do that load or log in behind; after
            four times as many, and each time four times as many again, its snapshot is taken again.
        settle_s: seconds between being told of a change and listing again; `settle_limit_s` where one goes on telling.
        ping_s: seconds that one has to answer a ping after a call that it did not answer.
        close_s: seconds that ending a connection may take, before it is ended by force.
        disk_s: seconds that an end waits for what is being written, and a reload for snapshots to be read.
        grace_s: seconds that calls under way have to end, of an upstream that is configured away.
        n_isolated: sessions at once that have a connection of their own.
        n_offers: connections at once on which callers are asked in the middle of calls, one for all who offer the same.
        n_unreachable: calls in a row that did not get through, after which the connection counts as failed.
        is_once: whether one that failed is never tried again, and whoever asked tells why.
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
    """What an upstream has done since the gateway started, as metrics tell it."""

    n_starts: int = 0
    n_failures: int = 0  # of tries and connections
    n_calls: int = 0
    n_failed_calls: int = 0  # in an error of the upstream's connection
    n_untold: int = 0  # messages of calls that callers read too slowly for
    calls_s: float = 0.0


class Health:
    """The trouble of one upstream, shared by all of its connections. Only time that it was up resets it."""

    def __init__(self, policy: Policy, counts: Counts) -> None:
        self._policy, self.counts = policy, counts
        self.n_failures = 0
        """Failures in a row."""
        self.next_try_s: float | None = None
        """The event loop's time before which there is no other try; None after a success, or before the first."""
        self.trouble: UpstreamError | None = None
        """Why the last try or connection failed; None after one that did not."""
        self.since_s = time.time()
        """When a connection last came up, failed or ended, in seconds since 1970."""

    def failed(self, trouble: UpstreamError, up_s: float) -> None:
        """Take note of a try or a connection that failed, after so many seconds up; 0 where it never was."""
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
        """Take note of a connection that served and was ended by nothing but disuse."""
        self.n_failures, self.next_try_s, self.trouble = 0, None, None
        self.since_s = time.time()

    def allow_one(self) -> None:
        """Let a call that was never sent be tried at once, where this is the first failure."""
        if self.n_failures <= 1:
            self.next_try_s = None

    @property
    def wait_s(self) -> float:
        """Seconds until it may be tried again."""
        return 0.0 if self.next_try_s is None else max(0.0, self.next_try_s - asyncio.get_running_loop().time())

    def refusal(self) -> UpstreamError | None:
        """Return what a call is answered with until the next try is due; None where it may be tried."""
        wait_s, trouble = self.wait_s, self.trouble
        if trouble is None or wait_s <= 0:
            return None
        retry_in_s = None if math.isinf(wait_s) else wait_s
        return UpstreamError(trouble.upstream, trouble.cause, trouble.detail, retry_in_s=retry_in_s)

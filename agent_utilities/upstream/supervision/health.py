"""What is wrong with an upstream, when it is tried again, and what it has done so far."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

from agent_utilities.upstream.errors import UpstreamError
from agent_utilities.upstream.supervision.backoff import Failures
from agent_utilities.upstream.supervision.policy import Policy


@dataclass
class Counts:
    """What an upstream has done since the gateway started, as metrics tell it.

    Args:
        n_starts: connections that were tried.
        n_failures: tries and connections that failed.
        n_calls: calls that were made.
        n_failed_calls: calls that ended in an error of the upstream's connection.
        calls_s: seconds that all calls took together.
        starts_s: seconds that all starts took together that came to a connection.
    """

    n_starts: int = 0
    n_failures: int = 0
    n_calls: int = 0
    n_failed_calls: int = 0
    calls_s: float = 0.0
    starts_s: float = 0.0


class Health:
    """The trouble of one upstream, shared by all of its connections.

    Args:
        policy: when one that failed is tried again.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.counts = Counts()
        self.failures = Failures()
        self.trouble: UpstreamError | None = None
        """Why the last try or connection failed; None after one that did not."""

    def failed(self, trouble: UpstreamError, up_s: float) -> None:
        """Take note of a try or a connection that failed.

        Args:
            trouble: why.
            up_s: seconds that the connection had been up; 0 where it never was.
        """
        self.counts.n_failures += 1
        rule, now_s = self._policy.backoff, asyncio.get_running_loop().time()
        is_refused = trouble.cause == "refused"
        self.failures = self.failures.after_failure(rule, now_s, up_s, self._policy.dice, is_refused=is_refused)
        if self._policy.is_once:
            self.failures = Failures(self.failures.n_failures, math.inf)
        self.trouble = trouble

    def is_well(self) -> None:
        """Take note of a connection that served and was ended by nothing but disuse."""
        self.failures, self.trouble = Failures(), None

    def allow_one(self) -> None:
        """Let a call that was never sent be tried at once, where this is the first failure."""
        if self.failures.n_failures <= 1:
            self.failures = Failures(self.failures.n_failures, None)

    @property
    def wait_s(self) -> float:
        """Seconds until it may be tried again."""
        if self.failures.next_try_s is None:
            return 0.0
        return max(0.0, self.failures.next_try_s - asyncio.get_running_loop().time())

    def refusal(self) -> UpstreamError | None:
        """Return what a call is answered with until the next try is due; None where it may be tried."""
        wait_s, trouble = self.wait_s, self.trouble
        if trouble is None or wait_s <= 0:
            return None
        retry_in_s = None if math.isinf(wait_s) else wait_s
        return UpstreamError(trouble.upstream, trouble.cause, trouble.detail, retry_in_s=retry_in_s)

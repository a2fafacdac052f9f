"""What holds for every upstream of a gateway: how long, how many, how often."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from agent_utilities.upstream.backoff import BackoffRule
from agent_utilities.upstream.listing import ListingBounds


@dataclass(frozen=True)
class Policy:
    """What holds for every upstream of a gateway.

    Args:
        backoff: when one that failed is tried again.
        bounds: how much of a listing is taken.
        probe_s: seconds that a probe for the newer era is waited for alone.
        max_age_s: seconds after which a snapshot is taken again.
        settle_s: seconds between being told of a change and listing again.
        dice: gives numbers in [0, 1).
    """

    backoff: BackoffRule = field(default_factory=BackoffRule)
    bounds: ListingBounds = field(default_factory=ListingBounds)
    probe_s: float = 1.0
    max_age_s: float = 24 * 3600.0
    settle_s: float = 0.2
    dice: Callable[[], float] = random.random

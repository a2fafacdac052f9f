"""What holds for every upstream of a gateway: how long, how many, how often."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from agent_utilities.upstream.supervision.backoff import BackoffRule


@dataclass(frozen=True, slots=True)
class ListingBounds:
    """How much of a listing is taken, of each kind of component.

    Args:
        n_items: components.
        n_pages: pages.
        n_bytes: bytes, as JSON.
    """

    n_items: int = 20_000
    n_pages: int = 1_000
    n_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True)
class Policy:
    """What holds for every upstream of a gateway. Tests shorten it.

    Args:
        backoff: when one that failed is tried again.
        bounds: how much of a listing is taken.
        probe_s: seconds that a probe for the newer era is waited for alone.
        slot_s: seconds that a start may keep others from starting.
        max_age_s: seconds after which a snapshot is taken again.
        settle_s: seconds between being told of a change and listing again.
        settle_limit_s: the same, of an upstream that goes on telling of changes.
        ping_s: seconds that one has to answer a ping after a call that it did not answer.
        close_s: seconds that ending a connection may take, before it is ended by force.
        disk_s: seconds that an end waits for what is being written, and a reload for snapshots to be read.
        grace_s: seconds that calls under way have to end, of an upstream that is configured away.
        n_isolated: sessions at once that have a connection of their own.
        n_offers: connections at once on which callers are asked in the middle of calls, one for all who offer the same.
        n_unreachable: calls in a row that did not get through, after which the connection counts as failed.
        is_once: whether one that failed is never tried again, and whoever asked tells why.
        dice: gives numbers in [0, 1).
    """

    backoff: BackoffRule = field(default_factory=BackoffRule)
    bounds: ListingBounds = field(default_factory=ListingBounds)
    probe_s: float = 1.0
    slot_s: float = 10.0
    max_age_s: float = 24 * 3600.0
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

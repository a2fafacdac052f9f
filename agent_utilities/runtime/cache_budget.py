"""What all that a server remembers of requests may take together, and the part of it that each memo has."""

from __future__ import annotations

from typing import Literal

Memo = Literal["requests", "settled", "decisions", "resolution", "searches"]

_SHARES: dict[Memo, float] = {
    "requests": 0.06,
    "settled": 0.10,
    "decisions": 0.26,
    "resolution": 0.17,
    "searches": 0.03,
}
"""The rest is for what a ranker's index remembers: views of what callers may use, vectors of requests, late answers.
That is bounded where the index is made, at 24 MiB together."""

LONGEST_KEPT = 32 << 10
"""What one caller's selection may take to be remembered, in bytes: some two hundred names. A longer one is read and
decided at each request: few of them would put out all else, and an allocator gives their memory back late."""


def cache_bytes(cache_mb: int, memo: Memo) -> int:
    """Return how many bytes a memo may take.

    Args:
        cache_mb: what all may take together, in MiB; 0 keeps nothing.
        memo: which.
    """
    return int((cache_mb << 20) * _SHARES[memo])

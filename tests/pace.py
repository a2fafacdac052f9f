"""How fast this machine is just now, for tests of how long a piece of work may be."""

from __future__ import annotations

import time

LONGEST = 16
"""The longest turn of the event loop, in units of `pace`: some 22 ms on a calm machine, where law L7 says 10.

Beside other work, and under the fast suite's audit hook, the same steps take several times the processor time.
"""


def pace() -> float:
    """Return the CPU seconds that a fixed piece of work takes now, the longest of three: 1.4 ms on a calm machine."""
    taken = []
    for _ in range(3):
        started = time.thread_time()
        sorted(str(i) for i in range(10_000))
        taken.append(time.thread_time() - started)
    return max(taken)

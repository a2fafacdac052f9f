"""Reaching upstreams for a moment: to see what they list, where no server runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from agent_utilities.upstream.supervision.supervisor import Upstream
from agent_utilities.upstream.supervision.upstreams import Upstreams


async def _renew(upstream: Upstream) -> None:
    await upstream.renewed()


async def reach(
    upstreams: Upstreams,
    wanted: Callable[[Upstream], bool] = lambda upstream: upstream.config.enabled,
    reach_one: Callable[[Upstream], Awaitable[None]] = _renew,
) -> None:
    """Take a snapshot of upstreams anew, side by side, and end what was started for it.

    Args:
        upstreams: all of them; they must not be supervised yet.
        wanted: which to reach.
        reach_one: reaches one, and returns when that is done or has failed.
    """
    async with asyncio.TaskGroup() as group:
        started = asyncio.Event()
        supervising = group.create_task(upstreams.run(started))
        await started.wait()
        chosen: Iterable[Upstream] = filter(wanted, upstreams)
        await asyncio.gather(*map(reach_one, chosen))
        supervising.cancel()

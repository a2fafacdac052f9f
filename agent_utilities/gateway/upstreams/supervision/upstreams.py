"""All upstreams of a gateway: kept apart, started so many at once, reloaded and ended together."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

import httpx2

from agent_utilities.gateway.upstreams.config import GatewayConfig, UpstreamConfig
from agent_utilities.gateway.upstreams.processes.process import ProcessGuard
from agent_utilities.gateway.upstreams.processes.stderr_log import StderrLog, log_file
from agent_utilities.gateway.upstreams.snapshot import Snapshot
from agent_utilities.gateway.upstreams.supervision.backoff import Policy
from agent_utilities.gateway.upstreams.supervision.listing import Listing
from agent_utilities.gateway.upstreams.supervision.opening import Opener, Shared
from agent_utilities.gateway.upstreams.supervision.upstream import Start, Upstream
from agent_utilities.runtime.waiting import in_daemon_thread

_BEHIND = {
    "source", "allow", "deny", "lazy", "tags", "description", "timeout_s", "idle_s", "overrides", "capabilities",
    "start_timeout_s", "list_timeout_s", "max_call_s", "forward_headers", "forward_meta",
    "quota",
}  # fmt: skip
"""What of a config may change without the connection being another."""


class Snapshots(Protocol):
    """Keeps what upstreams listed last; both methods wait for a disk."""

    def load(self, config: UpstreamConfig) -> Snapshot | None: ...

    def save(self, snapshot: Snapshot) -> None: ...


class Upstreams:
    """All upstreams of a gateway.

    Args:
        logs: the folder where what upstreams write to stderr is kept; None for memory alone.
        before_import, auth_of, may_list: see `Shared`.
    """

    def __init__(
        self,
        config: GatewayConfig,
        *,
        environ: Mapping[str, str],
        store: Snapshots,
        on_change: Callable[[str], None],
        logs: Path | None = None,
        policy: Policy | None = None,
        before_import: Callable[[], None] = lambda: None,
        auth_of: Callable[[UpstreamConfig, str], httpx2.Auth | None] | None = None,
        may_list: Callable[[UpstreamConfig], bool] = lambda _: True,
    ) -> None:
        self._store, self._on_change, self._logs = store, on_change, logs
        policy = policy or Policy()
        places = asyncio.Semaphore(policy.n_starts)
        self._shared = Shared(environ, ProcessGuard(), policy, places, before_import, auth_of, may_list)
        self._start: Start | None = None
        self._exchanging: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._reloading = asyncio.Lock()
        self._upstreams = {one.name: self._made(one, store.load(one)) for one in config.upstreams}

    def __iter__(self) -> Iterator[Upstream]:
        return iter(tuple(self._upstreams.values()))

    def __getitem__(self, name: str) -> Upstream:
        return self._upstreams[name]

    def get(self, name: str) -> Upstream | None:
        """Return the upstream of that name, None where there is none."""
        return self._upstreams.get(name)

    async def run(self, started: asyncio.Event | None = None) -> None:
        """Supervise until cancelled. Every process has ended then, and its last words are on a disk that answers."""
        context = contextvars.copy_context()
        try:
            async with self._shared.guard, asyncio.TaskGroup() as group:
                self._start = lambda work: group.create_task(work, context=context.copy())
                try:
                    for upstream in self:
                        upstream.run(self._start)
                    if started is not None:
                        started.set()
                    await asyncio.get_running_loop().create_future()
                finally:
                    self._start = None
                    for upstream in self:
                        upstream.refuse_calls()
        finally:
            await in_daemon_thread(self._flush_logs)

    def _flush_logs(self) -> None:
        ends_s = time.monotonic() + self._shared.policy.disk_s
        for upstream in self:
            upstream.opener.stderr.flush(max(0.0, ends_s - time.monotonic()))

    async def reload(self, config: GatewayConfig) -> None:
        """Take another config: what is unchanged in it keeps its connections.

        One that is gone, or another by its config, ends its calls behind; its successor starts once it has ended.
        """
        async with self._reloading:
            present = {one.config.name: one.config for one in self}
            new = [each for each in config.upstreams if not _is_same_connection(present.get(each.name), each)]
            known = await in_daemon_thread(lambda: {one.name: self._store.load(one) for one in new})
            before, self._upstreams = self._upstreams, {}
            changed = dict.fromkeys(known)
            for wanted in config.upstreams:
                name = wanted.name
                if name in known:
                    upstream = self._made(wanted, known[name])
                    if self._start is not None:
                        upstream.expect_run()
                else:
                    upstream = before.pop(name)
                    if upstream.config != wanted:
                        upstream.opener.config = wanted
                        changed[name] = None
                self._upstreams[name] = upstream
            if self._start is not None:
                for name in before | known:
                    self._start(self._exchange(name, before.get(name)))
            for name in changed | before:
                self._on_change(name)

    async def _exchange(self, name: str, before: Upstream | None) -> None:
        """End one upstream and begin another, which may want the first one's port."""
        async with self._exchanging[name]:
            if before is not None:
                await before.stop()
            after = self._upstreams.get(name)
            if after is not None and self._start is not None and not after.is_running:
                after.run(self._start)

    def _made(self, config: UpstreamConfig, snapshot: Snapshot | None) -> Upstream:
        stderr = StderrLog(log_file(self._logs, config.name) if self._logs is not None else None)
        changed = partial(self._on_change, config.name)
        opener = Opener(config, stderr, self._shared)
        return Upstream(opener, Listing(opener, snapshot, save=self._store.save, on_change=changed))


def _is_same_connection(one: UpstreamConfig | None, other: UpstreamConfig) -> bool:
    return one is not None and one.model_copy(update={field: getattr(other, field) for field in _BEHIND}) == other


async def reach(
    upstreams: Upstreams,
    wanted: Callable[[Upstream], bool] = lambda upstream: upstream.config.enabled,
    reach_one: Callable[[Upstream], Awaitable[None]] = Upstream.renewed,
) -> None:
    """Take a snapshot of upstreams that are not supervised yet, side by side, and end what was started for it."""
    async with asyncio.TaskGroup() as group:
        started = asyncio.Event()
        supervising = group.create_task(upstreams.run(started))
        await started.wait()
        await asyncio.gather(*map(reach_one, filter(wanted, upstreams)))
        supervising.cancel()

"""All upstreams of a gateway: supervised, reloaded and ended together, with a limit on concurrent starts."""

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
    "quota", "approve", "results",
}  # fmt: skip
"""The fields of a config that may change without a new connection."""


class Snapshots(Protocol):
    """Stores upstreams' snapshots; both methods wait for a disk."""

    def load(self, config: UpstreamConfig) -> Snapshot | None: ...

    def save(self, snapshot: Snapshot) -> None: ...


class Upstreams:
    """All upstreams of a gateway.

    Args:
        logs: the folder of the logs of upstreams' stderr; None for memory alone.
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
        return self._upstreams.get(name)

    async def run(self, started: asyncio.Event | None = None) -> None:
        """Supervise until cancelled; by its return every process has ended, and the logs are written."""
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
        """Apply another config: unchanged upstreams keep their connections.

        A removed or changed one ends its calls in the background; its successor starts once it has ended.
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
        """End one upstream, then begin its successor, which may need the first one's port."""
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
    """Reach upstreams that are not supervised yet, side by side, by default for a snapshot; then end them."""
    async with asyncio.TaskGroup() as group:
        started = asyncio.Event()
        supervising = group.create_task(upstreams.run(started))
        await started.wait()
        await asyncio.gather(*map(reach_one, filter(wanted, upstreams)))
        supervising.cancel()

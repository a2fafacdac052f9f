"""All upstreams of a gateway: kept apart, started so many at once, reloaded and ended together."""

from __future__ import annotations

import asyncio
import contextvars
import os
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_utilities.runtime.waiting import in_daemon_thread
from agent_utilities.upstream.processes.process import ProcessGuard
from agent_utilities.upstream.processes.stderr_log import StderrLog, log_file
from agent_utilities.upstream.supervision.backoff import Policy
from agent_utilities.upstream.supervision.opening import Opener, StartSlots, UpstreamErrors
from agent_utilities.upstream.supervision.renewal import Renewal
from agent_utilities.upstream.supervision.supervisor import Upstream

if TYPE_CHECKING:
    from agent_utilities.upstream.config import GatewayConfig, UpstreamConfig
    from agent_utilities.upstream.snapshot import Snapshot
    from agent_utilities.upstream.snapshot_store import SnapshotStore


_BEHIND = {
    "source", "allow", "deny", "lazy", "tags", "description", "timeout_s", "idle_s", "overrides", "capabilities",
    "start_timeout_s", "list_timeout_s", "max_call_s", "forward_headers", "forward_meta",
}  # fmt: skip
"""What of a config may change without the connection being another."""


class Upstreams:
    """All upstreams of a gateway.

    Args:
        n_starts: how many are started at once; four times the processors, and at least 8, where None.
        logs: the folder where what upstreams write to stderr is kept; None for memory alone.
        before_import: called on the event loop before a thread imports what reaches an upstream.
    """

    def __init__(
        self,
        config: GatewayConfig,
        *,
        environ: Mapping[str, str],
        store: SnapshotStore,
        on_change: Callable[[str], None],
        n_starts: int | None = None,
        logs: Path | None = None,
        policy: Policy | None = None,
        before_import: Callable[[], None] = lambda: None,
    ) -> None:
        self._environ, self._store, self._on_change, self._logs = environ, store, on_change, logs
        self._policy = policy or Policy()
        n_slots = n_starts or max(8, 4 * (os.cpu_count() or 1))
        self._slots = StartSlots(n_slots, self._policy.slot_s, before_import)
        self._guard = ProcessGuard()
        self._start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]] | None = None
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
        """Supervise until cancelled; every process has ended then."""
        context = contextvars.copy_context()
        async with self._logs_flushed(), self._guard, asyncio.TaskGroup() as group:

            def start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
                return group.create_task(work, context=context.copy())

            self._start = start
            try:
                for upstream in self:
                    upstream.run(start)
                if started is not None:
                    started.set()
                await asyncio.get_running_loop().create_future()
            finally:
                self._start = None
                for upstream in self:
                    upstream.refuse_calls()

    @asynccontextmanager
    async def _logs_flushed(self) -> AsyncIterator[None]:
        """Wait for the disk at the end, but not for one that hangs."""
        try:
            yield
        finally:
            await in_daemon_thread(partial(_flush, [each.stderr for each in self], self._policy.disk_s))

    async def reload(self, config: GatewayConfig) -> None:
        """Take another config: what is unchanged in it keeps its connections.

        One that is gone, or another by its config, ends its calls behind; its successor starts once it has ended.
        """
        async with self._reloading:
            new = [wanted for wanted in config.upstreams if not self._has(wanted)]
            known = await in_daemon_thread(lambda: {one.name: self._store.load(one) for one in new})
            self._exchange_all(config, known)

    def _exchange_all(self, config: GatewayConfig, known: Mapping[str, Snapshot | None]) -> None:
        """Put the upstreams of a config in place of those before."""
        before, self._upstreams = self._upstreams, {}
        changed: list[str] = []
        for wanted in config.upstreams:
            present = before.get(wanted.name)
            if present is not None and wanted.name not in known:
                del before[wanted.name]
                if present.config != wanted:
                    present.config = wanted
                    changed.append(wanted.name)
                self._upstreams[wanted.name] = present
                continue
            self._upstreams[wanted.name] = self._made(wanted, known[wanted.name])
            self._upstreams[wanted.name].is_coming = self._start is not None
            changed.append(wanted.name)
        if self._start is not None:
            for name in {**before, **dict.fromkeys(changed)}:
                self._start(self._exchange(name, before.get(name)))
        for name in {**dict.fromkeys(changed), **before}:
            self._on_change(name)

    async def _exchange(self, name: str, before: Upstream | None) -> None:
        """End one upstream and begin another, which may want the first one's port."""
        async with self._exchanging[name]:
            if before is not None:
                await before.stop()
            after = self._upstreams.get(name)
            if after is not None and self._start is not None and not after.is_running:
                after.run(self._start)

    def _has(self, wanted: UpstreamConfig) -> bool:
        """Whether there is an upstream whose connections a config keeps."""
        present = self._upstreams.get(wanted.name)
        return present is not None and _is_same_connection(present.config, wanted)

    def _made(self, config: UpstreamConfig, snapshot: Snapshot | None) -> Upstream:
        stderr = StderrLog(log_file(self._logs, config.name) if self._logs is not None else None)
        errors = UpstreamErrors(config, stderr)
        renewal = Renewal(
            snapshot,
            policy=self._policy,
            errors=errors,
            save=self._store.save,
            on_change=lambda: self._on_change(config.name),
        )
        opener = Opener(
            errors,
            environ=self._environ,
            guard=self._guard,
            slots=self._slots,
            policy=self._policy,
        )
        return Upstream(opener, renewal, self._policy)


def _flush(logs: Sequence[StderrLog], limit_s: float) -> None:
    ends_s = time.monotonic() + limit_s
    for log in logs:
        log.flush(max(0.0, ends_s - time.monotonic()))


def _is_same_connection(one: UpstreamConfig, other: UpstreamConfig) -> bool:
    """Whether two configs differ in nothing that a connection is made with."""
    fields = set(type(one).model_fields) - _BEHIND
    return all(getattr(one, field) == getattr(other, field) for field in fields)


async def reach(
    upstreams: Upstreams,
    wanted: Callable[[Upstream], bool] = lambda upstream: upstream.config.enabled,
    reach_one: Callable[[Upstream], Awaitable[None]] = Upstream.renewed,
) -> None:
    """Take a snapshot of upstreams anew, side by side, and end what was started for it.

    Args:
        upstreams: all of them; they must not be supervised yet.
    """
    async with asyncio.TaskGroup() as group:
        started = asyncio.Event()
        supervising = group.create_task(upstreams.run(started))
        await started.wait()
        chosen: Iterable[Upstream] = filter(wanted, upstreams)
        await asyncio.gather(*map(reach_one, chosen))
        supervising.cancel()

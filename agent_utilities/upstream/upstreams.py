"""All upstreams of a gateway: kept apart, started so many at once, reloaded and ended together."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from agent_utilities.upstream.config import GatewayConfig, UpstreamConfig
from agent_utilities.upstream.policy import Policy
from agent_utilities.upstream.snapshot import Snapshot
from agent_utilities.upstream.supervisor import Upstream


class Snapshots(Protocol):
    """Where snapshots are kept from one run to the next."""

    def load(self, config: UpstreamConfig) -> Snapshot | None:
        """Return the snapshot that was taken with this config, None where there is none."""

    def save(self, snapshot: Snapshot) -> None:
        """Keep a snapshot."""


class Upstreams:
    """All upstreams of a gateway.

    Args:
        config: every upstream that is configured.
        environ: the user's environment.
        store: where snapshots are kept.
        on_change: told the name of an upstream whose snapshot or presence has changed.
        n_starts: how many are started at once; twice the processors where None.
        policy: what holds for every upstream.
    """

    def __init__(
        self,
        config: GatewayConfig,
        *,
        environ: Mapping[str, str],
        store: Snapshots,
        on_change: Callable[[str], None],
        n_starts: int | None = None,
        policy: Policy | None = None,
    ) -> None:
        self._environ, self._store, self._on_change = environ, store, on_change
        self._policy = policy or Policy()
        self._slots = asyncio.Semaphore(n_starts or 2 * (os.cpu_count() or 1))
        self._upstreams = {one.name: self._made(one) for one in config.upstreams}
        self._group: asyncio.TaskGroup | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def __iter__(self) -> Iterator[Upstream]:
        return iter(tuple(self._upstreams.values()))

    def __getitem__(self, name: str) -> Upstream:
        return self._upstreams[name]

    def get(self, name: str) -> Upstream | None:
        """Return the upstream of that name, None where there is none."""
        return self._upstreams.get(name)

    async def run(self, started: asyncio.Event | None = None) -> None:
        """Supervise until cancelled; every process has ended then.

        Args:
            started: set once calls are taken.
        """
        async with asyncio.TaskGroup() as self._group:
            for upstream in self:
                self._supervise(self._group, upstream)
            if started is not None:
                started.set()
            await asyncio.Future()

    async def reload(self, config: GatewayConfig) -> None:
        """Take another config: what is unchanged in it keeps its connections.

        Args:
            config: every upstream that is configured now.
        """
        wanted = {one.name: one for one in config.upstreams}
        gone = [name for name, upstream in self._upstreams.items() if wanted.get(name) != upstream.config]
        ended = [task for name in gone if (task := self._tasks.pop(name, None)) is not None]
        for task in ended:
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)
        before = self._upstreams
        self._upstreams = {
            name: before[name] if name in before and name not in gone else self._made(one)
            for name, one in wanted.items()
        }
        for name, upstream in self._upstreams.items():
            if before.get(name) is not upstream and self._group is not None:
                self._supervise(self._group, upstream)
        for name in dict.fromkeys([*gone, *(wanted.keys() - before.keys())]):
            self._on_change(name)

    def _made(self, config: UpstreamConfig) -> Upstream:
        known = self._store.load(config)

        def on_snapshot(snapshot: Snapshot) -> None:
            nonlocal known
            self._store.save(snapshot)
            is_same = known is not None and known.digest == snapshot.digest
            known = snapshot
            if not is_same:
                self._on_change(config.name)

        return Upstream(
            config,
            environ=self._environ,
            snapshot=known,
            slots=self._slots,
            on_snapshot=on_snapshot,
            policy=self._policy,
        )

    def _supervise(self, group: asyncio.TaskGroup, upstream: Upstream) -> None:
        if not upstream.config.enabled:
            return
        self._tasks[upstream.config.name] = group.create_task(upstream.run())
        if upstream.snapshot is None:
            group.create_task(upstream.renew())

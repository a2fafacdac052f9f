"""Upstreams of real processes, run for one test."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from agent_utilities.upstream.config import GatewayConfig, UpstreamConfig
from agent_utilities.upstream.policy import Policy
from agent_utilities.upstream.snapshot import Snapshot
from agent_utilities.upstream.upstreams import Upstreams

HERE = Path(__file__).parent


class KeptSnapshots:
    """Snapshots in memory, by the digest of the config that they were taken with."""

    def __init__(self) -> None:
        self.snapshots: dict[str, Snapshot] = {}

    def load(self, config: UpstreamConfig) -> Snapshot | None:
        """Return the snapshot that was taken with this config."""
        return self.snapshots.get(config.digest)

    def save(self, snapshot: Snapshot) -> None:
        """Keep a snapshot."""
        self.snapshots[snapshot.config_digest] = snapshot


def script(name: str, file: str, *args: str, **settings: Any) -> UpstreamConfig:
    """Return the config of an upstream that is a script of this folder."""
    return UpstreamConfig(
        name=name,
        source=f"test: {name}",
        transport="stdio",
        command=sys.executable,
        args=tuple(SecretStr(arg) for arg in (str(HERE / file), *args)),
        **settings,
    )


@asynccontextmanager
async def running(
    *configs: UpstreamConfig, store: KeptSnapshots | None = None, policy: Policy | None = None, n_starts: int = 4
) -> AsyncIterator[Upstreams]:
    """Run upstreams until the block is left."""
    changes: list[str] = []
    upstreams = Upstreams(
        GatewayConfig(upstreams=configs),
        environ=os.environ,
        store=store or KeptSnapshots(),
        on_change=changes.append,
        n_starts=n_starts,
        policy=policy,
    )
    started = asyncio.Event()
    task = asyncio.create_task(upstreams.run(started))
    try:
        await started.wait()
        yield upstreams
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

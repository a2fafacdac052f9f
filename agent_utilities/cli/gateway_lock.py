"""`agent-utilities gateway lock`: what upstreams tell models is accepted once, and changes are shown and accepted."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from agent_utilities.cli.progress import Steps
from agent_utilities.upstream.config import GatewayConfig
from agent_utilities.upstream.operator.lock import Lock, accept, changes, lock_of, named
from agent_utilities.upstream.operator.lock_file import lock_path, read_lock, write_lock
from agent_utilities.upstream.operator.lock_text import change_text, visible
from agent_utilities.upstream.snapshots.snapshot_store import SnapshotStore
from agent_utilities.upstream.supervision.policy import Policy
from agent_utilities.upstream.supervision.reaching import reach
from agent_utilities.upstream.supervision.supervisor import Upstream
from agent_utilities.upstream.supervision.upstreams import Upstreams


async def take_snapshots(config: GatewayConfig, store: SnapshotStore) -> None:
    """See what every upstream lists now, and keep it."""
    with Steps(sum(upstream.enabled for upstream in config.upstreams)) as steps:

        async def reach_one(upstream: Upstream) -> None:
            await upstream.renewed()
            state = upstream.state
            told = f": {state.cause}: {state.detail}" if state.cause else ""
            steps.begin(f"{upstream.config.name}: {state.name}{told}")

        policy = Policy(is_once=True)
        upstreams = Upstreams(config, environ=os.environ, store=store, on_change=lambda _: None, policy=policy)
        await reach(upstreams, reach_one=reach_one)


def lock_gateway(
    config: GatewayConfig, store: SnapshotStore, file: Path, *, accepted: Sequence[str] = (), accept_all: bool = False
) -> int:
    """Write the lock of a config where there is none; else show what has changed, and accept what is named.

    Args:
        config: the upstreams.
        store: what they last listed; taken anew before this, what is accepted is what they list now.
        file: the config file that the lock stands beside.
        accepted: names of changes to accept.
        accept_all: accept every change.

    Returns:
        The exit code: 1 where changes wait to be accepted, else 0.

    Raises:
        LockError: the lock can't be read or written, or nothing of a name has changed.
    """
    path = lock_path(file)
    enabled = [upstream for upstream in config.upstreams if upstream.enabled]
    loaded = {upstream.name: store.load(upstream) for upstream in enabled}
    snapshots = [snapshot for snapshot in loaded.values() if snapshot is not None]
    for name in (name for name, snapshot in loaded.items() if snapshot is None):
        told = f"{visible(name)!r} was never reached: once a lock is there, what it lists is withheld until accepted"
        print(told, file=sys.stderr)
    lock = read_lock(path)
    if lock is None:
        lock = lock_of(snapshots)
        write_lock(path, lock)
        print(f"{path} has {len(lock.accepted)} definitions of {len(snapshots)} servers")
        print("what changes or is new from now on is withheld until `gateway lock --accept NAME`", file=sys.stderr)
        return 0
    pending = changes(lock, snapshots)
    if accept_all:
        accepted = [str(change.key) for change in pending]
    taken = [change.key for name in accepted for change in named(name, pending)]
    for change in pending:
        print(change_text(change) + ("\n  accepted" if change.key in taken else ""))
    if taken:
        write_lock(path, accept(lock, accepted, snapshots))
    return _told(lock, path, [change.what for change in pending if change.key not in taken])


def _told(lock: Lock, path: Path, waiting: Sequence[str]) -> int:
    """Say what waits to be accepted; return the exit code."""
    if not waiting:
        print(f"nothing to accept: all is as {path} has it")
        return 0
    n_withheld = sum(what != "removed" for what in waiting)
    print(
        f"{n_withheld} withheld, {len(waiting) - n_withheld} gone; accept with --accept NAME, or --all", file=sys.stderr
    )
    return 1

"""Replicas that share a Redis behind nginx, each held to a part of a processor, and what each process has used."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import psutil

from benchmarks.contenders import environment
from tests.fleet.processes.replicas import Shared, shared_redis
from tests.fleet.processes.services import Balancer, nginx
from tests.wire.processes import HttpProcess

GROUPS = Path("/sys/fs/cgroup/cpu")
"""Where Linux has cgroup v1's groups of processes that share processor time."""
PERIOD_S, QUOTA_S = 0.1, 0.025
"""Each replica's processes may run for a quarter of every tenth of a second, together."""
OTHERS = "others"
_SERVER = Path(__file__).with_name("fleet_replica.py")


class Held:
    """A group of processes that is held to a part of a processor; removed once they have ended.

    Args:
        name: of the group.

    Raises:
        OSError: groups can't be made here.
    """

    def __init__(self, name: str) -> None:
        self._folder = GROUPS / name
        self._folder.mkdir()
        (self._folder / "cpu.cfs_period_us").write_text(str(round(1e6 * PERIOD_S)))

    def add(self, pid: int) -> None:
        """Hold a process with all its threads too."""
        (self._folder / "cgroup.procs").write_text(str(pid))

    def hold(self, quota_s: float | None) -> None:
        """Let them run for so many seconds of each period; as long as they like where None."""
        (self._folder / "cpu.cfs_quota_us").write_text("-1" if quota_s is None else str(round(1e6 * quota_s)))

    def remove(self) -> None:
        """Remove it."""
        self._folder.rmdir()


def why_not() -> str:
    """Return why replicas can't be held here, or nothing."""
    if not os.access(GROUPS, os.W_OK) or not (GROUPS / "cpu.cfs_quota_us").exists():
        return f"no cgroup can be made: {GROUPS}/cpu.cfs_quota_us (cgroup v1) is not there, or not to be written"
    return ""


def cpu_s(pid: int) -> float:
    """Return the processor time that a process and its children have used, as Linux tells it."""
    process = psutil.Process(pid)
    times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return sum(each.user + each.system for each in times)


@dataclass(frozen=True)
class Fleet:
    """What runs.

    Args:
        redis: which all share.
        balancers: in front of the first replica, of the first two, and so on.
        replicas: the servers.
        held: the group of each.
    """

    redis: Shared
    balancers: Sequence[Balancer]
    replicas: Sequence[HttpProcess]
    held: Sequence[Held]

    def over(self, n: int) -> int:
        """Return the port of the balancer in front of the first replicas alone."""
        return self.balancers[n - 1].port

    @property
    def ports(self) -> list[int]:
        """Of the replicas."""
        return [int(each.url.rpartition(":")[2]) for each in self.replicas]

    def hold(self, quota_s: float | None) -> None:
        """Hold every replica to so many seconds of each period; to none where None."""
        for each in self.held:
            each.hold(quota_s)

    def cpu_s(self) -> dict[str, float]:
        """Return the processor time that each part has used: `replica 0` and so on, `redis`, `nginx`,
        `client`, and what others on this machine have used."""
        used = {f"replica {i}": cpu_s(each.process.pid) for i, each in enumerate(self.replicas)}
        used["redis"] = cpu_s(self.redis.process.process.pid)
        used["nginx"] = sum(cpu_s(each.process.process.pid) for each in self.balancers)
        own, all_of_it = psutil.Process().cpu_times(), psutil.cpu_times()
        used["client"] = own.user + own.system
        busy = all_of_it.user + all_of_it.nice + all_of_it.system + all_of_it.irq + all_of_it.softirq
        return used | {OTHERS: busy - sum(used.values())}

    def session_bytes(self) -> list[int]:
        """Return the bytes that each session takes in Redis."""
        keys = self.redis.admin.scan_iter("*:session:*", count=1000)
        return [int(cast(Any, self.redis.admin.memory_usage(key)) or 0) for key in keys]


@contextmanager
def fleet(folder: Path, n: int) -> Iterator[Fleet]:
    """Run replicas, held to nothing yet; all ends with the block, and the groups are removed."""
    with ExitStack() as stack:
        redis = stack.enter_context(shared_redis(folder))
        held, replicas = [], []
        for number in range(n):
            held.append(Held(f"benchmark-{os.getpid()}-{number}"))
            stack.callback(held[-1].remove)
        for number, group in enumerate(held):
            home = folder / f"replica-{number}"
            home.mkdir()
            environ = environment(str(home)) | redis.environ
            environ |= {"MCP_GRAPH": "off", "MCP_TOOL_SEARCH": "on", "MCP_CONFIG_FILE": "none", "MCP_USAGE": "counts"}
            command = [sys.executable, str(_SERVER), "-t", "http", "-p", "0", "--log-level", "info"]
            replicas.append(HttpProcess(command, environ, home))
            stack.callback(replicas[-1].stop)
            group.add(replicas[-1].process.pid)
        for each in replicas:
            each.wait()
        ports = [int(each.url.rpartition(":")[2]) for each in replicas]
        balancers = [stack.enter_context(nginx(folder / f"nginx-{i}", ports[:i])) for i in range(1, n + 1)]
        yield Fleet(redis, balancers, replicas, held)

"""Upstreams that are real processes, and how to wait for a process to be gone."""

from __future__ import annotations

import asyncio
import os
import select
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Unpack

from fastmcp.client.transports.base import ClientTransport, SessionKwargs, TransportOptions
from mcp import ClientSession

from agent_utilities.gateway.upstreams.config import UpstreamConfig
from agent_utilities.gateway.upstreams.http.transports import HttpUpstream
from agent_utilities.gateway.upstreams.limits import Limits, Unfinished
from agent_utilities.gateway.upstreams.processes.process import ProcessGuard
from agent_utilities.gateway.upstreams.processes.stderr_log import StderrLog
from agent_utilities.gateway.upstreams.processes.stdio import StdioUpstream

FAULTY_SERVER = Path(__file__).parent / "faulty_server.py"
PATIENCE_S = 30.0
"""Seconds after which a test gives up; far more than anything here takes."""


def config(*faults: str, **more: Any) -> UpstreamConfig:
    """Return the config of a faulty server.

    Args:
        faults: its arguments.
        more: other keys of the config.
    """
    given = {"name": "faulty", "source": "test", "transport": "stdio", "command": sys.executable}
    return UpstreamConfig.model_validate(given | {"args": ("-I", "-S", str(FAULTY_SERVER), *faults)} | more)


@asynccontextmanager
async def upstream(
    *faults: str, environ: Mapping[str, str] | None = None, limits: Limits | None = None, **more: Any
) -> AsyncIterator[StdioUpstream]:
    """Give a faulty server that is not yet started, with a guard of its own.

    Args:
        faults: its arguments.
        environ: the gateway's environment; ours by default.
        limits: what it may send; its config's where None.
        more: other keys of its config.
    """
    async with ProcessGuard() as guard:
        own = os.environ if environ is None else environ
        given = config(*faults, **more)
        faulty = StdioUpstream(given, environ=own, stderr=StderrLog(), guard=guard, unfinished=Unfinished())
        faulty.limits = limits or given.limits
        yield faulty


class Over(ClientTransport):
    """What reaches an upstream, as FastMCP's client takes it."""

    def __init__(self, reached: StdioUpstream | HttpUpstream) -> None:
        self._reached = reached

    @asynccontextmanager
    async def connect_session(
        self, *, transport_options: TransportOptions | None = None, **session_kwargs: Unpack[SessionKwargs]
    ) -> AsyncIterator[ClientSession]:
        """Give a session that is not yet initialized."""
        async with self._reached.streams() as streams, ClientSession(*streams, **session_kwargs) as session:
            yield session


async def until(condition: Callable[[], bool]) -> None:
    """Return once a condition holds.

    Raises:
        TimeoutError: it does not come to hold.
    """
    for _ in range(int(PATIENCE_S / 0.01)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


def wait_until_gone(pid: int) -> None:
    """Return once a process has ended, reaped or not.

    Raises:
        TimeoutError: it lives on.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if not select.select([descriptor], [], [], PATIENCE_S)[0]:
            raise TimeoutError(f"process {pid} lives on")
    finally:
        os.close(descriptor)


def is_alive(pid: int) -> bool:
    """Whether a process of this id lives; one that waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False

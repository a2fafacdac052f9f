"""Upstreams of real processes, run for one test, with patience that suits tests."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import mcp_types

from agent_utilities.gateway.upstreams.config import GatewayConfig, UpstreamConfig
from agent_utilities.gateway.upstreams.snapshot_store import SnapshotStore
from agent_utilities.gateway.upstreams.supervision.backoff import BackoffRule, Policy
from agent_utilities.gateway.upstreams.supervision.upstream import Upstream
from agent_utilities.gateway.upstreams.supervision.upstreams import Upstreams
from tests.gateway.upstreams.snapshots import in_memory

FAULTY = Path(__file__).parent / "faulty_server.py"
PATIENCE_S = 30
"""Seconds that anything may take which is waited for; only a fault takes that long."""
QUICK = Policy(backoff=BackoffRule(first_s=0.02, limit_s=0.1, probe_s=0.2, spread=0), settle_s=0.01)
"""Tries again at once, near enough."""
SLOW = replace(QUICK, backoff=BackoffRule(first_s=3600, limit_s=3600, probe_s=3600, spread=0))
"""Tries again when the test is long over."""


def faulty(name: str = "faulty", *faults: str, **settings: Any) -> UpstreamConfig:
    """Return the config of a server that misbehaves as it is told."""
    told = {"command": sys.executable, "args": ("-I", "-S", str(FAULTY), *faults), "transport": "stdio", **settings}
    return UpstreamConfig.model_validate({"name": name, "source": f"test: {name}", **told})


def script(name: str, file: str, *args: str, **settings: Any) -> UpstreamConfig:
    """Return the config of an upstream that is a script of this folder."""
    told = {"command": sys.executable, "args": (str(FAULTY.with_name(file)), *args), "transport": "stdio", **settings}
    return UpstreamConfig.model_validate({"name": name, "source": f"test: {name}", **told})


def gateway_of(*configs: UpstreamConfig) -> GatewayConfig:
    """Return the config of a gateway of these."""
    return GatewayConfig(upstreams=configs)


class Caller:
    """A caller who answers whatever is asked, and remembers what he was told.

    Args:
        session: his session.
        thinks_s: seconds he takes to answer.
        asked_at_once: what he can be asked in the middle of a call; None for nothing.
    """

    def __init__(
        self, session: str, thinks_s: float = 0.0, asked_at_once: mcp_types.ClientCapabilities | None = None
    ) -> None:
        self._session, self._thinks_s, self.asked_at_once = session, thinks_s, asked_at_once
        self.n_asked = 0
        self.logged: list[Any] = []
        self.progressed: list[tuple[float, float | None, str | None]] = []
        self.log_level: mcp_types.LoggingLevel | None = None

    @property
    def session(self) -> Hashable:
        """His session."""
        return self._session

    @property
    def capabilities(self) -> mcp_types.ClientCapabilities:
        """What his client offers."""
        form = mcp_types.ElicitationCapability(form=mcp_types.FormElicitationCapability())
        return mcp_types.ClientCapabilities(
            sampling=mcp_types.SamplingCapability(), elicitation=form, roots=mcp_types.RootsCapability()
        )

    async def ask(self, question: mcp_types.InputRequest) -> Any:
        """Answer as a model, as a user, or name a root."""
        self.n_asked += 1
        await asyncio.sleep(self._thinks_s)
        match question:
            case mcp_types.CreateMessageRequest():
                content = mcp_types.TextContent(type="text", text="I am a model")
                return mcp_types.CreateMessageResult(role="assistant", content=content, model="test")
            case mcp_types.ElicitRequest():
                return mcp_types.ElicitResult(action="accept", content={"name": "Anna"})
            case _:
                return mcp_types.ListRootsResult(roots=[mcp_types.Root.model_validate({"uri": "file:///home"})])

    async def log(self, params: Mapping[str, Any]) -> None:
        """Remember a log message."""
        self.logged.append(params["data"])

    async def progress(self, params: Mapping[str, Any]) -> None:
        """Remember progress."""
        self.progressed.append((params["progress"], params.get("total"), params.get("message")))


class Running:
    """Upstreams that run, and what they have told so far."""

    def __init__(self, upstreams: Upstreams, changes: list[str]) -> None:
        self.upstreams, self.changes = upstreams, changes

    def __getitem__(self, name: str) -> Upstream:
        return self.upstreams[name]

    async def call(self, upstream: str, tool: str, relay: Any = None, **arguments: Any) -> str:
        """Call a tool and return the first text of its result."""
        params = {"name": tool, "arguments": arguments}
        result = await self.upstreams[upstream].request(lambda live: live.ask("tools/call", params), relay)
        text: str = result["content"][0]["text"]
        return text

    async def pid(self, upstream: str, relay: Any = None) -> int:
        """Return the id of the upstream's process; it is started where it does not run."""
        return int(json.loads(await self.call(upstream, "pid", relay))["pid"])

    async def until(self, is_so: Callable[[], object]) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(PATIENCE_S):
            while not is_so():  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    async def seen(self, *names: str) -> None:
        """Wait until upstreams have been listed."""
        await self.until(lambda: all(self.upstreams[name].snapshot is not None for name in names))

    async def at_rest(self, *names: str) -> None:
        """Wait until upstreams have been listed and nothing of them runs."""
        await self.until(lambda: all(self.upstreams[name].state.name == "idle" for name in names))


@asynccontextmanager
async def running(
    *configs: UpstreamConfig, store: SnapshotStore | None = None, policy: Policy = QUICK, n_starts: int = 4
) -> AsyncIterator[Running]:
    """Run upstreams until the block is left."""
    changes: list[str] = []
    upstreams = Upstreams(
        gateway_of(*configs),
        environ=os.environ,
        store=store or in_memory(),
        on_change=changes.append,
        policy=replace(policy, n_starts=n_starts),
    )
    started = asyncio.Event()
    task = asyncio.create_task(upstreams.run(started))
    try:
        await started.wait()
        yield Running(upstreams, changes)
    finally:
        task.cancel()
        await asyncio.wait([task], timeout=PATIENCE_S)
        assert task.cancelled(), "upstreams ended by a cancellation, and within time"


def is_alive(pid: int) -> bool:
    """Whether a process runs: one that is dead and not yet taken note of does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"

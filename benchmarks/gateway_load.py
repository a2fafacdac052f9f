"""64 callers at once call 1,000 tools, of ten upstreams that cost next to nothing, beside bare FastMCP's own tools."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

from benchmarks.contenders import ContenderError
from benchmarks.gateway_fronts import BESIDE, Files, Front, Kind, serving
from benchmarks.gateway_measures import write_files
from benchmarks.http_lane import HANDSHAKE, Era, http_post
from benchmarks.measure import Spread, quantile, spread
from benchmarks.worker import ENVELOPE, PROTOCOL

N_CALLERS, N_UPSTREAMS, N_TOOLS = 64, 10, 100


@dataclass
class Load:
    """What one contender served, round by round.

    Args:
        per_s: calls a second.
        cpu_ms: milliseconds of its own processor time a call.
        wall_s: how long each call took.
    """

    per_s: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)

    def ms(self, q: float) -> float:
        """Return a quantile of what calls took, in milliseconds."""
        return 1000 * quantile(self.wall_s, q)

    def ratio(self, base: Load) -> Spread:
        """Return how many times the base's calls a second it served."""
        return spread([mine / theirs for mine, theirs in zip(self.per_s, base.per_s, strict=True)])


def many_files(folder: Path) -> Files:
    """Return the files of a config of ten upstreams with 100 tools each."""
    folder.mkdir(parents=True)
    upstream = {"command": sys.executable, "args": [str(BESIDE), "upstream", str(N_TOOLS)], "env": {}}
    return write_files(folder, {"mcpServers": {f"many{i}": upstream for i in range(N_UPSTREAMS)}})


def loads(kinds: Sequence[Kind], era: Era, files: Files, *, n_rounds: int, block_s: float) -> dict[str, Load]:
    """Return what contenders served to 64 callers, in turns; a first round, which starts all upstreams, is left out.

    Args:
        kinds: the contenders.
        era: the protocol that callers speak; in the handshake's each has a session of its own.
        files: of `many_files`.
        n_rounds: rounds that count.
        block_s: seconds that callers call one contender for in a round; what has begun is finished.

    Raises:
        ContenderError: a call is not answered with what the tool gives.
    """
    with ExitStack() as stack:
        fronts: dict[Kind, Front] = {}
        for kind in kinds:
            home = stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-"))
            fronts[kind] = stack.enter_context(serving(kind, files, home))
            fronts[kind].complete(files.n_tools)
        served: dict[str, Load] = {kind: Load() for kind in fronts}
        order = list(fronts)
        for number in range(n_rounds + 1):
            for kind in order:
                cpu_s, started = fronts[kind].cpu_s(), time.perf_counter()
                walls = asyncio.run(_call_for(fronts[kind], era, block_s, number))
                took_s, cpu_s = time.perf_counter() - started, fronts[kind].cpu_s() - cpu_s
                if number:
                    served[kind].per_s.append(len(walls) / took_s)
                    served[kind].cpu_ms.append(1000 * cpu_s / len(walls))
                    served[kind].wall_s += walls
            Random(number).shuffle(order)
        return served


async def _call_for(front: Front, era: Era, block_s: float, seed: int) -> list[float]:
    """Return how long each call took that 64 callers made, each anew as soon as it has its answer."""
    address, draw = urlsplit(front.url), Random(seed)
    walls: list[float] = []
    callers = [await _Caller.connected(address.hostname or "", address.port or 0, era) for _ in range(N_CALLERS)]
    until = time.perf_counter() + block_s

    async def call(caller: _Caller) -> None:
        while time.perf_counter() < until:
            name = f"many{draw.randrange(N_UPSTREAMS)}_read_record_{draw.randrange(N_TOOLS)}"
            started = time.perf_counter()
            answer = await caller.call(name)
            walls.append(time.perf_counter() - started)
            if b'"isError":true' in answer or b'"content"' not in answer:
                raise ContenderError(f"{front.kind}: {name} answered {answer[:300]!r}")

    try:
        await asyncio.gather(*map(call, callers))
    finally:
        for caller in callers:
            caller.close()
    return walls


class _Caller:
    """One connection kept open; a few lines, because an HTTP library's client takes longer than a server measured."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, era: Era) -> None:
        self._reader, self._writer, self._era = reader, writer, era
        self._session: dict[str, str] = {}

    @classmethod
    async def connected(cls, host: str, port: int, era: Era) -> _Caller:
        caller = cls(*await asyncio.open_connection(host, port), era)
        if era == "handshake":
            about = {"name": "benchmark", "version": "1"}
            params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": about}
            headers, _ = await caller._post("initialize", params, {})
            session = headers[b"mcp-session-id"].decode()
            caller._session = {"mcp-session-id": session, "mcp-protocol-version": HANDSHAKE}
            await caller._post("notifications/initialized", None, caller._session)
        return caller

    async def call(self, name: str) -> bytes:
        """Return the body that a call of a tool is answered with."""
        params: dict[str, Any] = {"name": name, "arguments": {"path": "a/b"}}
        headers = self._session
        if self._era != "handshake":
            params["_meta"] = ENVELOPE
            headers = {"mcp-protocol-version": PROTOCOL, "mcp-method": "tools/call", "mcp-name": name}
        _, answer = await self._post("tools/call", params, headers)
        return answer

    async def _post(
        self, method: str, params: dict[str, Any] | None, headers: Mapping[str, str]
    ) -> tuple[Mapping[bytes, bytes], bytes]:
        self._writer.write(http_post(method, params, headers))
        status, _, rest = (await self._reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")
        if b" 20" not in status:
            raise ContenderError(f"{method} over HTTP: {status!r}")
        found = dict(line.lower().split(b": ", 1) for line in rest.split(b"\r\n") if line)
        if b"content-length" in found:
            return found, await self._reader.readexactly(int(found[b"content-length"]))
        return found, await self._reader.readuntil(b"\r\n0\r\n\r\n")

    def close(self) -> None:
        """Hang up."""
        self._writer.close()

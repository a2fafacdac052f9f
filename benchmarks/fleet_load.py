"""Callers of a fleet that cost little themselves: sockets kept open, and requests whose bytes are made beforehand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Self

from benchmarks.contenders import ContenderError
from benchmarks.http_lane import HANDSHAKE, Era, http_post
from benchmarks.worker import ENVELOPE, PROTOCOL

N_TOOLS = 50
_LONGEST = 1 << 22
N_LOST = 5
"""The most sessions that may be lost while so many callers connect."""


class Caller:
    """One caller on one connection, in an era: lists and calls by turns, in the handshake's within its own session.

    Args:
        port: of the balancer.
    """

    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter

    def __init__(self, port: int) -> None:
        self._port = port
        self._requests: list[bytes] = []
        self._n = 0
        self.n_bytes = 0
        """Sent and received, of all requests."""

    @classmethod
    async def connected(cls, port: int, era: Era, number: int = 0) -> Self:
        """Return one who is ready to ask; `number` is where it begins among the tools."""
        caller = cls(port)
        await caller._connect()
        session: dict[str, str] = {}
        if era == "handshake":
            about = {
                "protocolVersion": HANDSHAKE,
                "capabilities": {},
                "clientInfo": {"name": "benchmark", "version": "1"},
            }
            headers = await caller._exchange(http_post("initialize", about, {}))
            session = {"mcp-session-id": headers[b"mcp-session-id"].decode(), "mcp-protocol-version": HANDSHAKE}
            await caller._exchange(http_post("notifications/initialized", None, session))
        for i in range(number, number + N_TOOLS):
            caller._requests.append(_request("tools/list", {}, era, session))
            caller._requests.append(
                _request("tools/call", {"name": f"tool_{i % N_TOOLS}", "arguments": {}}, era, session)
            )
        caller.n_bytes = 0
        return caller

    async def ask(self) -> float:
        """Make the next request and return the seconds to the last byte of its answer.

        Raises:
            ContenderError: it was not answered with a result.
        """
        began_s = time.perf_counter()
        await self._exchange(self._requests[self._n % len(self._requests)])
        self._n += 1
        return time.perf_counter() - began_s

    async def _connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=_LONGEST)

    async def _exchange(self, request: bytes) -> Mapping[bytes, bytes]:
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        status, _, rest = head.partition(b"\r\n")
        found = dict(line.lower().split(b": ", 1) for line in rest.split(b"\r\n") if line)
        if b"content-length" in found:
            answer = await self._reader.readexactly(int(found[b"content-length"]))
        else:
            answer = await self._reader.readuntil(b"0\r\n\r\n")
        if b" 20" not in status or b'"isError":true' in answer or b'"error":' in answer:
            raise ContenderError(f"answered {status!r} {answer[:300]!r}")
        self.n_bytes += len(request) + len(head) + len(answer)
        if found.get(b"connection") == b"close":  # as nginx has it after a thousand requests
            self.close()
            await self._connect()
        return found

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


def _request(method: str, params: dict[str, Any], era: Era, session: Mapping[str, str]) -> bytes:
    if era == "handshake":
        return http_post(method, params, session)
    named = {"mcp-name": params["name"]} if "name" in params else {}
    headers = {"mcp-protocol-version": PROTOCOL, "mcp-method": method, **named}
    return http_post(method, {**params, "_meta": ENVELOPE}, headers)


async def connected(n: int, port: int, era: Era) -> list[Caller]:
    """Return callers that are ready, one after the other.

    As clients do, they open another session where one is unknown already: a replica that is throttled for longer than
    it waits for Redis hands on none.
    """
    callers: list[Caller] = []
    for number in range(n + N_LOST):
        try:
            callers.append(await Caller.connected(port, era, number))
        except ContenderError:
            if number - len(callers) >= N_LOST:
                raise
        if len(callers) == n:
            break
    return callers


async def ask_on(callers: Sequence[Caller], seconds: float) -> list[float]:
    """Return what requests took, in seconds, where each caller asks anew as soon as it has its answer."""
    until, walls = time.perf_counter() + seconds, []

    async def ask(caller: Caller) -> None:
        while time.perf_counter() < until:
            walls.append(await caller.ask())

    await asyncio.gather(*map(ask, callers))
    return walls


async def ask_at_random(callers: Sequence[Caller], per_s: float, seconds: float, seed: int) -> list[float]:
    """Return what requests took that come at Poisson times, whatever became of those before, from when each was due.

    Where all callers wait for answers a request is late, which counts as part of what it took.
    """
    draw, walls, free = Random(seed), [], asyncio.Queue[Caller]()
    for caller in callers:
        free.put_nowait(caller)

    async def ask(caller: Caller, due_s: float) -> None:
        await caller.ask()
        walls.append(time.perf_counter() - due_s)
        free.put_nowait(caller)

    async with asyncio.TaskGroup() as asking:
        due_s = began_s = time.perf_counter()
        while (due_s := due_s + draw.expovariate(per_s)) < began_s + seconds:
            await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
            asking.create_task(ask(await free.get(), due_s))
    return walls

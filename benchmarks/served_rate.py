"""How many cut lists a second a server serves to 64 clients, beside bare FastMCP that has only the tools listed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random

from benchmarks.contenders import BARE, CONTROL, OURS, Contender, ContenderError, Process
from benchmarks.measure import Spread, spread
from benchmarks.worker import ENVELOPE, PROTOCOL, tool_name

N_CLIENTS = 64
N_SHOWN = 5
GOAL = 0.85


@dataclass(frozen=True, slots=True)
class Rate:
    """What one server served.

    Args:
        lane: the server's name in the table.
        n_tools: how many tools it has.
        per_s: requests a second, a round each.
        cpu_ms: milliseconds of the server's processor time a request, a round each.
    """

    lane: str
    n_tools: int
    per_s: Sequence[float]
    cpu_ms: Sequence[float]

    def ratio(self, base: Rate) -> Spread:
        """Return how many times the base's requests a second it serves, round by round."""
        return spread([mine / theirs for mine, theirs in zip(self.per_s, base.per_s, strict=True)])

    def cpu_ratio(self, base: Rate) -> Spread:
        """Return the base's processor time a request over its own: the same ratio, whatever else the machine does."""
        return spread([theirs / mine for mine, theirs in zip(self.cpu_ms, base.cpu_ms, strict=True)])


@dataclass(frozen=True, slots=True)
class _Lane:
    contender: Contender
    n_tools: int
    process: Process
    port: int


def measure_rates(sizes: Sequence[int], *, n_rounds: int, block_s: float) -> list[Rate]:
    """Return the rates of a bare server with 5 tools, of a second one, and of servers of each size cut to those 5.

    Servers are processes that take turns, in an order drawn anew each round; the first round is not counted.

    Args:
        sizes: how many tools the cut servers have.
        n_rounds: rounds that count.
        block_s: seconds that 64 clients ask one server for in a round.

    Raises:
        ContenderError: a list does not have the 5 tools.
    """
    contenders = [(BARE, N_SHOWN), (CONTROL, N_SHOWN), *((OURS, n_tools) for n_tools in sizes)]
    with ExitStack() as stack:
        lanes = [_started(stack, contender, n_tools) for contender, n_tools in contenders]
        blocks: dict[int, list[tuple[float, float]]] = {lane.port: [] for lane in lanes}
        order = list(lanes)
        for number in range(n_rounds + 1):
            for lane in order:
                block = _block(lane, block_s)
                if number:
                    blocks[lane.port].append(block)
            Random(number).shuffle(order)
        return [
            Rate(
                lane.contender.lane,
                lane.n_tools,
                [per_s for per_s, _ in blocks[lane.port]],
                [cpu_ms for _, cpu_ms in blocks[lane.port]],
            )
            for lane in lanes
        ]


def _started(stack: ExitStack, contender: Contender, n_tools: int) -> _Lane:
    process = stack.enter_context(Process(contender))
    process.ask("build", n_tools=n_tools)
    return _Lane(contender, n_tools, process, process.ask("serve")["port"])


def _block(lane: _Lane, block_s: float) -> tuple[float, float]:
    """Return requests a second and milliseconds of the server's processor time a request."""
    cpu_s = lane.process.ask("spent")["cpu_s"]
    started = time.perf_counter()
    n_requests = asyncio.run(_ask_for(lane, block_s))
    wall_s = time.perf_counter() - started
    cpu_s = lane.process.ask("spent")["cpu_s"] - cpu_s
    return n_requests / wall_s, 1000 * cpu_s / n_requests


async def _ask_for(lane: _Lane, block_s: float) -> int:
    """Return how many lists 64 clients were served, each asking anew as soon as it has its answer."""
    request = list_request(lane.port, [tool_name(i) for i in range(N_SHOWN)])
    until = time.perf_counter() + block_s

    async def client() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", lane.port)
        n_answers, answer = 0, b""
        while not n_answers or time.perf_counter() < until:
            writer.write(request)
            answer = await read_answer(reader)
            n_answers += 1
        writer.close()
        n_tools = len(json.loads(answer)["result"]["tools"])
        if n_tools != N_SHOWN:
            raise ContenderError(f"{lane.contender.lane}: {n_tools} tools were listed, not {N_SHOWN}")
        return n_answers

    return sum(await asyncio.gather(*(client() for _ in range(N_CLIENTS))))


def list_request(port: int, names: Sequence[str]) -> bytes:
    """Return the bytes of a stateless `tools/list` over HTTP, cut to some tools by header."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE}})
    headers = {
        "host": f"127.0.0.1:{port}",
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "content-length": str(len(body)),
        "mcp-protocol-version": PROTOCOL,
        "mcp-method": "tools/list",
        "x-mcp-enabled-tools": ",".join(names),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST /mcp HTTP/1.1\r\n{lines}\r\n{body}".encode()


async def read_answer(reader: asyncio.StreamReader) -> bytes:
    """Return the body of one answer.

    An HTTP library's client takes longer for a request than the server that is measured: these few lines do not.

    Raises:
        ContenderError: it is no success, or of no stated length.
    """
    status, _, rest = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")
    headers = dict(line.lower().split(b": ", 1) for line in rest.split(b"\r\n") if line)
    if b" 200 " not in status or b"content-length" not in headers:
        raise ContenderError(f"an answer that can't be read: {status!r} {headers}")
    return await reader.readexactly(int(headers[b"content-length"]))

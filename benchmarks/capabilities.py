"""What capabilities cost a request: those that switch nothing on, words that are routed, and the event loop meanwhile.

python benchmarks/capabilities.py [--data DIR] [--quick]

DIR has capability-routing/catalog.json; without it the starter capabilities are routed among.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pydantic import SecretStr
from rich.console import Console
from rich.table import Table

from agent_utilities import AgentServer
from agent_utilities.compat.fastmcp_server import whole_lifespan
from agent_utilities.gateway.capabilities.model import Capabilities, Capability
from agent_utilities.gateway.capabilities.servers import CapabilityServers, Offer
from agent_utilities.gateway.capabilities.tap import read_capabilities, starter_tap
from agent_utilities.gateway.upstreams.config import GatewayConfig, UpstreamConfig
from agent_utilities.query.ranking.embedding import Embedder
from agent_utilities.query.ranking.minilm import MiniLM
from agent_utilities.seam.session import Session
from agent_utilities.selection.model import NOTHING, Selection
from agent_utilities.selection.parse import read_meta
from benchmarks.measure import quantile
from benchmarks.resolution_lag import Lag
from tests.parts import capabilities_of, gateway_with

SERVER = Path(__file__).parents[1] / "tests" / "gateway" / "capabilities" / "tiny_server.py"
_TALK = "what do you think of my plan number {}?"
_HOLD, _HOLD_SWITCHING = "the longest hold of the loop, routing", "the same while 58 servers start and end"
_GOALS = {"beyond the embedding": 0.2, "routed, the embedding with it": 15.0, _HOLD: 10.0, _HOLD_SWITCHING: 10.0}
"""Milliseconds."""


def offered(triggers: Mapping[str, tuple[str, ...]]) -> Offer:
    """Return an offer of capabilities, each with a tiny server of its own."""
    known = {name: Capability(name, name, SERVER.parent, triggers=texts) for name, texts in triggers.items()}
    configs = {
        name: UpstreamConfig(
            name=name,
            source="a benchmark",
            transport="stdio",
            command=sys.executable,
            args=tuple(map(SecretStr, ["-S", "-E", str(SERVER), name, "one", "two"])),
            cwd=str(SERVER.parent),
            tags=(name,),
            capabilities={name: ("*",)},
        )
        for name in known
    }
    return Offer(Capabilities(known), CapabilityServers(configs, {name: (name,) for name in known}))


def asking(words: str) -> Selection:
    """Return the selection of a caller who says something."""
    return read_meta({"agent-utilities/selection": {"q": words}})


def naming(capability: str) -> Selection:
    """Return the selection of a caller who names a capability."""
    return read_meta({"agent-utilities/selection": {"capabilities": capability}})


async def timed(work: Callable[[], Awaitable[object]], n: int) -> list[float]:
    """Return the milliseconds that each of some calls took."""
    taken: list[float] = []
    for _ in range(n):
        started = time.perf_counter()
        await work()
        taken.append(1000 * (time.perf_counter() - started))
    return taken


async def measured(gateway: AgentServer, n: int) -> dict[str, list[float]]:
    """Return milliseconds by what was measured."""
    capabilities, router = capabilities_of(gateway).switching, capabilities_of(gateway).switching.router
    await router.wait_until_ready()
    numbers = count()
    embedder = Embedder(MiniLM)
    session = Session()

    async def request(selection: Selection) -> None:
        await gateway.request(selection, method="tools/list", session=session)

    repeated = asking(_TALK.format("one"))
    usable = frozenset(capabilities.offer.capabilities.by_name)

    async def embed() -> None:
        text = _TALK.format(next(numbers))
        await asyncio.to_thread(embedder.embed_request, [text])

    async def beyond(some: frozenset[str]) -> float:
        """Route what was embedded a moment ago, among others than then, so that no answer is remembered.

        An embedding is had in a thread too: what it takes to have one that is remembered is left out.
        """
        words = _TALK.format(next(numbers))
        await router.route(words, usable)
        embedder.embed_request([words])
        started = time.perf_counter()
        await asyncio.to_thread(embedder.embed_request, [words])
        embedded = time.perf_counter()
        await router.route(words, some)
        return 1000 * (time.perf_counter() - embedded - (embedded - started))

    for _ in range(20):
        await embed()
        await request(asking(_TALK.format(next(numbers))))
    told = {
        "a request without words": await timed(lambda: request(NOTHING), 20 * n),
        "the same words again": await timed(lambda: request(repeated), 20 * n),
        "the embedding of a short message": await timed(embed, n),
        "routed, the embedding with it": await timed(lambda: request(asking(_TALK.format(next(numbers)))), n),
        "beyond the embedding": [await beyond(frozenset(sorted(usable)[1:])) for _ in range(n)],
    }
    lag = Lag()
    async with lag.watched():
        for _ in range(n):
            await request(asking(_TALK.format(next(numbers))))
    told[_HOLD] = [1000 * max(lag.blocked_s)]
    return {**told, _HOLD_SWITCHING: [await longest_hold(gateway, request, numbers)]}


async def longest_hold(
    gateway: AgentServer, request: Callable[[Selection], Awaitable[None]], numbers: Iterator[int]
) -> float:
    """Return the most milliseconds that the loop was held while capabilities came and went, and words were routed.

    Their servers start and end on the same processors meanwhile.
    """
    capabilities = capabilities_of(gateway).switching
    lag = Lag()
    first, *names = capabilities.offer.capabilities.by_name
    await request(naming(first))
    await capabilities_of(gateway).switching.seen(first, 60.0)  # what reaches upstreams is imported by the first
    async with lag.watched():
        for name in names:
            await request(naming(name))
            await request(asking(_TALK.format(next(numbers))))
    return 1000 * max(lag.blocked_s)


async def run(data: Path | None, n: int) -> dict[str, list[float]]:
    """Return what a gateway's capabilities cost."""
    if data is not None:
        told = json.loads((data / "capability-routing" / "catalog.json").read_text())["capabilities"]
        triggers = {name: tuple(each["triggers"]) for name, each in told.items() if each["triggers"]}
    else:
        triggers = dict(read_capabilities([starter_tap()]).triggers)
    with tempfile.TemporaryDirectory() as folder:
        environ = {**os.environ, "MCP_GATEWAY_FOLDER": folder, "MCP_USAGE": "off", "MCP_EMBEDDINGS": "minilm"}
        gateway = gateway_with(GatewayConfig(), "measured", offer=offered(triggers), environ=environ)
        async with whole_lifespan(gateway):
            return await measured(gateway, n)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    told = asyncio.run(run(options.data, 50 if options.quick else 400))
    table = Table(title="Milliseconds", title_justify="left")
    for heading in ("what", "p50", "p95", "most", "goal"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    for what, values in told.items():
        goal = f"{_GOALS[what]:g}" if what in _GOALS else ""
        table.add_row(
            what, *(f"{value:.3f}" for value in (quantile(values, 0.5), quantile(values, 0.95), max(values))), goal
        )
    Console().print(table)


if __name__ == "__main__":
    main()

"""Fifty plain requests to a gateway before eight real servers: by words, by the model, and by FastMCP's search.

    python benchmarks/plain_requests.py

The servers are those that others publish on npm and PyPI, started as their users start them; `plain_requests.jsonl`
says which of their 135 tools would do for each request. Shown is how many requests have such a tool first, and among
the first five; below, each request whose first tool would not do.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import httpx2
from fastmcp import Client, FastMCP
from fastmcp.server.transforms.search import BM25SearchTransform
from fastmcp.tools.base import Tool
from rich.console import Console
from rich.table import Table

from tests.gateway.upstreams.gateway_process import Gateway, gateway
from tests.gateway.upstreams.more_real_servers import PUBLISHED, files
from tests.gateway.upstreams.real_servers import real_config

REQUESTS = Path(__file__).with_suffix(".jsonl")
OTHERS = {"@modelcontextprotocol/server-github": "github", "@playwright/mcp": "playwright", "excel-mcp-server": "excel"}
UNASKED = ("everything", "sequential-thinking")
LANES = {"by words": {"MCP_RANKER": "lexical"}, "by the model": {"MCP_RANKER": "hybrid"}}
N_FIRST = 5

Shown = Mapping[str, Sequence[str]]
"""By request, the names of the tools that it was shown, best first."""


def config(folder: Path) -> dict[str, Any]:
    """Return an `mcp.json` of the eight servers."""
    made, work = real_config(folder), files(folder)
    for name in UNASKED:
        del made["mcpServers"][name]
    for server in PUBLISHED:
        if (other := OTHERS.get(server.package)) is not None:
            made["mcpServers"][other] = server.entry(work, folder / f"home-{other}")
    return made


@contextmanager
def listing(folder: Path, **env: str) -> Iterator[Gateway]:
    """Yield a gateway that has the tools of all servers, and an index of them."""
    with gateway(config(folder), folder, **{"MCP_GRAPH": "embedded", "MCP_RANKER": "lexical", **env}) as started:
        started.until(
            lambda it: all(each["tools"] for each in it.ready()["upstreams"].values()), "tools of each server"
        )
        _ask(started, "wake up")
        by_words = env.get("MCP_RANKER") == "lexical"
        started.until(lambda it: _is_indexed(it.ready()["ranker"], by_words), "an index")
        yield started


def _is_indexed(ranker: Mapping[str, Any], by_words: bool) -> bool:
    return ranker["status"] == "ready" and (by_words or "cause" not in ranker)


def _ask(started: Gateway, query: str) -> list[str]:
    answer = httpx2.get(f"{started.process.url}/tools", params={"q": query}, timeout=60).raise_for_status().json()
    selection = answer["selection"]
    if selection["status"] == "no_match":  # everything is shown, in no order
        return []
    return list(selection.get("ranked") or [tool["name"] for tool in answer["tools"]])


async def by_fastmcp(tools: Sequence[Mapping[str, Any]], queries: Sequence[str]) -> Shown:
    """Return what FastMCP's own search finds among the same tools."""
    server = FastMCP("x", transforms=[BM25SearchTransform(max_results=N_FIRST)])
    for each in tools:
        server.add_tool(Tool(name=each["name"], description=each.get("description"), parameters=each["inputSchema"]))
    found = {}
    async with Client(server) as client:
        for query in queries:
            result = await client.call_tool("search_tools", {"query": query})
            found[query] = [tool["name"] for tool in result.structured_content["result"]]
    return found


def main() -> None:
    """Ask, and print what was found."""
    rows = [json.loads(line) for line in REQUESTS.read_text(encoding="utf-8").splitlines()]
    right = {row["query"]: set(row["tools"]) for row in rows}
    lanes: dict[str, Shown] = {}
    with tempfile.TemporaryDirectory() as at:
        folder = Path(at)
        for lane, env in LANES.items():
            with listing(folder, **env) as started:
                with started.calling("modern") as caller:
                    tools = caller.ask("tools/list").result["tools"]
                lanes[lane] = {query: _ask(started, query) for query in right}
    if unknown := set().union(*right.values()) - {tool["name"] for tool in tools}:
        sys.exit(f"no server has {', '.join(sorted(unknown))}, which {REQUESTS.name} names")
    lanes["FastMCP's BM25"] = asyncio.run(by_fastmcp(tools, list(right)))
    _print(lanes, right, len(tools))


def _print(lanes: Mapping[str, Shown], right: Mapping[str, set[str]], n_tools: int) -> None:
    console = Console(width=120)
    table = Table(title=f"{len(right)} requests, {n_tools} tools of 8 servers")
    for column in ("", "first", f"in the first {N_FIRST}", "tools shown"):
        table.add_column(column)
    for lane, shown in lanes.items():
        n_first = sum(bool(right[query] & set(names[:1])) for query, names in shown.items())
        n_among = sum(bool(right[query] & set(names[:N_FIRST])) for query, names in shown.items())
        mean = sum(map(len, shown.values())) / len(shown)
        table.add_row(lane, str(n_first), str(n_among), f"{mean:.1f}")
    console.print(table)
    missed = Table("request", *lanes, title="first tools that would not do")
    for query, wanted in right.items():
        firsts = [next(iter(shown[query]), "none") for shown in lanes.values()]
        if not wanted.issuperset(firsts):
            missed.add_row(query, *("" if first in wanted else first for first in firsts))
    console.print(missed)


if __name__ == "__main__":
    main()

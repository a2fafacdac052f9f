"""Long requests over many tools: is what they ask for shown among 15, beside FastMCP's own search?

    python benchmarks/joined_requests.py                # some ten minutes, more where vectors are made first
    python benchmarks/joined_requests.py --quick        # 40 requests of each kind, no floors
    python benchmarks/joined_requests.py --half chosen  # the half that constants are chosen on
    python benchmarks/joined_requests.py --data DIR     # where `tool-retrieval` is; by default in ../shared/data

All sets of `tool-retrieval` are one catalog of 926 tools. Their requests are halved by a hash; those of one half are
asked alone, joined in twos to fours, and one to twelve of them among talk, 210 words in all. Ours is a server over HTTP
that is sent `?q=`; FastMCP's is its `BM25SearchTransform` of 15 results, called by its client. Under a floor, on the
half that is held out, the script ends with 1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from random import Random
from statistics import fmean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from fastmcp import Client, FastMCP
from fastmcp.server.transforms.search import BM25SearchTransform
from fastmcp.tools.base import Tool
from rich.console import Console
from rich.table import Table

from agent_utilities.cli.evaluation.data import Request, read_requests
from agent_utilities.query.ranking.open import has_minilm
from benchmarks.host_internals import put
from benchmarks.long_requests import TOLD
from benchmarks.served_process import Shown, served
from benchmarks.served_quality import VECTORS, catalog_of

ROOT = Path(__file__).parents[1]
SETS = ("azure_mcp", "livemcpbench", "metatool")
LIMIT = 15
N_WORDS = 210
JOINTS = (". ", ". Then ", "; ", ", and ", "\n")
HALVES = ("chosen", "held")
FLOORS = {"alone": 0.78, "joined": 0.61, "210 words": 0.36, "negatives joined": 0.76}
"""Of the half held out, with vectors: what is shown among 15, and of the negatives those that are refused."""
_N_TRIES = 4
_N_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class Found:
    """What requests of one kind were shown by one server.

    Args:
        kind: of request.
        lane: of the server.
        shown: the share of the tools wanted that were among the first 15 of an answer; of no answer none is.
        first: of requests whose first tool is one of those.
        refused: of requests that nothing answered.
        by_vectors: of requests that got vectors.
        ms: the median from request to answer, of the last try.
    """

    kind: str
    lane: str
    shown: float
    first: float
    refused: float
    by_vectors: float
    ms: float


@contextmanager
def one_catalog(data: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """Give the tools of all sets as one server can serve them, and their ids by name."""
    names: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        path = Path(folder, "tools.jsonl")
        with path.open("w", encoding="utf-8") as file:
            for name in SETS:
                with catalog_of(data, name) as own:
                    for row in map(json.loads, own.read_text(encoding="utf-8").splitlines()):
                        row["name"] = f"{row['server']}_{row['name']}" if row["name"] in names else row["name"]
                        names[row["name"]] = f"{name}:{row['id']}"
                        file.write(json.dumps(row) + "\n")
        yield path, names


def requests_of(data: Path, half: str, n: int) -> dict[str, list[Request]]:
    """Return requests by kind: alone, joined, and among talk; and negatives joined, which want nothing."""
    pools = []
    for name in SETS:
        for path in sorted((data / name).glob("queries*.jsonl")):
            pools.append([_of_set(name, each) for each in _half(path, half)])
    negatives = _half(data / "metatool" / "negatives.jsonl", half)
    random = Random(HALVES.index(half))
    told = [*TOLD, *(each.query for each in negatives)]
    return {
        "alone": [random.choice(random.choice(pools)) for _ in range(n)],
        "joined": [_joined(random, pools) for _ in range(n)],
        "210 words": [_among_talk(random, pools, told, n_asked=(1, 3, 12)[number % 3]) for number in range(n)],
        "negatives joined": [_joined(random, [negatives]) for _ in range(n)],
    }


def _half(path: Path, half: str) -> list[Request]:
    """Return the requests of one half, without those that hold a file."""
    place = HALVES.index(half)
    requests = [each for each in read_requests(path) if len(each.query) <= _N_CHARACTERS]
    return [each for each in requests if blake2b(each.query.encode(), digest_size=1).digest()[0] % 2 == place]


def _of_set(name: str, request: Request) -> Request:
    groups = tuple(frozenset(f"{name}:{tool_id}" for tool_id in group) for group in request.groups)
    return Request(f"{name}:{request.id}", request.query, groups)


def _joined(random: Random, pools: Sequence[Sequence[Request]]) -> Request:
    parts = [random.choice(random.choice(pools)) for _ in range(random.choice((2, 3, 4)))]
    query = random.choice(JOINTS).join(part.query.rstrip(". ") for part in parts)
    return Request("", f"{query}.", sum((part.groups for part in parts), ()))


def _among_talk(random: Random, pools: Sequence[Sequence[Request]], told: Sequence[str], n_asked: int) -> Request:
    """Return a request of some 210 words, of which so many requests at most are a part."""
    asked: list[Request] = []
    texts: list[str] = []
    while sum(len(text.split()) for text in texts) < N_WORDS:
        if len(asked) < n_asked:
            asked.append(random.choice(random.choice(pools)))
            texts.append(asked[-1].query)
        else:
            texts.append(random.choice(told))
    random.shuffle(texts)
    query = " ".join(text if text.endswith((".", "!", "?")) else f"{text}." for text in texts)
    return Request("", query, sum((part.groups for part in asked), ()))


def measure_ours(tools: Path, names: Mapping[str, str], kinds: Mapping[str, list[Request]], ranker: str) -> list[Found]:
    """Return what a server over HTTP shows, asked again while vectors come too late."""
    found = []
    with served("all_sets", tools, ranker, VECTORS) as server:
        for kind, requests in kinds.items():
            shown = [server.ask(request.query) for request in requests]
            for _ in range(_N_TRIES - 1):
                shown = [
                    each if _is_in_time(each, ranker) else server.ask(request.query)
                    for each, request in zip(shown, requests, strict=True)
                ]
            found.append(_found(kind, f"ours, {ranker}", requests, shown, names))
    return found


def _is_in_time(shown: Shown, ranker: str) -> bool:
    return shown.status != "unavailable" and (shown.is_by_vectors or ranker == "lexical")


def measure_fastmcp(tools: Path, names: Mapping[str, str], kinds: Mapping[str, list[Request]]) -> list[Found]:
    """Return what FastMCP's own search finds of the same tools."""
    server: FastMCP[Any] = FastMCP("all_sets")
    for row in map(json.loads, tools.read_text(encoding="utf-8").splitlines()):
        schema = row.get("input_schema") or {"type": "object", "properties": {}}
        put(server, Tool(name=row["name"], description=row["description"], parameters=schema))
    server.add_transform(BM25SearchTransform(max_results=LIMIT))

    async def search() -> list[Found]:
        async with Client(server) as client:
            found = []
            for kind, requests in kinds.items():
                shown = [await _search(client, request.query) for request in requests]
                found.append(_found(kind, "FastMCP, 15", requests, shown, names))
            return found

    return asyncio.run(search())


async def _search(client: Client[Any], query: str) -> Shown:
    started = asyncio.get_running_loop().time()
    result = await client.call_tool("search_tools", {"query": query})
    wall_ms = 1000 * (asyncio.get_running_loop().time() - started)
    text = "".join(str(getattr(block, "text", "")) for block in result.content)
    tools = json.loads(text) if text.startswith("[") else []
    return Shown(tuple(tool["name"] for tool in tools), "fresh" if tools else "no_match", "words alone", wall_ms)


def _found(
    kind: str, lane: str, requests: Sequence[Request], shown: Sequence[Shown], names: Mapping[str, str]
) -> Found:
    answered = [
        [names[name] for name in each.names[:LIMIT]] if each.status in ("fresh", "stale") else [] for each in shown
    ]
    pairs = [(request.groups, ids) for request, ids in zip(requests, answered, strict=True) if request.groups]
    return Found(
        kind,
        lane,
        shown=fmean(fmean(bool(group & set(ids)) for group in groups) for groups, ids in pairs) if pairs else 0.0,
        first=fmean(any(ids[0] in group for group in groups) if ids else False for groups, ids in pairs)
        if pairs
        else 0.0,
        refused=fmean(not ids for ids in answered),
        by_vectors=fmean(each.is_by_vectors for each in shown),
        ms=median(each.wall_ms for each in shown),
    )


def under_floor(found: Sequence[Found]) -> list[str]:
    """Return the kinds in which ours by vectors is under its floor, with both figures."""
    measured = {each.kind: each.shown or each.refused for each in found if each.lane == "ours, hybrid"}
    return [
        f"{kind}: {100 * measured[kind]:.1f} is under {100 * floor:.1f}"
        for kind, floor in FLOORS.items()
        if kind in measured and measured[kind] < floor
    ]


def table_of(found: Sequence[Found]) -> Table:
    """Return the figures, in percent."""
    table = Table(title=f"Requests over the tools of all sets, at most {LIMIT} shown", title_justify="left")
    for heading in ("requests", "server", "shown", "first", "refused", "by vectors", "ms p50"):
        table.add_column(heading, justify="left" if heading in ("requests", "server") else "right")
    for each in sorted(found, key=lambda each: list(FLOORS).index(each.kind)):
        shares = (each.shown, each.first, each.refused, each.by_vectors)
        table.add_row(each.kind, each.lane, *(f"{100 * share:.1f}" for share in shares), f"{each.ms:.0f}")
    return table


def main() -> None:
    """Run, print the table, and end with 1 under a floor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="40 requests of each kind")
    parser.add_argument("--half", choices=HALVES, default="held", help="of the requests (held)")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="the evaluation data")
    given = parser.parse_args()
    data = given.data / "tool-retrieval"
    if not all((data / name / "tools.jsonl").exists() for name in SETS):
        sys.exit(f"error: no {', '.join(SETS)} in {data}: give --data DIR")
    rankers = ("hybrid", "lexical") if has_minilm() else ("lexical",)
    kinds = requests_of(data, given.half, 40 if given.quick else 120)
    with one_catalog(data) as (tools, names):
        found = [each for ranker in rankers for each in measure_ours(tools, names, kinds, ranker)]
        found += measure_fastmcp(tools, names, kinds)
    Console(width=110).print(table_of(found))
    if given.half == "held" and not given.quick and (failures := under_floor(found)):
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()

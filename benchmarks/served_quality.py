"""What served queries show beside what `agent-utilities eval` says of the same catalog, and what long requests take."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from random import Random
from statistics import fmean

from platformdirs import user_cache_path

from agent_utilities.cli.evaluation.data import Request, read_requests, read_tools
from agent_utilities.query.ranking.open import open_ranker
from benchmarks.measure import quantile
from benchmarks.served_process import ServedCatalog, Shown, served

SETS = {"azure_mcp": "queries", "livemcpbench": "queries_steps", "metatool": "queries"}
TOP_K = 15
LONG_WORDS = (20, 100, 200)
VECTORS = user_cache_path("agent-utilities") / "benchmarks" / "vectors.db"


@dataclass(frozen=True, slots=True)
class Quality:
    """One set served and evaluated; shares from 0 to 1.

    Args:
        name: of the set.
        ranker: lexical or hybrid.
        n_requests: how many were asked.
        recall: (by eval, served) of the wanted tools among those shown, at most 15 where the request was not abstained
            from, else all.
        kept: (by eval, served) requests that were not abstained from.
        same_shown: requests that are shown what eval says, of those that got vectors where those were wanted.
        same_first: the same of the first tool.
        by_vectors: requests that got vectors.
        list_ms: of an MCP list with each request, first asked by another route.
    """

    name: str
    ranker: str
    n_requests: int
    recall: tuple[float, float]
    kept: tuple[float, float]
    same_shown: float
    same_first: float
    by_vectors: float
    list_ms: Sequence[float]


@dataclass(frozen=True, slots=True)
class LongRequests:
    """Requests of a number of words, each asked twice.

    Args:
        n_words: of a request.
        first: what they were shown at first.
        again: and the second time.
        cpu_ms: processor time of the server for a request of the first time.
    """

    n_words: int
    first: Sequence[Shown]
    again: Sequence[Shown]
    cpu_ms: float


@contextmanager
def catalog_of(data: Path, name: str) -> Iterator[Path]:
    """Give a set's tools as one server can serve them: each name once, each with a server."""
    taken: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        path = Path(folder, "tools.jsonl")
        with path.open("w", encoding="utf-8") as file:
            for line in (data / name / "tools.jsonl").read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                row["server"] = row["server"] or name
                if row["name"] in taken:
                    row["name"] = f"{row['server']}_{row['name']}"
                taken.add(row["name"])
                file.write(json.dumps(row) + "\n")
        yield path


def measure_quality(data: Path, name: str, ranker: str, n_requests: int) -> Quality:
    """Return how a set is served, beside eval's own ranking of it."""
    with catalog_of(data, name) as path:
        tools = read_tools(path)
        requests = read_requests(data / name / f"{SETS[name]}.jsonl", tools)
        requests = Random(0).sample(requests, min(n_requests, len(requests)))
        evaluated = _evaluated(path, ranker, requests)
        with served(_name_of_server(path, name), path, ranker, VECTORS) as server:
            shown = [server.ask(request.query) for request in requests]
            list_ms = [server.list_ms(request.query) for request in requests]
    ids = {tool.document.name: tool.id for tool in tools}
    pairs = list(zip(evaluated, shown, strict=True))
    compared = [(e, s) for e, s in pairs if s.is_by_vectors]
    return Quality(
        name=name,
        ranker=ranker,
        n_requests=len(requests),
        recall=(_recall(requests, evaluated, ids), _recall(requests, [each.names for each in shown], ids)),
        kept=(
            fmean(0 < len(each) <= TOP_K for each in evaluated),
            fmean(each.status in ("fresh", "stale") for each in shown),
        ),
        same_shown=fmean(set(e) == set(s.names) for e, s in compared) if compared else 0.0,
        same_first=fmean(e[:1] == s.names[:1] for e, s in compared) if compared else 0.0,
        by_vectors=fmean(each.is_by_vectors for each in shown),
        list_ms=list_ms,
    )


def _name_of_server(tools: Path, name: str) -> str:
    servers = {json.loads(line)["server"] for line in tools.read_text(encoding="utf-8").splitlines()}
    return servers.pop() if len(servers) == 1 else name


def _evaluated(tools: Path, ranker: str, requests: Sequence[Request]) -> list[tuple[str, ...]]:
    """Return what eval says a request is shown: all tools where it abstains."""
    documents = [tool.document for tool in read_tools(tools)]
    VECTORS.parent.mkdir(parents=True, exist_ok=True)
    index = open_ranker(ranker, "minilm", VECTORS).index(documents)
    names = [document.name for document in documents]
    shown = []
    for request in requests:
        ranking = index.rank(request.query, limit=25)
        places = range(len(names)) if ranking.abstained else ranking.indexes[: min(TOP_K, ranking.n_claimed)]
        shown.append(tuple(names[place] for place in places))
    return shown


def _recall(requests: Sequence[Request], shown: Sequence[Sequence[str]], ids: dict[str, str]) -> float:
    recalls = []
    for request, names in zip(requests, shown, strict=True):
        found = {ids[name] for name in names}
        recalls.append(fmean(bool(group & found) for group in request.groups))
    return fmean(recalls)


def measure_long(data: Path, name: str, ranker: str, n_requests: int) -> list[LongRequests]:
    """Return what requests of 20, 100 and 200 words take; they are a set's own, one after another."""
    with catalog_of(data, name) as path:
        requests = read_requests(data / name / f"{SETS[name]}.jsonl")
        words = cycle([word for request in requests for word in request.query.split()])
        with served(_name_of_server(path, name), path, ranker, VECTORS) as server:
            return [
                _ask_long(server, [" ".join(next(words) for _ in range(n)) for _ in range(n_requests)], n)
                for n in LONG_WORDS
            ]


def _ask_long(server: ServedCatalog, queries: Sequence[str], n_words: int) -> LongRequests:
    cpu_s = server.cpu_s()
    first = [server.ask(query) for query in queries]
    cpu_ms = 1000 * (server.cpu_s() - cpu_s) / len(queries)
    return LongRequests(n_words, first, [server.ask(query) for query in queries], cpu_ms)


def p50_and_p95(values: Sequence[float]) -> str:
    """Return both as text."""
    return f"{quantile(values, 0.5):.0f}, {quantile(values, 0.95):.0f}"

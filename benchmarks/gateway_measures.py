"""What each gateway takes to start, list and call, and what it holds; contenders take turns, round by round."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.contenders import ContenderError
from benchmarks.gateway_direct import direct_calls
from benchmarks.gateway_fronts import Files, Front, Kind, Wire, on_stdio, serving
from benchmarks.measure import Lane, Rounds, Timing, interleave
from tests.gateway.upstreams.direct import all_direct, direct
from tests.gateway.upstreams.real_servers import real_config

WAYS: tuple[str, ...] = ("stdio", "http")


def write_files(folder: Path, config: Mapping[str, Any]) -> Files:
    """Return the files of a config, its tools as each of its servers lists them itself."""
    with all_direct(config) as callers:
        tools = [
            {**tool, "name": f"{name}_{tool['name']}"}
            for name, caller in callers.items()
            for tool in caller.ask("tools/list").result["tools"]
        ]
    return _written(folder, config, tools)


def real_files(folder: Path, n_times: int) -> Files:
    """Return the files of a config of the seven real servers, each of them so many times."""
    folder.mkdir(parents=True)
    return write_files(folder, real_config(folder, n_times))


def broken_files(folder: Path, one_hangs: bool) -> Files:
    """Return the files of a config of four real servers and three that never serve.

    Args:
        folder: where they are written.
        one_hangs: whether one of the three runs and never answers; else each ends by itself.
    """
    folder.mkdir(parents=True)
    servers = real_config(folder)["mcpServers"]
    good = {name: servers[name] for name in ("everything", "filesystem", "git", "time")}
    files = write_files(folder, {"mcpServers": good})
    last = "import sys; sys.stdin.read()" if one_hangs else "print('no JSON')"
    broken = {
        "absent": {"command": "no-such-program-anywhere", "args": []},
        "exits": {"command": sys.executable, "args": ["-c", "raise SystemExit(3)"]},
        "silent": {"command": sys.executable, "args": ["-c", last]},
    }
    # In the middle, so that who starts one after another is held up by them.
    names = [*list(good)[:2], *broken, *list(good)[2:]]
    config = {"mcpServers": {name: {**good, **broken}[name] for name in names}}
    return _written(folder, config, json.loads(files.tools.read_text(encoding="utf-8")))


def _written(folder: Path, config: Mapping[str, Any], tools: list[dict[str, Any]]) -> Files:
    files = Files(folder / "mcp.json", folder / "tools.json", len(tools))
    files.config.write_text(json.dumps(config), encoding="utf-8")
    files.tools.write_text(json.dumps(tools), encoding="utf-8")
    return files


def slowest_server_s(files: Files, n_rounds: int) -> tuple[str, float]:
    """Return the server that takes longest from its start to its list, alone, and how long: the median."""
    took: dict[str, list[float]] = {}
    servers = json.loads(files.config.read_text(encoding="utf-8"))["mcpServers"]
    for _ in range(n_rounds):
        for name, server in servers.items():
            started = time.perf_counter()
            with direct(server) as caller:
                caller.ask("tools/list")
                took.setdefault(name, []).append(time.perf_counter() - started)
    medians = {name: median(seconds) for name, seconds in took.items()}
    slowest = max(medians, key=medians.__getitem__)
    return slowest, medians[slowest]


@dataclass
class Starts:
    """From starting a process to the last byte of its complete list.

    Args:
        rounds: the timings, processor time without the upstreams'.
        n_beneath: by contender, the most processes that ran beneath it when the list was complete.
    """

    rounds: Rounds
    n_beneath: dict[str, int]


def warm_starts(kinds: Sequence[Kind], way: str, files: Files, n_rounds: int) -> Starts:
    """Return the starts of contenders that have been started before; the first, which warms up, does not count."""
    starts = Starts(Rounds(), {})
    with ExitStack() as stack:
        homes = {kind: stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-")) for kind in kinds}
        for kind in kinds:
            with _started(kind, way, files, homes[kind]) as front:
                front.complete(_expected(kind, files))
        lanes: dict[str, Lane] = {kind: _start_lane(kind, way, files, homes[kind], starts) for kind in kinds}
        starts.rounds = interleave(lanes, budget_s=0, min_rounds=n_rounds, max_calls=1)
    return starts


def few_starts(kinds: Sequence[Kind], way: str, files: Files, n_rounds: int) -> Starts:
    """Return the starts of contenders that find nothing that an earlier run of theirs has left."""
    starts = Starts(Rounds({kind: [] for kind in kinds}), {})
    for _ in range(n_rounds):
        for kind in kinds:
            with tempfile.TemporaryDirectory(prefix="benchmark-") as home:
                lane = _start_lane(kind, way, files, home, starts)
                starts.rounds.blocks[kind].append(list(lane(1)))
    return starts


def _expected(kind: Kind, files: Files) -> int:
    # FastMCP's proxy drops what fails in its era without a word: there is nothing to wait for.
    return 1 if kind == "proxy" else files.n_tools


def _start_lane(kind: Kind, way: str, files: Files, home: str, starts: Starts) -> Lane:
    def run(_: int) -> list[Timing]:
        started = time.perf_counter()
        with _started(kind, way, files, home) as front:
            front.complete(_expected(kind, files))
            timing = Timing(time.perf_counter() - started, front.cpu_s())
            starts.n_beneath[kind] = max(front.n_beneath(), starts.n_beneath.get(kind, 0))
        return [timing]

    return run


@contextmanager
def _started(kind: Kind, way: str, files: Files, home: str) -> Iterator[Front]:
    with on_stdio(kind, files, home) if way == "stdio" else serving(kind, files, home) as front:
        yield front


def wire_of(kind: Kind, wire: Wire) -> str:
    """Return what a lane of a contender on a wire is called; mcp-hub has one of its own."""
    return kind if kind == "mcp-hub" else f"{kind}/{wire}"


def lists_and_calls(
    kinds: Sequence[Kind], wires: Sequence[Wire], files: Files, budget_s: float
) -> tuple[Rounds, Rounds]:
    """Return the timings of lists, and of calls of the echo, over HTTP; all upstreams run."""
    with ExitStack() as stack:
        fronts: dict[str, Front] = {}
        for kind in kinds:
            for wire in wires if kind != "mcp-hub" else wires[:1]:
                home = stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-"))
                front = fronts[wire_of(kind, wire)] = stack.enter_context(serving(kind, files, home, wire))
                front.complete(_expected(kind, files))
                front.echo()
        listing = {name: _timed(front, front.list_tools) for name, front in fronts.items() if front.kind != "kept"}
        lists = interleave(listing, budget_s=budget_s, block_s=0.3)
        calling: dict[str, Lane] = {name: _timed(front, front.echo) for name, front in fronts.items()}
        server = json.loads(files.config.read_text(encoding="utf-8"))["mcpServers"]["everything"]
        calling["upstream, direct"] = stack.enter_context(direct_calls(server))
        return lists, interleave(calling, budget_s=budget_s, block_s=0.3)


def _timed(front: Front, ask: Callable[[], object]) -> Lane:
    def run(n_calls: int) -> list[Timing]:
        walls, cpu_s = [], front.thread_cpu_s()
        for _ in range(n_calls):
            started = time.perf_counter()
            ask()
            walls.append(time.perf_counter() - started)
        # A thread that ended meanwhile takes its time along.
        cpu_s = max(0.0, front.thread_cpu_s() - cpu_s) / n_calls
        return [Timing(wall_s, cpu_s) for wall_s in walls]

    return run


def slow_lists_and_calls(kinds: Sequence[Kind], files: Files, n_times: int) -> tuple[Rounds, Rounds]:
    """Return timings of lists and calls that take seconds, each contender on its own."""
    lists, calls = Rounds(), Rounds()
    for kind in kinds:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as home, serving(kind, files, home, "legacy") as front:
            front.complete(_expected(kind, files))
            lists.blocks[kind] = [list(_timed(front, front.list_tools)(1)) for _ in range(n_times)]
            calls.blocks[kind] = [list(_timed(front, front.echo)(1)) for _ in range(n_times)]
    return lists, calls


def resident_mib(kinds: Sequence[Kind], files: Files, n_rounds: int) -> dict[str, list[float]]:
    """Return the resident memory of each contender itself, once it has listed all and all upstreams run."""
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(n_rounds):
        for kind in kinds:
            with tempfile.TemporaryDirectory(prefix="benchmark-") as home, serving(kind, files, home) as front:
                front.complete(files.n_tools)
                for _ in range(5):
                    front.list_tools()
                front.echo()
                found[kind].append(front.rss_kib() / 1024)
    return found


@dataclass
class Broken:
    """What a contender does whose config names three servers that never serve, in seconds; empty where it never did.

    Args:
        first_s: from its start to the tools of all servers that work.
        list_s: a list after that.
        call_s: a call after that.
    """

    first_s: list[float] = field(default_factory=list)
    list_s: list[float] = field(default_factory=list)
    call_s: list[float] = field(default_factory=list)


def with_broken(kinds: Sequence[Kind], files: Files, n_rounds: int) -> dict[str, Broken]:
    """Return what contenders that find nothing of an earlier run do in spite of three broken servers."""
    found: dict[str, Broken] = {kind: Broken() for kind in kinds}
    for _ in range(n_rounds):
        for kind in kinds:
            with suppress(ContenderError, TimeoutError):
                _try_broken(kind, files, found[kind])
    return found


def _try_broken(kind: Kind, files: Files, broken: Broken) -> None:
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="benchmark-") as home, serving(kind, files, home, "legacy") as front:
        front.complete(files.n_tools, has_broken=True)
        broken.first_s.append(time.perf_counter() - started)
        # A first call starts the upstream.
        front.echo()
        for ask, seconds in ((front.list_tools, broken.list_s), (front.echo, broken.call_s)):
            started = time.perf_counter()
            ask()
            seconds.append(time.perf_counter() - started)

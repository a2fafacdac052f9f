"""Programs: the tokens that they spare, the time that they and their calls take, and many of them at once.

    python benchmarks/programs.py            # a minute and a half
    python benchmarks/programs.py --quick    # in one: fewer rounds, and FastMCP's CodeMode on four tasks
    python benchmarks/programs.py --only tokens   # or signatures, time, many: that alone

Twelve tasks (`program_tasks.py`) run as programs before five real servers behind the gateway. The same program is run
once more by Python itself, with one call of the client for each of its own, and has to come to the same value: what a
model would read and write without programs is the arguments and the texts of those calls. Tokens are bytes over 3.8.

Beside ours is FastMCP's `CodeMode`, the same programs written in its way: before the same servers by `create_proxy`
(through the gateway, so that times there would be of both), and as a server of the same three tools
(`program_server.py`). It checks no types, parks no program, and has neither approvals nor a record of what was done.
Times are of wall clock, so other load on the machine is in them: beside each median is the least.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import psutil
from fastmcp import Client, FastMCP
from fastmcp.experimental.transforms.code_mode import CodeMode
from fastmcp.server import create_proxy
from rich.console import Console
from rich.table import Table

from agent_utilities.catalog.context import n_tokens
from agent_utilities.programs.checking import refuse_what_fails
from agent_utilities.programs.described import value_of
from agent_utilities.programs.program import Limits
from agent_utilities.programs.running import N_WORKERS, Workers, run
from agent_utilities.programs.stubs import Stub, python_names, stub_of, stubs_text
from benchmarks.program_server import N_SEQUENTIAL, code_mode, ours
from benchmarks.program_tasks import SERVERS, TASKS, Task, make_files
from tests.approvals.asked import Person
from tests.gateway.upstreams.gateway_process import gateway
from tests.gateway.upstreams.real_servers import real_config
from tests.wire.processes import HttpProcess, Launch

SERVER = Path(__file__).parents[1] / "benchmarks" / "program_server.py"
N_AT_ONCE, N_GATHERED = 50, 10
BRIEF = "1 + 1"
PLAIN = "squares = [i * i for i in range(100)]\nsum(n for n in squares if n % 3)"
GATHERED = f"import asyncio\nlen(await asyncio.gather(*[wait(seconds=0.2) for _ in range({N_GATHERED})]))"
ONE_CALL = "for i in range(1):\n    await count(n=i)\ni"
SEQUENTIAL = f"for i in range({N_SEQUENTIAL}):\n    await count(n=i)\ni"
WAITING = "await wait(seconds=0.5)"
OWN = ("wait", "count", "issue")
"""The tools of `program_server.py`."""
_SETTLED_S = 0.1
"""Seconds for which a process outlives its interpreters, whose threads end by themselves."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One who runs programs.

    Args:
        tool: by which it does.
        kind: what `program_server.py` calls it.
        made: returns its server of three tools.
    """

    name: str
    tool: str
    kind: str
    made: Callable[[], FastMCP[Any]]

    def code(self, program: str, tools: Mapping[str, str]) -> str:
        """Return a program as this one takes it.

        Args:
            tools: the tools' own names, by those in Python.
        """
        return program if self.kind == "ours" else in_code_mode(program, tools)


OURS = Contender("ours", "run_program", "ours", ours)
FASTMCP = Contender("CodeMode", "execute", "code-mode", code_mode)
CONTENDERS = (OURS, FASTMCP)


# -- programs, written otherwise ---------------------------------------------------------------------------------------


class _ByName(ast.NodeTransformer):
    def __init__(self, tools: Mapping[str, str]) -> None:
        self._tools = tools

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Name) or node.func.id not in self._tools:
            return node
        keys: list[ast.expr | None] = [ast.Constant(each.arg) for each in node.keywords]
        arguments = ast.Dict(keys, [each.value for each in node.keywords])
        return ast.Call(ast.Name("call_tool"), [ast.Constant(self._tools[node.func.id]), arguments], [])


def in_code_mode(program: str, tools: Mapping[str, str]) -> str:
    """Return a program as FastMCP's CodeMode takes it: calls by the tool's name, and a `return`."""
    tree = _ByName(tools).visit(ast.parse(program))
    tree.body[-1] = ast.Return(tree.body[-1].value)
    return ast.unparse(ast.fix_missing_locations(tree))


async def by_python(program: str, functions: Mapping[str, Callable[..., Awaitable[Any]]]) -> Any:
    """Run a program by Python itself, and return its value."""
    tree = ast.parse(program)
    last = tree.body[-1]
    assert isinstance(last, ast.Expr)
    tree.body[-1] = ast.Assign([ast.Name("answer_", ast.Store())], last.value)
    code = compile(ast.fix_missing_locations(tree), "a task", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names = dict[str, Any](functions)
    await eval(code, names)
    return names["answer_"]


# -- tokens ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spent:
    """What a task puts into a prompt, in tokens.

    Args:
        n_calls: that its programs make.
        code, answer: of the programs, and of what they come to.
        singly: of the arguments and the texts of the calls, were each made by itself.
        code_mode: of code and answer by FastMCP's CodeMode; None where it was not run, or came to something else.
        took_s: seconds that the programs took, ours.
    """

    name: str
    n_calls: int
    code: int
    answer: int
    singly: int
    took_s: float
    code_mode: int | None

    @property
    def share(self) -> float:
        """The tokens of the programs, as a share of those of the calls."""
        return (self.code + self.answer) / self.singly


@dataclass(frozen=True, slots=True)
class Known:
    """The tokens of tools' definitions.

    Args:
        schemas: as `tool_search` gives them: name, description and input schema.
        compact: as signatures, a line each.
        stubs: as the type checker reads them, which no model does.
        code_mode: as FastMCP's `get_schema` gives them.
    """

    server: str
    n_tools: int
    schemas: int
    compact: int
    stubs: int
    code_mode: int


def text_of(result: Any) -> str:
    """Return the text of a result."""
    return "\n".join(block.text for block in result.content if block.type == "text")


def call_tokens(name: str, arguments: Mapping[str, Any], text: str) -> tuple[int, int]:
    """Return the tokens of a call, and of what it is answered by."""
    return n_tokens(json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)), n_tokens(text)


async def in_program(client: Client[Any], contender: Contender, code: str) -> tuple[int, int, Any]:
    """Run a program by a client, and return the tokens of its code and of its answer, and its value."""
    result = await client.call_tool(contender.tool, {"code": code}, timeout=300)
    text = text_of(result)
    value = json.loads(text)
    wrapped = contender.kind != "ours" and isinstance(value, dict) and set(value) == {"result"}
    return *call_tokens(contender.tool, {"code": code}, text), value["result"] if wrapped else value


async def singly(client: Client[Any], program: str, tools: Mapping[str, str]) -> tuple[int, int, Any]:
    """Make each call of a program by itself, and return their tokens, their number and the program's value."""
    tokens = list[int]()

    def function(name: str) -> Callable[..., Awaitable[Any]]:
        async def call(**arguments: Any) -> Any:
            result = await client.call_tool(name, arguments)
            tokens.append(sum(call_tokens(name, arguments, text_of(result))))
            sent = {"content": [{"type": "text", "text": text_of(result)}]}
            return value_of({**sent, "structuredContent": result.structured_content}, is_wrapped=False)[0]

        return call

    value = await by_python(program, {name: function(own) for name, own in tools.items()})
    return sum(tokens), len(tokens), json.loads(json.dumps(value))


async def spent(task: Task, root: Path, client: Client[Any], proxy: Client[Any] | None, names: Sequence[str]) -> Spent:
    """Do a task by programs, by single calls, and by CodeMode where there is a client of that."""
    tools = {python_name: name for name, python_name in python_names(list(names)).items()}
    n_calls = n_code = n_answer = n_singly = n_code_mode = 0
    took_s = 0.0
    is_same = proxy is not None
    for program in task.at(root):
        began_s = time.perf_counter()
        code, answer, value = await in_program(client, OURS, program)
        took_s += time.perf_counter() - began_s
        of_calls, n, by_itself = await singly(client, program, tools)
        if value != by_itself:
            raise AssertionError(f"{task.name}: {value!r}, and by single calls {by_itself!r}")
        n_calls, n_singly = n_calls + n, n_singly + of_calls
        n_code, n_answer = n_code + code, n_answer + answer
        if proxy is not None:
            *both, other = await in_program(proxy, FASTMCP, FASTMCP.code(program, tools))
            is_same, n_code_mode = is_same and other == value, n_code_mode + sum(both)
    return Spent(task.name, n_calls, n_code, n_answer, n_singly, took_s, n_code_mode if is_same else None)


async def known(tools: Sequence[Any], proxy: Client[Any]) -> list[Known]:
    """Return the tokens of the definitions of each server's tools, and of all."""
    names = python_names([tool.name for tool in tools])
    found = []
    for server in (*SERVERS, ""):
        of = [tool for tool in tools if tool.name.startswith(server)]
        stubs = [
            stub_of(tool.name, names[tool.name], tool.input_schema, tool.output_schema, tool.description or "")
            for tool in of
        ]
        told = await proxy.call_tool("get_schema", {"tools": [tool.name for tool in of]})
        compact = "\n".join(stub.compact for stub in stubs)
        texts = (compact, stubs_text(stubs), text_of(told))
        found.append(Known(server or "all", len(of), _tokens(of), *map(n_tokens, texts)))
    return found


@contextmanager
def folders() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield a folder whose `workspace` has the tasks' files, and an `mcp.json` of the servers over them."""
    with tempfile.TemporaryDirectory() as at:
        folder = Path(at)
        make_files(folder / "workspace")
        servers = real_config(folder)["mcpServers"]
        yield folder, {"mcpServers": {name: servers[name] for name in SERVERS}}


@dataclass(frozen=True, slots=True)
class Tokens:
    """All that was found of tokens; `definitions` has those of what a model reads of programs on every turn."""

    spent: Sequence[Spent]
    known: Sequence[Known]
    definitions: Mapping[str, int]


async def tokens(*, quick: bool, with_tasks: bool) -> Tokens:
    """Return what tasks and definitions put into a prompt."""
    with folders() as (folder, config), gateway(config, folder, MCP_PROGRAMS="all") as served:
        served.until_listed(SERVERS)
        person = Client(f"{served.process.url}/mcp", elicitation_handler=Person("yes"))
        async with person as client:
            listed = await client.list_tools()
            proxied: FastMCP[Any] = create_proxy(client)  # one that is connected: else each call starts five servers
            proxied.add_transform(CodeMode(max_tool_calls=None))
            async with Client(proxied) as proxy:
                of_programs = [tool for tool in listed if tool.name == OURS.tool]
                definitions = {OURS.name: _tokens(of_programs), FASTMCP.name: _tokens(await proxy.list_tools())}
                tools = [tool for tool in listed if tool.name != OURS.tool]
                names, root, found = [tool.name for tool in tools], folder / "workspace", list[Spent]()
                for i, task in enumerate(TASKS if with_tasks else ()):
                    found.append(await spent(task, root, client, None if quick and i % 3 else proxy, names))
                return Tokens(found, await known(tools, proxy), definitions)


def _tokens(tools: Sequence[Any]) -> int:
    """Return the tokens of tools' definitions, as hosts give them to a model."""
    return sum(n_tokens(tool.model_dump(by_alias=True, exclude_none=True, mode="json")) for tool in tools)


# -- time --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds that something took: the median, and the least."""

    what: str
    contender: str
    by: str
    median_s: float
    least_s: float
    n: int


async def timed(what: str, contender: str, by: str, n: int, call: Callable[[], Awaitable[Any]], of: int = 1) -> Timed:
    """Time a call some times after one that warms it up.

    Args:
        of: how many things are done by one call; the time is that of one.
    """
    await call()
    took = list[float]()
    for _ in range(n):
        began_s = time.perf_counter()
        await call()
        took.append((time.perf_counter() - began_s) / of)
    return Timed(what, contender, by, median(took), min(took), n)


@asynccontextmanager
async def clients(contender: Contender) -> AsyncIterator[Mapping[str, Client[Any]]]:
    """Yield clients of a contender's server of three tools: in this process, and of one that serves HTTP."""
    process = HttpProcess([sys.executable, str(SERVER), contender.kind], Launch().environ)
    try:
        process.wait()
        async with Client(contender.made()) as here, Client(f"{process.url}/mcp") as over_http:
            yield {"in memory": here, "HTTP": over_http}
    finally:
        process.stop()


def ran(client: Client[Any], contender: Contender, program: str) -> Callable[[], Awaitable[Any]]:
    """Return a function that runs a program over the server of three tools."""
    code = contender.code(program, dict(zip(OWN, OWN, strict=True)))
    return partial(client.call_tool, contender.tool, {"code": code})


async def times(n: int) -> list[Timed]:
    """Return what programs and calls take, the quick ones so many times, and the slow ones a third as often."""
    found = []
    n_slow = max(3, n // 3)
    for contender in CONTENDERS:
        async with clients(contender) as by:
            for name, client in by.items():
                one = (contender.name, name)
                found.append(await timed("1 + 1", *one, n, ran(client, contender, BRIEF)))
                found.append(await timed("a program without calls", *one, n, ran(client, contender, PLAIN)))
                found.append(await timed("10 calls of 200 ms", *one, n_slow, ran(client, contender, GATHERED)))
                found += await inner(client, contender, name, n_slow)
    return [*found, await direct(n_slow), *await parts(n)]


async def inner(client: Client[Any], contender: Contender, by: str, n: int) -> list[Timed]:
    """Time a call in a program, and the same by the same client, in turns; and what the first takes beyond the other.

    A call in a program is what 200 take one after another beyond the first, by their number. Under CodeMode a client
    reads a list for each call of what is in none, so that there is nothing to hold it against.
    """
    in_programs, by_client = list[float](), list[float]()
    one, all_ = (ran(client, contender, program) for program in (ONE_CALL, SEQUENTIAL))
    await all_()
    for _ in range(n):
        began_s = time.perf_counter()
        await one()
        between_s = time.perf_counter()
        await all_()
        ended_s = time.perf_counter()
        in_programs.append((ended_s - between_s - (between_s - began_s)) / (N_SEQUENTIAL - 1))
        if contender is OURS:
            for i in range(N_SEQUENTIAL):
                await client.call_tool("count", {"n": i})
            by_client.append((time.perf_counter() - ended_s) / N_SEQUENTIAL)
    rows = {"a call in a program": in_programs, "the same call by the client": by_client}
    rows["  beyond that, of each round"] = [one - other for one, other in zip(in_programs, by_client, strict=False)]
    return [Timed(what, contender.name, by, median(took), min(took), n) for what, took in rows.items() if took]


async def direct(n: int) -> Timed:
    """Time the same call by FastMCP's `call_tool`: no message, and outside of a request, so that nothing is judged."""
    server = OURS.made()

    async def calls() -> None:
        for i in range(N_SEQUENTIAL):
            await server.call_tool("count", {"n": i})

    async with Client(server):
        return await timed("the same call by server.call_tool", OURS.name, "", n, calls, N_SEQUENTIAL)


async def parts(n: int) -> list[Timed]:
    """Time what our programs are made of, without a server: the check of one, and its run."""
    workers, found = Workers(), list[Timed]()
    checker = await workers.checker()
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    stubs: list[Stub] = [stub_of("count", "count", schema, None)]
    programs: Sequence[tuple[str, str, list[Stub]]]
    programs = (("1 + 1", BRIEF, []), ("without calls", PLAIN, []), ("200 calls", SEQUENTIAL, stubs))
    for what, program, seen in programs:
        check = partial(refuse_what_fails, checker, program, seen)
        found.append(await timed(f"  the check: {what}", OURS.name, "", n, check))
    found.append(await timed("  the run: without calls", OURS.name, "", n, lambda: run(workers, PLAIN, {}, Limits())))
    await workers.close()
    return found


# -- many at once ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Many:
    """Fifty programs that wait for half a second, at once.

    Args:
        median_s, least_s: seconds until the last of them has ended.
        n_failed: programs that came to nothing, in all rounds.
        n_processes: interpreters, 0.25 s after the start of the last round.
        rss_mib, own_mib: of those together: resident, and shared with nobody.
    """

    contender: str
    median_s: float
    least_s: float
    n_failed: int
    n_processes: int
    rss_mib: float
    own_mib: float


def interpreters() -> list[psutil.Process]:
    """Return the processes of pydantic-monty that this one has started."""
    return [each for each in psutil.Process().children(recursive=True) if "monty" in each.name()]


async def many(contender: Contender, n: int) -> Many:
    """Run fifty programs at once some times."""
    took, n_failed, seen = list[float](), 0, [0.0, 0.0, 0.0]
    async with Client(contender.made()) as client:
        call = ran(client, contender, WAITING)
        await call()
        for i in range(n + 1):
            began_s = time.perf_counter()
            under_way = asyncio.gather(*(call() for _ in range(N_AT_ONCE)), return_exceptions=True)
            if i == n:  # looking takes the time of the loop: this round is not timed
                await asyncio.sleep(0.25)
                seen = _memory()
            outcomes = await under_way
            n_failed += sum(isinstance(each, BaseException) for each in outcomes)
            if i < n:
                took.append(time.perf_counter() - began_s)
    return Many(contender.name, median(took), min(took), n_failed, int(seen[0]), seen[1], seen[2])


def _memory() -> list[float]:
    infos = []
    for each in interpreters():
        try:
            infos.append(each.memory_full_info())
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    sums = (sum(getattr(info, kind) for info in infos) / 2**20 for kind in ("rss", "uss"))
    return [len(infos), *sums]


# -- what is printed ---------------------------------------------------------------------------------------------------


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold")
    for i, heading in enumerate(columns):
        table.add_column(heading, justify="left" if i == 0 else "right")
    return table


def _spent(found: Tokens) -> Table:
    columns = ("calls", "code", "answer", "singly", "share, %", "s", "CodeMode", "share, %")
    table = _table("tokens in the prompt: a program, and its calls made singly", "", *columns)
    for one in found.spent:
        own = (one.code, one.answer, one.singly)
        beside = ("", "")
        if one.code_mode is not None:
            beside = (f"{one.code_mode:,}", f"{100 * one.code_mode / one.singly:.1f}")
        numbers = (str(one.n_calls), *(f"{n:,}" for n in own), f"{100 * one.share:.1f}", f"{one.took_s:.1f}")
        table.add_row(one.name, *numbers, *beside)
    sums = (sum(getattr(one, key) for one in found.spent) for key in ("n_calls", "code", "answer", "singly"))
    table.add_row("all", *(f"{n:,}" for n in sums), f"{100 * _of_all(found.spent):.1f}", style="bold")
    return table


def _of_all(found: Sequence[Spent]) -> float:
    return sum(one.code + one.answer for one in found) / sum(one.singly for one in found)


def _known(found: Tokens) -> Table:
    columns = ("tools", "schemas", "compact", "compact, %", "stubs", "CodeMode's get_schema")
    table = _table("tokens of tools' definitions", "", *columns)
    for one in found.known:
        share = f"{100 * one.compact / one.schemas:.0f}"
        table.add_row(one.server, *map(str, (one.n_tools, one.schemas, one.compact, share, one.stubs, one.code_mode)))
    told = ", ".join(f"{name} {n}" for name, n in found.definitions.items())
    table.caption = f"on every turn, for programs alone: {told}"
    return table


def _times(found: Sequence[Timed]) -> Table:
    table = _table("times", "", "", "by", "median", "least", "rounds")
    for one in found:
        table.add_row(one.what, one.contender, one.by, _time(one.median_s), _time(one.least_s), str(one.n))
    return table


def _many(found: Sequence[Many]) -> Table:
    columns = ("median", "least", "failed", "interpreters", "resident, MiB", "private, MiB")
    table = _table(f"{N_AT_ONCE} programs at once that wait 0.5 s, in memory", "", *columns)
    for one in found:
        times = (_time(one.median_s), _time(one.least_s), str(one.n_failed))
        table.add_row(one.contender, *times, str(one.n_processes), f"{one.rss_mib:.0f}", f"{one.own_mib:.0f}")
    return table


def _goals(tokens: Tokens | None, timed: Sequence[Timed], at_once: Sequence[Many]) -> Table:
    table = _table("goals", "goal", "limit", "measured", "met?")

    def row(name: str, limit: str, measured: str, met: bool) -> None:
        table.add_row(name, limit, measured, "[green]yes[/]" if met else "[red]no[/]")

    if tokens is not None and tokens.spent:
        shares = [one.share for one in tokens.spent]
        mean, of_all = fmean(shares), _of_all(tokens.spent)
        measured = f"{100 * mean:.1f} %, median {100 * median(shares):.1f} %, of all tokens {100 * of_all:.1f} %"
        row("tokens of a program, by those of its calls, mean", "≤ 5 %", measured, mean <= 0.05)
        many_calls = fmean(one.share for one in tokens.spent if one.n_calls >= N_GATHERED)
        row(f"  of those of {N_GATHERED} calls or more", "≤ 5 %", f"{100 * many_calls:.1f} %", many_calls <= 0.05)
    seconds = {(one.what, one.by): one.median_s for one in timed if one.contender == OURS.name}
    for by in ("in memory", "HTTP") if seconds else ():
        for what, most_s in (("10 calls of 200 ms", 0.26), ("1 + 1", 0.005), ("a program without calls", 0.005)):
            took_s = seconds[what, by]
            row(f"{what}, {by}", f"≤ {_time(most_s)}", _time(took_s), took_s <= most_s)
        more_s = seconds["  beyond that, of each round", by]
        row(f"a call in a program beyond one by the client, {by}", "≤ 400.0 µs", _time(more_s), more_s <= 400e-6)
    if seconds:
        more_s = seconds["a call in a program", "in memory"] - seconds["the same call by server.call_tool", ""]
        row("  beyond one by server.call_tool", "≤ 400.0 µs", _time(more_s), more_s <= 400e-6)
    for one in at_once[:1]:
        name = f"{N_AT_ONCE} programs of 0.5 s on {N_WORKERS} workers"
        row(name, "≤ 1,500.0 ms", _time(one.median_s), one.median_s <= 1.5)
        row("  of those, failed", "0", str(one.n_failed), one.n_failed == 0)
    return table


def _time(seconds: float) -> str:
    return f"{1e6 * seconds:.1f} µs" if abs(seconds) < 1e-3 else f"{1e3 * seconds:,.1f} ms"


async def measured(only: str | None, *, quick: bool, console: Console) -> None:
    """Measure what is asked for, and print it."""
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    console.print(f"{os.cpu_count()} cores; load average {load} at the start, others' work on the machine included")
    n, found, timed, at_once = 5 if quick else 15, None, list[Timed](), list[Many]()
    if only in (None, "tokens", "signatures"):
        found = await tokens(quick=quick, with_tasks=only != "signatures")
        console.print(*([_spent(found)] if found.spent else []), _known(found))
    if only in (None, "time"):
        timed = await times(n)
        console.print(_times(timed))
    if only in (None, "many"):
        at_once = [await many(each, max(3, n // 3)) for each in CONTENDERS]
        console.print(_many(at_once))
    console.print(_goals(found, timed, at_once))
    console.print(f"load average at the end: {', '.join(f'{one:.1f}' for one in os.getloadavg())}")
    await asyncio.sleep(_SETTLED_S)


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=("tokens", "signatures", "time", "many"))
    arguments = parser.parse_args()
    logging.getLogger("fastmcp").setLevel(logging.ERROR)
    asyncio.run(measured(arguments.only, quick=arguments.quick, console=Console(width=140)))


if __name__ == "__main__":
    main()

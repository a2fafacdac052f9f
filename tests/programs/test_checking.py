from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_utilities.programs.checking import FEW_STUBS, Checker, problems_of, type_errors
from agent_utilities.programs.running import Workers
from agent_utilities.programs.stubs import Stub, python_names, stub_of
from agent_utilities.programs.unsupported import MAX_CODE, Problem, unsupported
from tests.programs.tools import stubs

monty = pytest.importorskip("pydantic_monty")

Check = Callable[..., list[Problem]]


@pytest.fixture(scope="module")
def called() -> Any:
    """Call an async function with a checker."""

    workers = Workers()
    with asyncio.Runner() as runner:
        checker = runner.run(workers.checker())
        yield lambda how, *arguments: runner.run(how(checker, *arguments))
        runner.run(workers.close())


@pytest.fixture(scope="module")
def check(called: Any) -> Any:
    """Check a program against the stubs of `tools.py`, or others."""
    return lambda code, own=None, how=problems_of: called(how, code, stubs() if own is None else own)


@pytest.fixture(scope="module")
def run(called: Any) -> Any:
    """Run a program unchecked; return why it failed, or an empty text."""

    async def ran(checker: Checker, code: str) -> str:
        async with checker.pool.checkout(limits={"max_feed_duration_secs": 5.0}) as session:
            try:
                await session.feed_run(code, external_lookup={}, print_callback=lambda stream, text: None)
            except monty.MontyError as error:
                return str(error)
        return ""

    return lambda code: called(ran, code)


def lines(problems: list[Problem]) -> list[int]:
    return [problem.line for problem in problems]


RIGHT = {
    "a key of a nested result": 'r = await list_issues(owner="a", repo="b")\nr["items"][0]["title"].upper()',
    "an optional argument": 'await list_issues(owner="a", repo="b", state="open", perPage=50)',
    "null where the schema has it": 'await list_issues(owner="a", repo="b", labels=None)',
    "a whole number for a number": 'await weather(lat=1, lon=2.5, units="metric")',
    "a wrapped text": 't = await read_file(path="a")\nprint(t.splitlines()[0], len(t))',
    "a wrapped list": 'for e in await list_directory(path="."):\n    print(e["name"], e["type"] == "dir")',
    "a parameter that is a keyword": 'd = await git_diff(repo_path=".", from_="HEAD~1", to="HEAD")\nd.count("+")',
    "what may be missing": 'log = await git_log(repo_path=".")\nprint(log[0].get("author"), log[0]["author"])',
    "tools at once": (
        "import asyncio\n"
        'files = await asyncio.gather(*[read_file(path=p) for p in ["a", "b"]])\n'
        "sum(len(f) for f in files)"
    ),
    "tools in functions": (
        'async def title(n: int) -> dict:\n    return await get_issue(owner="a", repo="b", issue_number=n)\n'
        'print((await title(3))["title"])'
    ),
    "an argument from a variable": 'edits = [{"oldText": "a", "newText": "b"}]\nawait edit_file(path="a", edits=edits)',
    "an argument that is built": (
        'edits = []\nfor a in ["x"]:\n    edits.append({"oldText": a, "newText": a + "y"})\n'
        'await edit_file(path="a", edits=edits)'
    ),
    "arguments of a dict": 'k = {"owner": "a", "repo": "b", "perPage": 3}\nawait list_issues(**k)',
    "a choice from a list": 'for s in ["open", "closed"]:\n    await list_issues(owner="a", repo="b", state=s)',
    "a choice from a variable": 'ss = ["open"]\nfor s in ss:\n    await list_issues(owner="a", repo="b", state=s)',
    "whole numbers for numbers": 'ps = [1, 2]\nawait query(sql="select 1", params=ps)',
    "a result as an argument": (
        'i = await get_issue(owner="a", repo="b", issue_number=1)\n'
        'await query(sql=i["body"], params=[i["title"], None])'
    ),
    "a result without a schema": 'r = await search(q="a")\nr["anything"][0].x',
    "a row of any keys": 'rows = await query(sql="select 1")\nrows[0]["n"] + 1',
    "a key that nobody lists of an open object": 'w = await weather(lat=1, lon=2)\nw["humidity"] + w["wind-speed"]',
    "keys that are set": 'i = await get_issue(owner="a", repo="b", issue_number=1)\ni["score"] = 3\ni["title"] = None',
    "what may be null": 'i = await get_issue(owner="a", repo="b", issue_number=1)\ni["body"].lower()',
    "a match": 'import re\nre.search("a", "ab").group(0)',
    "a loop that sets": 'best = None\nfor i in [1, 2]:\n    best = {"i": i}\nprint(best["i"])',
    "a variable named like a tool": 'search = await search(q="a")\nsearch["items"]',
    "a variable named like a builtin": 'filter = {"a": 1}\nformat = "json"\nprint(filter["a"], format.upper())',
    "builtins that the checker doesn't know": 'print(list(map(str, [1])), hasattr([], "x"), format(1.5, ".2f"))',
    "errors that the checker doesn't know": "try:\n    1\nexcept (FileNotFoundError, PermissionError):\n    2",
    "a return": 'r = await read_file(path="a")\nreturn {"n": len(r)}',
    "a future": "from __future__ import annotations\nx = 1",
    "annotations of nothing": "def f(x: List[str]) -> Item:\n    return x\nf([])",
    "annotations that are wrong": 'def f(x: int) -> str:\n    return x\nf("a")\ny: int = "a"',
    "a recursive result": 't = await tickets_tree(id=1)\nfor c in t.get("children", []):\n    print(c["id"])',
    "a nested argument": 'await tickets_update(id=3, fields={"status": "done", "assignee": None})',
    "a coroutine that is kept": 'import asyncio\na = read_file(path="a")\nawait asyncio.gather(a, asyncio.sleep(0))',
    "a coroutine that is awaited later": 'a = read_file(path="a")\nprint(await a)',
    "quotes of newer Python": 'd = {"a": 1}\nprint(f"{d["a"]}")',
    "nothing": "",
}

WRONG = {
    "an argument's name": ('x = 1\nawait list_issues(owner="a", repository="b")', 2, "it takes owner, repo, state"),
    "an argument's type": ('await git_log(\n    repo_path=".",\n    max_count="ten",\n)', 3, "Expected `int`"),
    "a missing argument": ('\n\nawait get_issue(owner="a", repo="b")', 3, "`issue_number`"),
    "a value that is no choice": ('await list_issues(owner="a", repo="b", state="opened")', 1, '"closed", "all"'),
    "a value that is no constant": ('await search(q="a", order="desc")', 1, '"asc"'),
    "a positional argument": ('await read_file("a")', 1, "it takes path, head, tail"),
    "null": ('await read_file(path="a", head=None)', 1, "Expected `float`, found `None`"),
    "a text for numbers": ('await query(sql="a", params="1")', 1, "Expected `list"),
    "a list of another type": ("n = [1]\nawait git_add(files=n)", 2, "Expected `list[str]`, found `list[int]`"),
    "a list that is written out": ("await git_add(files=[1])", 1, "Expected `list[str]`"),
    "a result's key": (
        'r = await list_issues(owner="a", repo="b")\nfor i in r["items"]:\n    print(i["titel"])',
        3,
        "it has number, title, body",
    ),
    "a result as an object": ('i = await get_issue(owner="a", repo="b", issue_number=1)\nprint(i.number)', 2, "number"),
    "the inside of a wrapped result": ('r = await read_file(path="a")\nr["result"]', 2, ""),
    "an operator": ('r = await list_issues(owner="a", repo="b")\nr["total"] + "issues"', 2, "Operator `+`"),
    "a key of gathered results": (
        'import asyncio\nr = await asyncio.gather(*[git_log(repo_path=p) for p in ["a"]])\nr[0][0]["sha"]',
        3,
        "it has hash, message, author",
    ),
    "a key of a nested argument": (
        'await tickets_update(\n  id=3,\n  fields={"state": "done"})',
        3,
        "status, assignee",
    ),
    "a choice in a nested argument": ('await tickets_update(id=3, fields={"status": "finished"})', 1, '"done"'),
    "a key that is missing in an argument": ('await edit_file(path="a", edits=[{"oldText": "a"}])', 1, "newText"),
    "a name": ('await list_isues(owner="a", repo="b")', 1, "`list_isues`"),
    "a module that is not imported": ("x = 1\njson.dumps(x)", 2, "`json` used when not defined: import it"),
    "no await": ('r = list_issues(owner="a", repo="b")\nprint(r["items"])', 1, "is not awaited"),
    "no await of a call alone": ('write_file(path="a", content="b")\nprint("ok")', 1, "is not awaited"),
    "no await in a loop": ('for e in list_directory(path="."):\n    print(e)', 1, "is not awaited"),
    "no await of one's own function": ("async def f():\n    return 1\nf()", 3, "is not awaited"),
    "a module": ("x = 1\nimport requests", 2, "no module 'requests'"),
    "syntax": ("x = 1\ndef f(:\n    pass", 2, ""),
}


class TestRightPrograms:
    @pytest.mark.parametrize("name", RIGHT)
    def test_nothing_is_certain_to_be_wrong_with(self, check: Check, name: str) -> None:
        assert [] == check(RIGHT[name])


class TestWrongPrograms:
    @pytest.mark.parametrize("name", WRONG)
    def test_its_line_is_said_of(self, check: Check, name: str) -> None:
        code, line, text = WRONG[name]
        problems = check(code)
        assert line in lines(problems)
        assert text in " ".join(problem.text for problem in problems if problem.line == line)

    def test_only_the_key_is_said_and_not_the_argument_around_it(self, check: Check) -> None:
        [problem] = check('await tickets_update(id=3, fields={"status": "finished"})')
        assert problem.text.startswith('Invalid argument to key "status"')

    def test_all_of_many_choices_are_said(self, check: Check) -> None:
        many = {"properties": {"a": {"enum": [f"v{n}" for n in range(30)]}}}
        [problem] = check('await t(a="x")', [stub_of("t", "t", many, None)])
        assert '"v14"|"v15"' in problem.text

    def test_columns_are_counted_in_characters(self, check: Check) -> None:
        assert [] == check('k = {"path": "é"}\nprint("éé"); await read_file(**k)')


class TestTypeErrors:
    def test_nothing_of_the_program_runs(self, check: Check) -> None:
        assert [] == check("x = 0\nwhile True:\n    x += 1", how=type_errors)

    def test_stubs_that_cannot_be_read_refuse_nothing(self, check: Check) -> None:
        broken = [replace(stub, text="async def read_file(:") for stub in stubs() if stub.tool_name == "read_file"]
        assert [] == check('r = await read_file(path="a")\nr["x"]', broken)

    def test_of_many_tools_those_that_are_not_named_are_not_read(self, check: Check) -> None:
        names = (f"x{i}" for i in range(FEW_STUBS))
        broken = [replace(stub_of(name, name, {}, None), text=f"async def {name}(:") for name in names]
        assert [1] == lines(check("await read_file(pth='a')", [*stubs(), *broken]))[:1]

    def test_nesting_is_told(self, check: Check) -> None:
        assert "nested" in check("x = " + "[" * 400 + "]" * 400, how=type_errors)[0].text

    def test_what_cannot_be_read_is_not_checked(self, check: Check) -> None:
        assert ["the program has 50,001 characters, of at most 50,000"] == [each.text for each in check("x" * 50_001)]

    def test_a_program_that_ends_the_checker_is_not_refused_and_the_next_one_is_checked(self, check: Check) -> None:
        chain = ["for i in [1, 2]:", *["    x = (x, i)"] * 5, *["    x = x"] * 1_960]
        assert check("\n".join(["x = 0", *chain]), [], type_errors) == []
        assert lines(check("1\nnothing", [], type_errors)) == [2]

    def test_nothing_of_a_program_is_known_to_the_next(self, check: Check) -> None:
        assert check("own = 1\nown", [], type_errors) == []
        assert lines(check("own", [], type_errors)) == [1]

    def test_a_program_has_no_name_of_the_checker_s(self, check: Check) -> None:
        assert check("check_only_ = 1\ncheck_only_ + 1", [], type_errors) == []


UNSUPPORTED = {
    "gather(return_exceptions)": "import asyncio\nawait asyncio.gather(asyncio.sleep(0), return_exceptions=True)",
    "gather by its own name": "from asyncio import gather as g, sleep\nawait g(sleep(0), return_exceptions=True)",
    "async with": "async def f(x):\n    async with x:\n        pass",
    "async for": "async def f(x):\n    async for i in x:\n        pass",
    "async comprehension": "async def f(x):\n    return [i async for i in x]",
    "yield": "def f():\n    yield 1",
    "yield from": "def f():\n    yield from []",
    "del": "x = {1: 2}\ndel x[1]",
    "except*": "try:\n    pass\nexcept* ValueError:\n    pass",
    "a class with a base": "class Failed(Exception):\n    pass",
    "a property": "class A:\n    @property\n    def f(self):\n        return 1",
    "import *": "from math import *",
    "collections.abc": "from collections.abc import Callable",
    "a module that is not there": "import requests",
    "a name that is not there": "from dataclasses import asdict",
    "an attribute that is not there": "import datetime as dt\ndt.datetime.now(dt.UTC)",
    "utcnow": "from datetime import datetime\ndatetime.utcnow()",
    "json.dumps(default)": "import json\njson.dumps({}, default=str)",
    "re.sub(function)": "import re\nre.sub('a', lambda m: 'b', 'a')",
    "a method of a type": "sorted(['b'], key=str.lower)",
    "a method that is no call": "d = {'a': 1}\nmax(d, key=d.get)",
    "a builtin": "exit()",
}

SUPPORTED = {
    "gather": "import asyncio\nawait asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))",
    "os.path": "import os.path\nos.path.join('a', 'b')",
    "methods that are called": "x = ' a'.strip().upper().split(',')\nx.append('b')\ndict.fromkeys(x)",
    "a class": "class A:\n    def __init__(self, count):\n        self.count = count\nA(3).count",
    "a dataclass": "from dataclasses import dataclass\n@dataclass\nclass A:\n    index: int\nA(1).index",
    "functions as values": "import json, copy\nf = json.loads\ng = copy.copy\nf('1')",
    "a module's name as a variable": "def f(exit, datetime):\n    return datetime\nf(1, 2)",
    "a pattern's escapes": r'import re; re.findall("\d+", "a1")',
    "a method of a path": "from pathlib import Path\nx = Path('a.b').suffix",
}


class TestUnsupported:
    @pytest.mark.parametrize("name", UNSUPPORTED)
    def test_what_the_runtime_refuses_is_said(self, run: Callable[[str], str], name: str) -> None:
        code = UNSUPPORTED[name]
        assert (True, True) == (bool(run(code)), bool(lines(unsupported(code))))

    @pytest.mark.parametrize("name", SUPPORTED)
    def test_what_runs_is_not(self, run: Callable[[str], str], name: str) -> None:
        assert ("", []) == (run(SUPPORTED[name]), unsupported(SUPPORTED[name]))

    def test_each_line_has_its_own(self) -> None:
        assert [1, 4] == lines(unsupported("import requests\ndef f():\n    pass\n    yield"))

    def test_a_tool_that_a_synchronous_function_calls_is_said(self) -> None:
        code = "import asyncio\nawait asyncio.gather(*map(lambda i: t(x=i), [1]))\nsorted([1], key=t)"
        assert [2, 3] == lines(unsupported(code, {"t"}))

    def test_syntax_is_left_to_the_type_checker(self) -> None:
        assert [] == unsupported("x = 1\ny = (")

    @pytest.mark.parametrize(
        "code",
        ["x" * (MAX_CODE + 1), "(" * 10_000 + ")" * 10_000, "-" * 40_000 + "1", "x" + ".a" * 20_000, "\0", "\ud800"],
    )
    def test_nothing_that_cannot_be_read_raises(self, code: str) -> None:
        assert len(unsupported(code)) <= 1

    @pytest.mark.parametrize(
        "line", ["x.get\n", "x = t()\n", "import a\n", "t()\n", "x.a" + ".b" * 900 + "\n", "del x\n"]
    )
    def test_a_long_program_is_read_in_a_second(self, line: str) -> None:
        started = time.process_time()
        unsupported(line * (MAX_CODE // len(line)), {"t"})
        assert time.process_time() - started < 1

    def test_a_tool_of_the_programs_own_is_not_one(self) -> None:
        assert [] == unsupported("def read(x):\n    return x\nread(1)", {"read"})

    @pytest.mark.parametrize(
        "code", ["x = t()\nx['a']", "t()", "t().a", "t()['a']", "f'{t()}'", "t() + 1", "x = t()\ny = 1"]
    )
    def test_a_tool_that_nothing_awaits_is_said(self, code: str) -> None:
        assert [1] == lines(unsupported(code, {"t"}))

    @pytest.mark.parametrize(
        "code",
        [
            "await t()",
            "x = t()\nawait x",
            "x = [t()]",
            "f = lambda: t()",
            "g(t())",
            "def f():\n    return t()",
            "d[t()]",
        ],
    )
    def test_a_tool_that_is_passed_on_is_not(self, code: str) -> None:
        assert [] == unsupported(code, {"t"})

    @settings(max_examples=200)
    @given(st.text(alphabet="abt().[]{}:=\n '\"#\\0\u00e9*,awitforn", max_size=60))
    def test_no_text_raises(self, code: str) -> None:
        assert all(0 <= problem.line <= code.count("\n") + 2 for problem in unsupported(code, {"t"}))


class TestHostileTools:
    @settings(max_examples=25, deadline=None)
    @given(names=st.lists(st.text(max_size=20), min_size=1, max_size=4, unique=True), said=st.text(max_size=80))
    def test_the_checker_reads_every_stub(self, check: Check, names: list[str], said: str) -> None:
        python = python_names(names)
        schema = {"type": "object", "properties": {name: {"type": "integer"} for name in names}}
        own: list[Stub] = [stub_of(name, python[name], schema, schema, said) for name in names]
        for stub in own:
            parameter = next(iter(stub.parameters))
            found = check(
                f"x = await {stub.python_name}({parameter}=1)\nawait {stub.python_name}({parameter}='a')", own
            )
            assert [2] == lines(found)

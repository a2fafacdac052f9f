"""Programs that try to get out, to learn what their caller may not, or to take the server along."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.tools.base import Tool, ToolResult

from agent_utilities import Feature, create_mcp_server
from agent_utilities.programs.described import value_of
from agent_utilities.programs.feature import Programs
from agent_utilities.programs.program import CallError, Function, Limits, ProgramError
from agent_utilities.programs.running import Workers, run
from agent_utilities.seam.feature import Asked
from agent_utilities.seam.request import Call, Request
from tests.approvals.asked import Person
from tests.every import every
from tests.parts import part
from tests.programs.servers import MODES, Ran, Tracker, ran
from tests.programs.test_pauses import handle_in, said_yes

pytest.importorskip("pydantic_monty")
pytestmark = [pytest.mark.anyio, pytest.mark.outside, pytest.mark.timeout(120)]

SECRET = "c4nary-of-this-host"
QUICK = Limits(wall_s=3.0, own_s=0.5, data_bytes=1 << 20, printed_bytes=2_000)


@pytest.fixture(autouse=True)
def _host_with_a_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOST_SECRET", SECRET)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.txt").write_text(SECRET)


def told_of_host(text: str) -> list[str]:
    """Return what a text says of the machine and process that programs run on."""
    of_files = [SECRET, "root:x:0", "site-packages", "agent_utilities/", sys.prefix, str(Path.cwd()), str(Path.home())]
    of_process = [sys.version.split()[0], str(os.getpid()), platform.release(), os.environ["PATH"]]
    return [each for each in (*of_files, *of_process) if len(each) > 3 and each in text]


def quick(*features: Feature, **environ: str) -> Tracker:
    """Return a tracker that denies one tool, whose programs are soon ended."""
    tracker = Tracker(*features, **{"MCP_DISABLED_TOOLS": "secret", **environ})
    tracker.server.complete()
    part(tracker.server, Programs).limits = QUICK
    return tracker


async def ended(code: str, tracker: Tracker | None = None) -> Ran:
    """Return what a hostile program came to; the server lives on, and it was told nothing of the host."""
    tracker = tracker or quick()
    async with tracker.client() as client:
        async with asyncio.timeout(20):
            found = await ran(client, code)
        after = await ran(client, "await count(n=2) + 2")
    assert after.texts == ["4"]
    assert told_of_host(found.text) == []
    assert "secret" not in tracker.calls
    return found


ESCAPES = {
    "classes of a tuple": "().__class__.__mro__",
    "subclasses of object": "().__class__.__base__.__subclasses__()",
    "globals of a function": "def f():\n    pass\nf.__globals__",
    "globals of a tool": "count.__globals__",
    "globals of a library": "import asyncio\nasyncio.gather.__globals__",
    "builtins": "__builtins__['open']",
    "builtins by a function": "print.__self__.open('secret.txt')",
    "import as a function": "__import__('os').system('id')",
    "frame of a generator": "g = (i for i in [1])\ng.gi_frame.f_back.f_globals",
    "frame of a traceback": "try:\n    1 / 0\nexcept Exception as e:\n    x = e.__traceback__.tb_frame.f_back\nx",
    "frame of a coroutine": "async def f():\n    return 1\nc = f()\nx = c.cr_frame.f_globals\nawait c",
    "format string": "'{0.__class__.__init__.__globals__}'.format(count)",
    "format by a map": "'{a.__class__}'.format_map({'a': count})",
    "f-string": "x = count\nf'{x.__class__.__mro__}'",
    "computed attribute": "getattr(count, '__glo' + 'bals__')",
    "computed class": "getattr((), '__cla' + 'ss__')",
    "class of three arguments": "type('X', (object,), {'__getattr__': lambda s, n: n})()",
    "attribute hook": "class A:\n    def __getattr__(self, n):\n        return n\nA().x",
    "class with a base": "class A(Exception):\n    pass\nraise A",
    "metaclass": "class A(metaclass=type):\n    pass\nA.__subclasses__()",
    "eval of an import": "eval('__import__(\"os\").environ')",
    "eval of a denied tool": "eval('secret()')",
    "exec of a read": "exec('from pathlib import Path\\nPath(\"secret.txt\").read_text()')",
    "compile": "eval(compile('1', 'a', 'eval'))",
    "decorator": "@getattr\ndef f():\n    pass",
    "open": "open('/etc/passwd').read()",
    "open, unchecked": "open('/etc/passwd').read()  # type: ignore",
    "path": "from pathlib import Path\nPath('/etc/passwd').read_text()",
    "path here": "from pathlib import Path\nPath('secret.txt').read_text()",
    "path of bytes": "from pathlib import Path\nPath('secret.txt').read_bytes()",
    "folder": "from pathlib import Path\n[str(p) for p in Path('/').iterdir()]",
    "home": "from pathlib import Path\nstr(Path('~').expanduser())",
    "resolved path": "from pathlib import Path\nstr(Path('.').resolve())",
    "write": "from pathlib import Path\nPath('/tmp/made_by_a_program').write_text('x')",
    "environment": "import os\nos.environ['HOST_SECRET']  # type: ignore",
    "environment by a function": "import os\nos.getenv('HOST_SECRET')  # type: ignore",
    "environment by its name": "from os import environ\nenviron",
    "listing": "import os\nos.listdir('/')",
    "shell": "import os\nos.system('id')  # type: ignore",
    "modules": "import sys\nsys.modules['os']  # type: ignore",
    "frames of sys": "import sys\nsys._getframe(0)  # type: ignore",
    "exit": "import sys\nsys.exit(3)  # type: ignore",
    "exit by an error": "raise SystemExit(3)",
    "interrupt": "raise KeyboardInterrupt",
    "process": "import subprocess",
    "memory by ctypes": "import ctypes",
    "importlib": "import importlib",
    "socket": "import socket",
    "import that is not checked": "import socket  # type: ignore\nsocket.socket()",
    "relative import": "from . import feature  # type: ignore\nfeature",
    "import of us": "import agent_utilities.programs.feature  # type: ignore",
    "shell by asyncio": "import asyncio\nawait asyncio.create_subprocess_shell('id')  # type: ignore",
    "loop": "import asyncio\nasyncio.get_event_loop()  # type: ignore",
    "pickle": "import pickle\npickle.loads(b'cos\\nsystem\\n(S\"id\"\\ntR.')",
    "name that is not there": "_functions  # type: ignore",
    "call of a name of ours": "await system_call(name='x')  # type: ignore",
    "system call by its name": "await eval('system.sleep')(1)",
}


@every("code", list(ESCAPES.values()), ids=list(ESCAPES))
async def test_there_is_no_way_out_and_the_error_says_so(code: str):
    found = await ended(code)
    assert found.is_error
    assert "Error calling tool" not in found.text
    assert not os.path.exists("/tmp/made_by_a_program")  # noqa: ASYNC240


@every(
    ("code", "value"),
    [
        ("import sys\nsys.argv", '["main.py"]'),
        ("import sys\nsys.version", "3.14.0 (Monty)"),
        ("from pathlib import Path\nstr(Path.cwd())", "/"),
        ("__file__", "/main.py"),
        ("from pathlib import Path\n[str(p) for p in Path('/').glob('*')]", "[]"),
        ("eval('1 + 1')", "2"),
        ("exec('x = 1')\nlen(dir()) >= 0  # type: ignore", None),
        ("import time\ntime.time() > 1", "true"),
        ("import time\nt = time.perf_counter()\ntime.perf_counter() - t < 1", "true"),
        ("hash('a') == hash('a')", "true"),
        ("id(()) < 1_000_000", "true"),  # a number of the interpreter's, no address of the host
        ("import random\n0 <= random.random() < 1", "true"),
    ],
)
async def test_what_it_learns_of_its_process_is_the_interpreters_own(code: str, value: str | None):
    found = await ended(code)
    assert value is None or found.texts == [value]


async def test_what_one_program_leaves_another_does_not_see():
    tracker = quick()
    async with tracker.client() as first, tracker.client() as second:
        await ran(first, "import json\njson.mine = 'theirs'  # type: ignore")
        await ran(first, "left = 'theirs'\nleft")
        for code in ("left  # type: ignore", "import json\njson.mine  # type: ignore"):
            found = await ran(second, code)
            assert found.is_error
            assert "theirs" not in found.text


TOO_MUCH = {
    "long text": ("'x' * 10**10", "memory limit"),
    "growing list": ("x = []\nwhile True:\n    x.append('a' * 1000)", "limit exceeded"),
    "bomb of dicts": ("d = {}\ni = 0\nwhile True:\n    d[i] = {i: i}\n    i += 1", "limit exceeded"),
    "width of an f-string": ("f'{1:>{10**9}}'", "limit"),
    "width by percent": ("'%1000000000d' % 1", "memory limit"),
    "shift": ("1 << 10**10", "memory limit"),
    "product": ("x = 1\nfor i in range(1, 10**6):\n    x *= i", "time limit"),
    "power": ("10**10**8", "too much for it"),
    "recursion": ("def f(n):\n    return f(n + 1)\nf(1)", "RecursionError"),
    "endless loop": ("while True:\n    pass", "time limit"),
    "endless loop that catches": (
        "while True:\n    try:\n        x = 1\n    except BaseException:\n        pass",
        "time limit",
    ),
    "regular expression": ("import re\nre.match(r'(a|a|b\\1)*c', 'a' * 50)", "backtracking"),
    "parentheses": ("(" * 5000 + "1" + ")" * 5000, "too deeply nested"),
    "chain": ("1" + "+1" * 4000, "nested too deeply"),
    "long program": ("x = 1\n" * 40_000, "more than 50,000 characters"),
    "printed lines": ("for i in range(10**6):\n    print('x' * 100)", "printed more than 2,000"),
    "printed text": ("print('x' * 10**7)", "printed more than 2,000"),
    "value": ("'x' * (100 << 20)", "its value of 104,857,600 bytes is beyond"),
    "list as a value": ("['xxxxxxxxxx'] * 400_000", "is beyond the 1,048,576 bytes"),
    "nested value": ("x = []\nfor _ in range(20_000):\n    x = [x]\nx", "its value can't be given as JSON"),
    "nested dicts": ("x = {}\nfor _ in range(20_000):\n    x = {'a': x}\nx", "its value can't be given as JSON"),
    "bytes as a value": ("b'\\xff\\xfe'", "its value can't be given as JSON"),
    "gathered calls": (
        "import asyncio\nawait asyncio.gather(*[count(n=i) for i in range(10_000)])",
        "more than 100 calls",
    ),
    "gathered sleeps": (
        "import asyncio\nawait asyncio.gather(*[asyncio.sleep(9) for i in range(10_000)])",
        "limit 2000",
    ),
    "endless short sleeps": ("import asyncio\nwhile True:\n    await asyncio.sleep(1e-9)", "limit"),
    "endless unknown names": (
        "while True:\n    try:\n        f()  # type: ignore\n    except NameError:\n        pass",
        "limit",
    ),
    "sleep": ("import asyncio\nawait asyncio.sleep(10**400)", "longer than 3 s"),
    "sleep that holds": ("import time\ntime.sleep(9)", "use `await asyncio.sleep`"),
    "short sleeps that hold": ("import time\nwhile True:\n    time.sleep(0.1)", "use `await asyncio.sleep`"),
    "long error": ("raise ValueError('x' * 10**7)", "xxx"),
    "long name": ("x" * 40_000 + "()", "nothing was called"),
}


@every(("code", "said"), list(TOO_MUCH.values()), ids=list(TOO_MUCH))
async def test_too_much_ends_the_program_alone_and_is_told_in_few_words(code: str, said: str):
    found = await ended(code)
    assert found.is_error
    assert said in found.text
    assert len(found.text) < 5_000
    assert "Error calling tool" not in found.text


VALUES = {
    "not a number": ("[float('nan'), float('inf')]", "[NaN,Infinity]"),
    "half of a character": ("'\\ud800'", "�"),
    "int of 5,000 digits": ("10**4999", "1" + "0" * 4_999),
    "keys that are no texts": ("{(1, 2): 3, None: 4}", '{"1,2":3,"None":4}'),
    "a list in itself": ("x = []\nx.append(x)\nx", '["[...]"]'),
    "set": ("{1}", "[1]"),
    "a tool": ("count", "count"),
    "ellipsis": ("[...]", '["Ellipsis"]'),
    "NUL": ("'a\\0b'", "a\0b"),
}


@every(("code", "value"), list(VALUES.values()), ids=list(VALUES))
async def test_any_value_is_given_back_as_text(code: str, value: str):
    assert (await ended(code)).texts == [value]


@every("code", ["def f():\n    pass\nf", "class A:\n    pass\nA()", "[lambda: 1]", "class A:\n    pass\nA"])
async def test_functions_and_objects_come_as_texts_that_say_nothing_of_us(code: str):
    found = await ended(code)
    assert not found.is_error


ARGUMENTS = {
    "keys that are tuples": "{(1, 2): 3}",
    "nested lists": "nested",
    "int of 5,000 digits": "10**5000",
    "bytes": "b'\\xff'",
    "object": "A()",
    "a tool": "count",
    "not a number": "float('nan')",
    "set": "{1}",
    "date": "date(2020, 1, 2)",
    "text of 50 MB": "'x' * (50 << 20)",
    "a list in itself": "itself",
}


@every("argument", list(ARGUMENTS.values()), ids=list(ARGUMENTS))
@every("tool", ["count(n", "write(text='a', path"])
async def test_a_call_with_arguments_that_do_not_fit_fails_in_the_program(tool: str, argument: str):
    code = f"""
from datetime import date
class A:
    pass
nested = []
for _ in range(20_000):
    nested = [nested]
itself = []
itself.append(itself)
try:
    await {tool}={argument})  # type: ignore
    said = "made"
except RuntimeError as error:
    said = str(error)
said
"""
    found = await ended(code)
    assert not found.is_error, found.text
    assert len(found.text) < 2_000


@every("mode", MODES)
async def test_what_waits_for_a_yes_is_shown_and_made_as_json_has_it(mode: str):
    """A date was refused by the state that a waiting program is kept in."""
    tracker, person = quick(), Person("yes")
    async with tracker.client(mode, person) as client:
        found = await ran(
            client, "from datetime import date\nawait write(path='a', text=date(2020, 1, 2))  # type: ignore"
        )
    assert not found.is_error, found.text
    assert tracker.calls == [("write", "a", "2020-01-02")]
    assert "2020-01-02" in person.read[0]


class TestTheCheck:
    async def test_a_program_that_crashes_the_checker_runs_unchecked(self):
        chain = "x = 0\nfor i in [1]:\n" + "    x = (x, i)\n" * 5 + "    x=x\n" * 1960 + "await count(n=3)"
        assert (await ended(chain)).texts == ["3"]

    async def test_a_program_that_silences_it_is_judged_by_the_host_all_the_same(self):
        found = await ended("await count(n='a')  # type: ignore")
        assert found.is_error
        assert "valid integer" in found.text

    async def test_a_call_that_nothing_awaits_is_told_where_it_was_not_waited_for(self):
        tracker = quick()
        async with tracker.client() as client:
            found = await ran(client, "import asyncio\nx = [wait()]  # type: ignore\nawait count(n=1)\n7")
        assert found.texts[0] == "7"
        assert found.texts[1].startswith("not waited for, and made or not: ")
        assert '"wait"' in found.texts[1]

    async def test_nothing_of_it_runs_while_it_is_checked(self):
        found = await ended("print('once')\n1 + 'a'")
        assert "once" not in found.text


class TestWhatIsDenied:
    """Laws L1 and L2: a program can't tell a denied tool from one that never was."""

    @every(
        "code",
        [
            "await NAME()",
            "await NAME()  # type: ignore",
            "NAME",
            "NAME  # type: ignore",
            "x = NAME  # type: ignore\nawait x()",
            "eval('NAME()')",
            "f'{NAME}'  # type: ignore",
            "[NAME]  # type: ignore",
            "await NAME(n=1, m='x')  # type: ignore",
            "await NAMe()  # type: ignore",
            "def f(x: NAME):\n    return x\nf(1)",
            "import asyncio\nawait asyncio.gather(NAME(), return_exceptions=True)",
            "NAME = 3\nNAME",
            "try:\n    await NAME()  # type: ignore\nexcept BaseException as e:\n    x = repr(e)\nx",
            "from repl_type_stubs import NAME  # type: ignore\nNAME",
            "await ｓecret()  # type: ignore",
            "'{0}'.format(NAME)  # type: ignore",
            "locals()  # type: ignore",
            "globals()  # type: ignore",
            "dir()  # type: ignore",
        ],
    )
    @every("mode", MODES)
    async def test_is_answered_to_the_byte_as_where_it_never_was(self, mode: str, code: str):
        with_it, without = quick(), quick()
        without.server.local_provider.remove_tool("secret")
        texts = []
        for tracker in (with_it, without):
            async with tracker.client(mode) as client:
                found = await ran(client, code.replace("NAMe", "secre").replace("NAME", "secret"))
                listed = next(tool for tool in await client.list_tools() if tool.name == "run_program")
            texts.append((found.is_error, found.texts, str(listed.description)))
        assert texts[0] == texts[1]
        assert with_it.calls == []

    async def test_takes_no_name_from_a_tool_that_is_permitted(self):
        """`get-it` is `get_it` in a program, whether or not a denied tool has that name."""
        texts = []
        for denied in (True, False):
            tracker = quick(MCP_DISABLED_TOOLS="secret,get_it")
            tracker.server.tool(lambda: "mine", name="get-it", annotations={"readOnlyHint": True})
            if denied:
                tracker.server.tool(lambda: "theirs", name="get_it", annotations={"readOnlyHint": True})
            async with tracker.client() as client:
                texts.append(
                    [(await ran(client, f"await {name}()  # type: ignore")).text for name in ("get_it", "get_it_2")]
                )
        assert texts[0] == texts[1]
        assert texts[0][0] == "mine"


async def test_a_name_is_of_the_same_tool_before_and_after_a_program_waits():
    """`get-it` would have the name of `get_it` once that is denied."""
    tracker = quick()
    tracker.server.tool(lambda: "mine", name="get_it", annotations={"readOnlyHint": True})
    tracker.server.tool(lambda: "another's", name="get-it", annotations={"readOnlyHint": True})
    async with tracker.client(answer=None) as client:
        handle = handle_in(await ran(client, "await get_it()\nawait write(path='a', text='b')\nawait get_it()"))
        await said_yes(tracker.server)
        tracker.server.disable(names={"get_it"})
        found = await ran(client, "", resume=handle)
    assert "name 'get_it' is not defined" in found.text
    assert "another's" not in found.text


async def test_a_tool_that_is_gone_once_a_program_goes_on_fails_there_with_what_was_made():
    tracker = quick()
    async with tracker.client(answer=None) as client:
        handle = handle_in(await ran(client, "await count(n=1)\nawait write(path='a', text='b')"))
        await said_yes(tracker.server)
        tracker.server.disable(names={"write"})
        found = await ran(client, "", resume=handle)
    assert "name 'write' is not defined" in found.text
    assert '{"tool": "count", "calls": 1}' in found.text
    assert tracker.calls == [("count", 1)]


class Always(Feature):
    """Asks a question that nobody answers."""

    name = "always"

    def __init__(self, question: str | None) -> None:
        self.question = question

    async def admit(self, request: Request, call: Call) -> None:
        if call.name == "count":
            raise Asked({"resultType": "complete", "content": [], "isError": True}, self.question)


@every(("question", "said"), [(None, "call it by itself"), ("q_1", "wait for an answer that nobody can give")])
async def test_a_question_that_nobody_can_answer_ends_it_soon(question: str | None, said: str):
    tracker = quick(Always(question))
    async with tracker.client() as client:
        async with asyncio.timeout(10):
            found = await ran(client, "await labels()\nawait count(n=1)")
    assert found.is_error
    assert said in found.text
    assert tracker.calls == []


EVIL = "x): ...\nimport os\nasync def evil(*, y: int"
DEFINITIONS: dict[str, dict[str, Any]] = {
    "name": {"name": "a(): pass\nprint('evil')\ndef b"},
    "description": {"name": "odd", "description": '"""\nprint("evil")\nraise SystemExit\n"""'},
    "parameter": {"name": "odd", "parameters": {"type": "object", "properties": {EVIL: {"type": "string"}}}},
    "choice": {"name": "odd", "parameters": {"type": "object", "properties": {"p": {"enum": ["a]\nevil()\n["]}}}},
    "title": {"name": "odd", "parameters": {"type": "object", "title": "A(object):\n    evil()", "properties": {}}},
    "result": {"name": "odd", "output_schema": {"type": "object", "properties": {"str": {}, "class": {}, EVIL: {}}}},
    "reference": {"name": "odd", "parameters": {"type": "object", "$ref": "#", "properties": {}}},
    "reference abroad": {
        "name": "odd",
        "parameters": {"type": "object", "properties": {"p": {"$ref": "file:///etc/passwd"}}},
    },
    "pattern": {"name": "odd", "parameters": {"type": "object", "patternProperties": {"(a+)+$": {}}, "properties": {}}},
    "builtin": {"name": "print"},
    "module": {"name": "asyncio"},
    "keyword": {"name": "class"},
    "dunder": {"name": "__import__"},
    "type of the stubs": {"name": "TypedDict"},
    "nothing": {"name": "-"},
    "letters of other scripts": {"name": "инструмент"},
    "5,000 characters": {"name": "n" * 5_000},
    "none": {"name": "None"},
    "of the wrapper": {"name": "check_only_"},
    "of us": {"name": "system.sleep"},
}


class Odd(Tool):
    """A tool with any definition."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        return ToolResult(content="odd")


@every("definition", list(DEFINITIONS.values()), ids=list(DEFINITIONS))
async def test_a_tool_whose_definition_is_code_is_called_or_not_but_never_run(definition: dict[str, Any]):
    tracker = quick()
    given = {"parameters": {"type": "object", "properties": {}}, **definition}
    tracker.server.add_tool(Odd(**given, annotations={"readOnlyHint": True}))
    async with tracker.client() as client:
        name = await python_name_of(client, definition["name"])
        found = await ran(client, f"r = await {name}()\nprint(r)\nawait count(n=1)")
        other = await ran(client, "import asyncio\nprint('own')\nawait asyncio.gather(count(n=1), count(n=2))")
    assert other.texts == ["own\n", "[1,2]"]
    assert "evil" not in "".join(found.texts).replace("'evil'", "")
    assert (found.is_error, found.texts) == (False, ["odd\n", "1"])


async def python_name_of(client: Client[Any], name: str) -> str:
    from agent_utilities.programs.stubs import python_names

    names = [tool.name for tool in await client.list_tools()]
    return python_names([name, *(each for each in names if each != name)])[name]


CODE = "__import__('os').environ\n```python\nraise SystemExit\n```\nasync def count(**_) -> str: ...\n{0.__class__}"
RESULTS = {
    "code": CODE,
    "code in fields": {CODE: CODE, "__class__": "x", "self": 1},
    "10 MB": "x" * (10 << 20),
    "many": [{"a": i} for i in range(20_000)],
    "half of a character": ["a\ud800b", {"\udfff": 1}],
    "not a number": [float("nan"), float("inf")],
    "large int": 10**400,
    "deep": None,
    "keys": {"": 1, "a.b": 2, "None": None},
}


@every("kind", list(RESULTS))
async def test_a_result_is_a_value_whatever_it_says(kind: str):
    value: Any = RESULTS[kind]
    if kind == "deep":
        value = 1
        for _ in range(3_000):
            value = [value]
    tracker = quick()

    class Gives(Odd):
        async def run(self, arguments: dict[str, Any]) -> ToolResult:
            return ToolResult(content="text", structured_content={"value": value})

    tracker.server.add_tool(Gives(name="give", parameters={"type": "object"}, annotations={"readOnlyHint": True}))
    code = "try:\n    r = await give()\n    x = type(r['value']).__name__\nexcept RuntimeError as e:\n    x = str(e)\nx"
    found = await ended(code, tracker)
    assert not found.is_error, found.text
    assert len(found.text) < 1_000
    assert "run_program" not in found.text


async def test_a_result_that_can_not_be_given_leaves_the_others():
    tracker = quick()

    class Gives(Odd):
        async def run(self, arguments: dict[str, Any]) -> ToolResult:
            return ToolResult(content="text", structured_content={"value": "x" * (2 << 20)})

    tracker.server.add_tool(Gives(name="give", parameters={"type": "object"}, annotations={"readOnlyHint": True}))
    code = """
import asyncio
async def tried(call):
    try:
        return await call
    except RuntimeError as error:
        return str(error)
await asyncio.gather(tried(count(n=1)), tried(give()), tried(count(n=2)))
"""
    found = await ended(code, tracker)
    one, given, two = json.loads(found.text)
    assert (one, two) == (1, 2)
    assert "beyond the 1,048,576 bytes" in given


@every(("n", "in_all", "others_run"), [(10, 1 << 20, True), (10**6, 1 << 30, False), (10, 0, False)])
async def test_a_program_that_waits_with_much_in_it_or_others_keeps_its_worker(
    monkeypatch: pytest.MonkeyPatch, n: int, in_all: int, others_run: bool
):
    """So only as many hold much as there are workers: a state that is taken out is held in the server's own memory."""
    monkeypatch.setattr("agent_utilities.programs.running._PARKED_BYTES", 100_000)
    monkeypatch.setattr("agent_utilities.programs.running._ALL_PARKED_BYTES", in_all)
    monkeypatch.setattr("agent_utilities.programs.running.N_WORKERS", 1)
    tracker = quick()
    async with tracker.client() as client:
        task = asyncio.ensure_future(ran(client, f"x = 'x' * {n}\nawait wait()\nlen(x)"))
        async with asyncio.timeout(5):
            await tracker.began.wait()
        other = asyncio.ensure_future(ran(client, "2"))
        done, _ = await asyncio.wait({other}, timeout=5 if others_run else 0.3)
        tracker.go_on.set()
        texts = [(await task).texts, (await other).texts]
    assert bool(done) is others_run
    assert texts == [[str(n)], ["2"]]


async def test_sleeps_are_counted_through_whatever_the_program_waits_for(monkeypatch: pytest.MonkeyPatch):
    """The interpreter counts anew each time that a program is given a worker."""
    monkeypatch.setattr("agent_utilities.programs.running._N_TURNS", 60)
    monkeypatch.setattr("agent_utilities.programs.running._PARK_AFTER_S", 0.0)
    found = await ended("import asyncio\nfor _ in range(90):\n    await asyncio.sleep(0.001)")
    assert "more than 60 times" in found.text


async def test_a_call_that_fails_in_a_way_nobody_knows_of_is_told_as_unknown(caplog: pytest.LogCaptureFixture):
    async def call(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, int]:
        raise LookupError(SECRET)

    workers = Workers()
    try:
        with pytest.raises(ProgramError) as failed:
            await run(workers, "await post(n=1)", {"post": Function(call, "post", writes=True)}, QUICK)
    finally:
        await workers.close()
    text = str(failed.value)
    assert "post: it failed, and may have been made" in text
    assert '"unknown": [{"tool": "post"' in text
    assert SECRET not in text
    assert SECRET in caplog.text


@every("mode", MODES)
async def test_a_client_that_goes_in_the_middle_takes_all_calls_along(mode: str):
    tracker = quick()
    async with tracker.client(mode) as client:
        task = asyncio.ensure_future(ran(client, "import asyncio\nawait asyncio.gather(wait(), wait())"))
        async with asyncio.timeout(5):
            await tracker.reached(2)
            task.cancel()
            await tracker.was_cancelled.wait()
        await asyncio.gather(task, return_exceptions=True)
        tracker.go_on.set()
        assert (await ran(client, "await count(n=5)")).texts == ["5"]
        assert part(tracker.server, Programs)._workers.n_running == 0


async def test_a_worker_that_is_killed_is_told_and_replaced():
    import psutil

    tracker = quick()
    async with tracker.client() as client:
        await ran(client, "1")
        part(tracker.server, Programs).limits = Limits(own_s=5.0)
        task = asyncio.ensure_future(ran(client, "while True:\n    pass"))
        mine = [each for each in psutil.Process().children() if "monty" in each.name()]
        async with asyncio.timeout(10):
            while not any(each.cpu_times().user > 0.05 for each in mine):
                await asyncio.sleep(0.02)
                mine = [each for each in psutil.Process().children() if "monty" in each.name()]
        busy = max(mine, key=lambda each: each.cpu_times().user)
        await asyncio.sleep(0.3)
        busy.kill()
        found = await task
        after = await ran(client, "1 + 1")
    assert found.is_error
    assert "the worker that ran it has ended" in found.text
    assert after.texts == ["2"]


async def test_a_tool_that_calls_tools_of_the_server_does_so_within_the_callers_bounds():
    tracker = quick()

    @tracker.server.tool(annotations={"readOnlyHint": True})
    async def enters(name: str) -> str:
        async with Client(tracker.server) as client:
            result = await client.call_tool(name, {}, raise_on_error=False)
        return str(result.content[0].text)

    found = await ended(
        "[await enters(name='labels'), await enters(name='secret'), await enters(name='absent')]", tracker
    )
    labels, secret, absent = json.loads(found.text)
    assert "bug" in labels
    assert secret.replace("secret", "NAME") == absent.replace("absent", "NAME")


async def test_a_tool_that_raises_anything_ends_its_call_alone():
    tracker = quick()

    class Raises(Odd):
        async def run(self, arguments: dict[str, Any]) -> ToolResult:
            raise LookupError(SECRET)

    tracker.server.add_tool(Raises(name="raises", parameters={"type": "object"}, annotations={"readOnlyHint": True}))
    code = "try:\n    await raises()\nexcept RuntimeError as error:\n    x = 'caught'\nx"
    assert (await ended(code, tracker)).texts == ["caught"]


async def test_hostile_programs_side_by_side_do_not_keep_an_honest_one_from_its_answer():
    tracker = quick()
    hostile = [code for code, _ in TOO_MUCH.values()][:16]
    async with tracker.client() as client:
        async with asyncio.timeout(25):
            *_, honest = await asyncio.gather(*[ran(client, each) for each in hostile], ran(client, "await count(n=9)"))
    assert honest.texts == ["9"]


def inner_three() -> int:
    return 3


async def test_a_server_that_is_mounted_gives_its_tools_and_no_program_of_its_own():
    inner = Tracker().server
    outer = create_mcp_server("outer", environ={"MCP_PROGRAMS": "all", "MCP_GRAPH": "off"})
    outer.mount(inner, namespace="child")
    plain = FastMCP[None]("plain")
    plain.tool(inner_three, name="three", annotations={"readOnlyHint": True})
    outer.mount(plain)
    async with Client(outer) as client:
        names = [tool.name for tool in await client.list_tools()]
        found = await ran(client, "[await child_count(n=2), await three()]")
    assert [name for name in names if name.endswith("run_program")] == ["run_program"]
    assert found.texts == ["[2,3]"]


@every(
    ("value", "given"),
    [
        (["a\ud800b", {"\udfff": 1}], ["a?b", {"?": 1}]),
        ([float("inf"), None, 10**400], [float("inf"), None, 10**400]),
        ("x" * (10 << 20), "x" * (10 << 20)),
    ],
    ids=["halves of characters", "numbers", "10 MB"],
)
def test_what_an_upstream_answers_is_given_as_the_interpreter_takes_it(value: Any, given: Any):
    found, n_bytes = value_of({"content": [], "structuredContent": value}, is_wrapped=False)
    assert found == given
    assert n_bytes >= len(json.dumps(given)) - 20


def test_what_an_upstream_answers_so_deeply_that_nobody_reads_it_is_an_error():
    deep: Any = 1
    for _ in range(50_000):
        deep = [deep]
    with pytest.raises(CallError, match="can't be given to a program"):
        value_of({"content": [], "structuredContent": deep}, is_wrapped=False)


class TestWhatPeersHadWrong:
    """Kinds of bug that were reported of others who run programs over tools."""

    @every(
        "code",
        ["import json\njson.codecs", "import random\nrandom._os", "import re\nre.sys", "import csv\ncsv.io"],
    )
    async def test_a_module_that_may_be_imported_leads_to_no_other(self, code: str):
        assert (await ended(code)).is_error
        assert (await ended(f"{code}  # type: ignore")).is_error

    async def test_a_tool_that_answers_nothing_gives_none(self):
        tracker = quick()

        class Nothing(Odd):
            async def run(self, arguments: dict[str, Any]) -> ToolResult:
                return ToolResult(content=[])

        given = {"parameters": {"type": "object"}, "annotations": {"readOnlyHint": True}}
        tracker.server.add_tool(Nothing(name="nothing", **given))
        assert (await ended("[await nothing()]", tracker)).texts == ["[null]"]

    async def test_numbers_beyond_64_bits_and_nulls_go_in_and_out_as_they_are(self):
        tracker = quick()

        def same(value: Any, other: str | None = "default") -> Any:
            return {"value": value, "other": other}

        tracker.server.tool(same, annotations={"readOnlyHint": True})
        code = "r = await same(value=2**63 + 1, other=None)\n[r['value'] - 1, r['other']]"
        assert (await ended(code, tracker)).texts == ["[9223372036854775808,null]"]

    async def test_parameters_that_are_keywords_are_given_with_an_underscore(self):
        tracker = quick()

        class Keywords(Odd):
            async def run(self, arguments: dict[str, Any]) -> ToolResult:
                return ToolResult(content=json.dumps(arguments, sort_keys=True))

        names = {"from": {"type": "string"}, "class": {"type": "string"}, "a-b": {"type": "integer"}}
        schema = {"type": "object", "properties": names, "required": list(names)}
        tracker.server.add_tool(Keywords(name="move", parameters=schema, annotations={"readOnlyHint": True}))
        found = await ended("await move(from_='a', class_='b', a_b=3)", tracker)
        assert json.loads(found.text) == {"a-b": 3, "class": "b", "from": "a"}

    async def test_an_entry_point_as_scripts_have_it_runs(self):
        main = "async def main():\n    print(await count(n=1))"
        code = f"import asyncio\n{main}\nif __name__ == '__main__':\n    asyncio.run(main())"
        assert (await ended(code)).texts == ["1\n"]

    async def test_what_was_read_before_a_yes_is_not_read_again(self):
        tracker = quick()
        async with tracker.client(answer="yes") as client:
            await ran(client, "a = await count(n=1)\nawait write(path='a', text='b')\nawait count(n=2)")
        assert tracker.calls == [("count", 1), ("write", "a", "b"), ("count", 2)]

    async def test_more_programs_may_wait_than_there_are_workers(self):
        tracker = quick()
        part(tracker.server, Programs).limits = Limits()
        async with tracker.client() as client:
            waiting = [asyncio.ensure_future(ran(client, "await wait()")) for _ in range(20)]
            async with asyncio.timeout(20):
                await tracker.reached(20)
                quick_one = await ran(client, "await count(n=1)")
                tracker.go_on.set()
                texts = [(await each).texts for each in waiting]
        assert quick_one.texts == ["1"]
        assert texts == [["waited"]] * 20

    async def test_the_first_programs_of_a_server_share_its_workers(self):
        """Two that came at once started workers each, of which those of one were never ended."""
        workers = Workers()
        pools = await asyncio.gather(*[workers.pool() for _ in range(5)])
        await workers.close()
        assert len(set(map(id, pools))) == 1

    async def test_a_server_that_starts_again_runs_programs_again(self):
        tracker = quick()
        for _ in range(3):
            async with tracker.client() as client:
                assert (await ran(client, "await count(n=1)")).texts == ["1"]

    async def test_what_a_tool_logs_and_asks_of_its_context_is_there(self):
        tracker = quick()

        @tracker.server.tool(annotations={"readOnlyHint": True})
        async def knows(context: Context) -> list[bool]:
            await context.set_state("key", 1)
            return [bool(context.request_id), await context.get_state("key") == 1]

        assert (await ended("await knows()", tracker)).texts == ["[true,true]"]

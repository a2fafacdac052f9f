"""What a program may call and gets, and what its caller gets of it, in both eras of the protocol."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from agent_utilities import SettingsError, selection_meta
from agent_utilities.programs.feature import Programs
from agent_utilities.programs.program import Limits
from tests.every import every
from tests.parts import part
from tests.programs.servers import MODES, Ran, Tracker, ran
from tests.usage.logs import rows

pytest.importorskip("pydantic_monty")
pytestmark = [pytest.mark.anyio, pytest.mark.outside]
PAGES = """
numbers = []
page = 1
while page:
    found = await list_issues(repo="a/b", page=page)
    numbers += [issue["number"] for issue in found["items"]]
    page = found.get("next")
len(numbers)
"""


def ledger(ended: Ran) -> dict[str, Any]:
    line = next(line for line in ended.text.splitlines() if line.startswith('{"made"'))
    found: dict[str, Any] = json.loads(line)
    return found


class TestWhatItGets:
    @every("mode", MODES)
    async def test_many_calls_cost_one_turn_and_only_the_answer_comes_back(self, mode: str):
        tracker = Tracker()
        async with tracker.client(mode) as client:
            ended = await ran(client, PAGES)
        assert (ended.is_error, ended.texts) == (False, ["50"])
        assert tracker.calls == [("list_issues", "a/b", page) for page in range(1, 6)]

    @every("mode", MODES)
    async def test_a_list_or_a_number_comes_unwrapped_as_its_schema_says(self, mode: str):
        async with Tracker().client(mode) as client:
            ended = await ran(client, "[*await labels(), await count(n=3) + 1]")
        assert json.loads(ended.text) == ["bug", "docs", 4]

    async def test_what_it_prints_comes_before_its_value(self):
        async with Tracker().client() as client:
            ended = await ran(client, "print('first')\n{'n': await count(n=2)}")
        assert ended.texts == ["first\n", '{"n":2}']

    @every("code", ["```python\nawait count(n=2)\n```", "    n = 2\n    await count(n=n)\n", "\ufeffawait count(n=2)"])
    async def test_what_models_put_around_a_program_is_taken_off(self, code: str):
        async with Tracker().client() as client:
            assert (await ran(client, code)).texts == ["2"]

    async def test_a_program_without_a_value_says_so(self):
        async with Tracker().client() as client:
            ended = await ran(client, "x = 1")
        assert "its last line is no expression" in ended.text

    async def test_calls_that_are_gathered_run_side_by_side(self):
        tracker = Tracker()
        async with tracker.client() as client:
            code = "import asyncio\nlen(await asyncio.gather(wait(), wait(), count(n=1)))"
            task = asyncio.ensure_future(ran(client, code))
            async with asyncio.timeout(10):
                await tracker.reached(3)
            tracker.go_on.set()
            assert (await task).texts == ["3"]

    async def test_a_failed_call_is_a_runtime_error_that_a_program_may_catch(self):
        async with Tracker().client() as client:
            caught = await ran(
                client, "try:\n    await fail()\nexcept RuntimeError as error:\n    said = str(error)\nsaid"
            )
        assert caught.texts == ["fail: no disk"]


class TestWhatItMayCall:
    async def test_with_read_only_tools_that_write_do_not_exist(self):
        tracker = Tracker(MCP_PROGRAMS="read")
        async with tracker.client() as client:
            refused = await ran(client, "await write(path='a', text='b')")
            listed = next(tool for tool in await client.list_tools() if tool.name == "run_program")
        assert refused.is_error
        assert "write" in refused.text
        assert tracker.calls == []
        assert listed.annotations is not None
        assert listed.annotations.read_only_hint is True

    @every("mode", MODES)
    @every("code", ["await secret()", "f = secret\nawait f()", "import asyncio\nawait asyncio.gather(secret())"])
    async def test_a_denied_tool_is_as_unknown_as_one_that_never_was(self, mode: str, code: str):
        """Laws L1 and L2: the answers are alike to the byte, but for the name."""
        tracker, answers = Tracker(MCP_DISABLED_TOOLS="secret"), []
        async with tracker.client(mode) as client:
            for name in ("secret", "absent"):
                answers.append((await ran(client, code.replace("secret", name))).text.replace(name, "NAME"))
        assert answers[0] == answers[1]
        assert tracker.calls == []

    async def test_a_caller_narrows_their_own_programs(self):
        tracker = Tracker()
        async with tracker.client() as client:
            meta = selection_meta(disabled_tools="write")
            result = await client.call_tool(
                "run_program", {"code": "await write(path='a', text='b')"}, meta=meta, raise_on_error=False
            )
            denied = await client.call_tool(
                "run_program", {"code": "1"}, meta=selection_meta(disabled_tools="run_program"), raise_on_error=False
            )
        assert result.is_error
        assert tracker.calls == []
        assert denied.is_error
        assert "Unknown tool" in Ran(denied).text

    async def test_a_program_runs_no_program(self):
        async with Tracker().client() as client:
            ended = await ran(client, "await run_program(code='1')")
        assert ended.is_error
        assert "run_program" in ended.text

    async def test_a_bound_that_comes_while_it_runs_holds_for_its_next_call(self):
        tracker = Tracker()
        async with tracker.client() as client:
            task = asyncio.ensure_future(ran(client, "await wait()\nawait secret()"))
            await tracker.began.wait()
            tracker.server.disable(names={"secret"})
            tracker.go_on.set()
            ended = await task
        assert ended.is_error
        assert "secret" not in tracker.calls

    async def test_off_it_is_not_there(self):
        async with Tracker(MCP_PROGRAMS="off").client() as client:
            assert "run_program" not in [tool.name for tool in await client.list_tools()]
            assert "Unknown tool" in (await ran(client, "1")).text


class TestWhatIsWrong:
    @every(
        ("code", "said"),
        [
            ("await list_issues(rep='a')", "rep"),
            ("await list_issues(repo=3)", "Expected `str`"),
            ("await list_issues(repo='a', state='shut')", "shut"),
            ("x = 1\nr = await list_issues(repo='a')\nr['itemz']", "line 3"),
            ("import asyncio\nawait write(path='a', text='b')\nawait asyncio.gather(return_exceptions=True)", "line 3"),
            ("await write(path='a', text='b')\ndef f(:", "line 2"),
            ("write(path='a', text='b')", "await"),
        ],
    )
    async def test_it_is_told_by_line_before_anything_is_called(self, code: str, said: str):
        tracker = Tracker()
        async with tracker.client() as client:
            refused = await ran(client, code)
        assert refused.is_error
        assert said in refused.text
        assert "nothing was called" in refused.text
        assert tracker.calls == []

    @every("arguments", [{}, {"code": ""}, {"code": 3}, {"cod": "1"}, {"code": "1", "resume": 4}, {"resume": "r_x"}])
    async def test_arguments_that_can_not_be_meant_are_told(self, arguments: dict[str, Any]):
        async with Tracker().client() as client:
            result = await client.call_tool("run_program", arguments, raise_on_error=False)
        assert result.is_error
        assert "run_program: " in Ran(result).text

    async def test_an_error_after_a_write_says_what_was_done(self):
        async with Tracker().client() as client:
            ended = await ran(client, "await count(n=1)\nawait count(n=2)\nawait write(path='a', text='b')\n1 / 0")
        assert "ZeroDivisionError" in ended.text
        arguments = '{"path": "a", "text": "b"}'
        made = [{"tool": "count", "calls": 2}, {"tool": "write", "arguments": arguments, "writes": True}]
        assert ledger(ended) == {"made": made, "unknown": []}

    async def test_an_error_while_a_call_is_under_way_cancels_it_and_says_so(self):
        tracker = Tracker()
        async with tracker.client() as client:
            ended = await ran(client, "import asyncio\nawait asyncio.gather(wait(), fail())")
            await tracker.was_cancelled.wait()
        assert [each["tool"] for each in ledger(ended)["unknown"]] == ["wait"]
        assert [each["tool"] for each in ledger(ended)["made"]] == ["fail"]


class TestLimits:
    def tracker(self, **limits: Any) -> Tracker:
        tracker = Tracker()
        tracker.server.complete()
        part(tracker.server, Programs).limits = Limits(**limits)
        return tracker

    @every(
        ("limit", "code", "said"),
        [
            ({"wall_s": 0.2}, "await wait()", "longer than 0.2 s"),
            ({"own_s": 0.2}, "while True:\n    pass", "time limit"),
            ({"calls": 3}, "for i in range(9):\n    await count(n=i)", "more than 3 calls"),
            ({"printed_bytes": 99}, "for i in range(99):\n    print(i)\nawait count(n=1)", "printed more than 99"),
            ({"data_bytes": 300}, "await list_issues(repo='a')", "beyond the 300 bytes"),
            ({}, "'x' * 10**10", "memory limit"),
            ({}, "def f(n):\n    return f(n + 1)\nf(1)", "RecursionError"),
            ({}, "10 ** 10 ** 9", "memory limit"),
        ],
    )
    async def test_a_program_beyond_one_ends_and_says_which(self, limit: dict[str, Any], code: str, said: str):
        async with self.tracker(**limit).client() as client:
            ended = await ran(client, code)
            after = await ran(client, "1 + 1")
        assert ended.is_error
        assert said in ended.text
        assert after.texts == ["2"]

    async def test_no_more_than_ten_calls_are_under_way_at_once(self):
        tracker = self.tracker(calls_at_once=2)
        async with tracker.client() as client:
            code = "import asyncio\nlen(await asyncio.gather(*[wait() for _ in range(5)]))"
            task = asyncio.ensure_future(ran(client, code))
            async with asyncio.timeout(10):
                await tracker.reached(2)
                await ran(client, "await count(n=1)")  # in that time a third would have begun
            n_begun = tracker.calls.count("wait")
            tracker.go_on.set()
            assert (await task).texts == ["5"]
        assert n_begun == 2

    async def test_a_caller_who_goes_takes_the_calls_under_way_along(self):
        tracker = Tracker()
        async with tracker.client() as client:
            task = asyncio.ensure_future(ran(client, "await wait()"))
            await tracker.began.wait()
            task.cancel()
            await tracker.was_cancelled.wait()
            await asyncio.gather(task, return_exceptions=True)

    async def test_ready_says_how_many_run(self):
        tracker = Tracker()
        async with tracker.client() as client:
            task = asyncio.ensure_future(ran(client, "await wait()"))
            await tracker.began.wait()
            assert tracker.server.health()["programs"] == {"running": 1, "workers": 8}
            tracker.go_on.set()
            await task
            assert tracker.server.health()["programs"]["running"] == 0


class TestDescription:
    async def test_a_model_reads_all_it_must_know_within_two_thousand_characters(self):
        async with Tracker().client() as client:
            listed = next(tool for tool in await client.list_tools() if tool.name == "run_program")
        said = str(listed.description)
        assert len(said) <= 2_000
        assert "gather such calls" in said
        assert 'list_issues(repo: str, page?: int, state?: "open"|"closed")' in said

    async def test_signatures_that_do_not_fit_are_left_out(self):
        tracker = Tracker()
        for i in range(60):
            tracker.server.tool(lambda text, n=1: text, name=f"tool_number_{i}", description="Does a thing. " * 10)
        async with tracker.client() as client:
            listed = next(tool for tool in await client.list_tools() if tool.name == "run_program")
            assert "tool_number_1" not in str(listed.description)
            assert (await ran(client, "await tool_number_7(text='a')")).texts == ["a"]


class TestSettings:
    async def test_without_the_interpreter_the_start_names_what_to_install(self, monkeypatch: pytest.MonkeyPatch):
        tracker = Tracker()
        monkeypatch.setattr("agent_utilities.programs.feature.find_spec", lambda name: None)
        tracker.server.complete()
        with pytest.raises(SettingsError, match="pip install 'pydantic-monty"):
            part(tracker.server, Programs).check()


class TestWhatComesBack:
    async def test_what_is_over_the_budget_is_shortened_and_read_in_parts(self):
        tracker = Tracker(MCP_RESULT_TOKENS="500")
        async with tracker.client() as client:
            code = "[issue for page in [1, 2, 3, 4, 5] for issue in (await list_issues(repo='a', page=page))['items']]"
            ended = await ran(client, code)
            handle = re.search(r'result="(r_\w+)"', ended.text)
            assert handle is not None
            read = Ran(await client.call_tool("read_result", {"result": handle[1], "select": "[-1].title"}))
            tracker.server.disable(names={"list_issues"})
            after = await client.call_tool("read_result", {"result": handle[1]}, raise_on_error=False)
        assert "issue 59" in read.text
        assert after.is_error  # of a tool that may not be used any more

    async def test_results_of_inner_calls_are_counted_and_not_given(self, tmp_path: Path):
        tracker = Tracker(MCP_RESULT_TOKENS="8000", MCP_USAGE="counts", MCP_USAGE_FILE=str(tmp_path / "usage.db"))
        async with tracker.client() as client:
            await ran(client, PAGES)
        [(n, given)] = rows(tmp_path / "usage.db", "SELECT sum(result_tokens), sum(given_tokens) FROM calls")
        assert n > 500
        assert given == 0


class TestSearch:
    async def test_a_search_gives_functions_on_request_in_a_fraction_of_the_tokens(self):
        tracker = Tracker(MCP_TOOL_SEARCH="on")
        async with tracker.client() as client:
            schema, python = [
                await client.call_tool("tool_search", {"query": "list issues", "as": form})
                for form in ("schema", "python")
            ]
        said = python.content[0].text
        assert said.startswith('list_issues(repo: str, page?: int, state?: "open"|"closed") -> {')
        assert len(said) * 2 < len(schema.content[0].text)

    async def test_a_program_may_search_and_calls_what_is_deferred(self):
        tracker = Tracker(MCP_TOOL_SEARCH="on")
        async with tracker.client() as client:
            listed = [tool.name for tool in await client.list_tools()]
            ended = await ran(
                client, "found = await tool_search(query='list issues')\n[t['name'] for t in found['tools']]"
            )
            called = await ran(client, "len((await list_issues(repo='a'))['items'])")
            after = [tool.name for tool in await client.list_tools()]
        assert "list_issues" in ended.text
        assert called.texts == ["10"]
        assert "list_issues" not in listed
        assert "run_program" in listed
        assert set(after) - set(listed) <= {"list_issues"}

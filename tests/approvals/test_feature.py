"""A call that is asked for is made after a yes, once, and not before; by real clients of both eras."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastmcp import Client
from mcp.shared.exceptions import MCPError

from agent_utilities import SettingsError, create_mcp_server
from agent_utilities.approvals.feature import ApprovalAnswered, ApprovalAsked, Approvals
from agent_utilities.approvals.store import N_OF_CALLER
from tests.approvals.asked import MODES, Person, answered, called, files, until, waiting
from tests.every import every
from tests.parts import part

pytestmark = pytest.mark.anyio
YES = {"agent-utilities-approval": {"action": "accept", "content": {"answer": "yes"}}}


class TestWhatIsAsked:
    @every("mode", MODES)
    @every(
        ("approve", "asked"),
        [
            ("destructive", {"remove", "push", "boom"}),
            ("writes", {"remove", "push", "boom", "note"}),
            ("all", {"remove", "push", "boom", "note", "look"}),
            ("look", {"look"}),
            ("re*, note", {"remove", "note"}),
            ("DESTRUCTIVE", {"remove", "push", "boom"}),
        ],
    )
    async def test_it_is_what_names_globs_and_words_fit(self, approve: str, asked: set[str], mode: str):
        server, made = files(approve)
        arguments = {"remove": {"path": "/a"}, "note": {"text": "a"}, "look": {}, "push": {}, "boom": {}}
        person = Person("no")
        async with Client(server, mode=mode, elicitation_handler=person) as client:
            for name, given in arguments.items():
                if name != "push" or name in asked:
                    await called(client, name, **given)
        assert {text.split("\n\n")[1].split(" of ")[0] for text in person.read} == asked
        assert {line.split()[0] for line in made} == arguments.keys() - asked - {"push"}

    async def test_a_tag_is_asked_for_by_a_file(self, tmp_path: Path):
        file = tmp_path / "agent-utilities.toml"
        file.write_text('[approve]\ntags = ["no*"]\n')
        server, made = files("", MCP_CONFIG_FILE=str(file))
        async with Client(server, elicitation_handler=Person("no")) as client:
            await called(client, "note", text="a")
            await called(client, "remove", path="/a")
        assert made == ["remove /a"]

    async def test_a_profile_that_a_caller_names_adds_what_is_asked_and_takes_none_away(self, tmp_path: Path):
        file = tmp_path / "agent-utilities.toml"
        file.write_text('approve = "remove"\n[profiles.careful.approve]\ntools = ["note"]\n')
        server, made = files("", MCP_CONFIG_FILE=str(file))
        person = Person("no")
        meta = {"agent-utilities/selection": {"profile": "careful"}}
        async with Client(server, elicitation_handler=person) as client:
            await client.call_tool("note", {"text": "a"})
            for name, given in (("note", {"text": "b"}), ("remove", {"path": "/b"})):
                await client.call_tool(name, given, meta=meta, raise_on_error=False)
        assert (made, len(person.read)) == (["note a"], 2)

    async def test_a_profiles_rule_holds_beside_the_environments(self, tmp_path: Path):
        file = tmp_path / "agent-utilities.toml"
        file.write_text('profile = "careful"\n[profiles.careful]\napprove = "note"\n')
        server, made = files("remove", MCP_CONFIG_FILE=str(file))
        async with Client(server, elicitation_handler=Person("no")) as client:
            await called(client, "note", text="a")
            await called(client, "remove", path="/a")
        assert made == []

    @pytest.mark.outside
    def test_nothing_is_imported_where_nothing_is_asked(self):
        code = """
import asyncio, sys
from fastmcp import Client
from agent_utilities import create_mcp_server
async def main():
    server = create_mcp_server("x", environ={"MCP_GRAPH": "off"})
    server.tool(lambda: "a", name="a")
    async with Client(server) as client:
        await client.call_tool("a")
asyncio.run(main())
print([name for name in sys.modules if "approvals" in name])
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"

    @every(
        ("table", "said"),
        [
            ('[approve]\nhow = "mail"\n', "approve.how"),
            ('[approve]\ntool = ["a"]\n', "tools"),
            ("approve = 3\n", "approve"),
            ('[profiles.a.approve]\nby = "me"\n', "approve.profiles.a.by"),
        ],
    )
    async def test_what_can_not_be_read_ends_the_start_and_says_where(self, table: str, said: str, tmp_path: Path):
        file = tmp_path / "agent-utilities.toml"
        file.write_text(table)
        with pytest.raises(SettingsError, match=said):
            create_mcp_server("x", environ={"MCP_CONFIG_FILE": str(file), "MCP_GRAPH": "off"}).complete()

    async def test_a_word_that_is_misspelt_is_warned_of(self):
        server, _ = files("destructve")
        server.complete()
        assert any("destructive" in line and "WARNING" in line for line in part(server, Approvals).start_lines())

    @every("mode", MODES)
    async def test_of_a_denied_tool_there_is_no_question_and_it_is_answered_as_unknown(self, mode: str):
        server, _ = files("all", MCP_DISABLED_TOOLS="remove")
        person = Person("yes")
        async with Client(server, mode=mode, elicitation_handler=person) as client:
            denied, unknown = await called(client, "remove", path="/a"), await called(client, "never_was", path="/a")
        assert denied.replace("remove", "NAME") == unknown.replace("never_was", "NAME")
        assert (person.read, await waiting(server)) == ([], [])


class TestAnAnswer:
    @every("mode", MODES)
    @every(("answer", "is_made"), [("yes", True), ("no", False), (None, False)])
    async def test_is_a_yes_where_it_is_plainly_one(self, answer: Any, is_made: bool, mode: str):
        server, made = files()
        async with Client(server, mode=mode, elicitation_handler=Person(answer)) as client:
            text = await called(client, "remove", path="/a")
        assert made == (["remove /a"] if is_made else [])
        assert text == ("removed /a" if is_made else text)
        assert ("was not called" in text) == (not is_made)

    @every("mode", MODES)
    async def test_is_for_one_call(self, mode: str):
        server, made = files()
        person = Person("yes", "no")
        async with Client(server, mode=mode, elicitation_handler=person) as client:
            texts = [await called(client, "remove", path="/a") for _ in range(2)]
        assert (len(person.read), made, "was not called" in texts[1]) == (2, ["remove /a"], True)

    @every("mode", MODES)
    async def test_is_for_no_other_arguments(self, mode: str):
        server, made = files()
        async with Client(server, mode=mode, elicitation_handler=Person("yes", "no")) as client:
            await called(client, "remove", path="/a")
            await called(client, "remove", path="/a", force=True)
        assert made == ["remove /a"]

    @every("mode", MODES)
    async def test_no_is_not_asked_again_for_a_minute_and_then_it_is(self, mode: str):
        server, made = files()
        person, now = Person("no"), [1_000.0]
        server.complete()
        store = part(server, Approvals).store
        store._clock = store._kept._clock = lambda: now[0]
        async with Client(server, mode=mode, elicitation_handler=person) as client:
            for passed_s in (0, 59, 2):
                now[0] += passed_s
                await called(client, "remove", path="/a")
            await called(client, "remove", path="/b")
        assert (len(person.read), made) == (3, [])

    async def test_for_the_session_is_for_its_tool_until_it_ends(self):
        server, made = files("writes")
        person = Person("yes, for this session")
        async with Client(server, mode="legacy", elicitation_handler=person) as client:
            for text in "abc":
                await called(client, "note", text=text)
        assert (len(person.read), len(made)) == (1, 3)
        async with Client(server, mode="legacy", elicitation_handler=person) as client:
            await called(client, "note", text="d")
        assert len(person.read) == 2

    async def test_for_the_session_is_offered_for_no_destructive_tool_and_not_without_a_session(self):
        server, _ = files("writes")
        person = Person("yes")
        async with Client(server, mode="legacy", elicitation_handler=person) as client:
            await called(client, "remove", path="/a")
            await called(client, "remove", path="/b")
        person.answers = ["yes"]
        async with Client(server, mode="2026-07-28", elicitation_handler=person) as client:
            await called(client, "note", text="a")
            await called(client, "note", text="b")
        offered = [next(iter(form["properties"].values()))["enum"] for form in person.forms]
        assert offered == [["no", "yes"]] * 4

    async def test_that_comes_after_the_definition_changed_is_for_none(self):
        server, made = files()

        class Slow(Person):
            async def __call__(self, *args: Any) -> Any:
                server.local_provider.remove_tool("remove")

                @server.tool
                def remove(path: str, force: bool = False, everywhere: bool = True) -> str:
                    made.append("another")
                    return "another"

                return await super().__call__(*args)

        async with Client(server, mode="legacy", elicitation_handler=Slow("yes")) as client:
            text = await called(client, "remove", path="/a")
        assert (made, "changed" in text) == ([], True)

    async def test_a_client_that_never_answers_is_waited_for_no_longer_than_the_deadline(self):
        server, made = files()
        server.complete()
        part(server, Approvals).ask_s = 0.05
        asked = asyncio.Event()

        async def never(*_: Any) -> Any:
            asked.set()
            await asyncio.Event().wait()

        async with Client(server, mode="legacy", elicitation_handler=never) as client:
            text = await called(client, "remove", path="/a")
        assert (asked.is_set(), made, "there was no answer" in text) == (True, [], True)

    async def test_a_call_that_is_cancelled_asks_no_longer(self):
        server, made = files()
        asked, ended = asyncio.Event(), asyncio.Event()

        async def never(*_: Any) -> Any:
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async with Client(server, mode="legacy", elicitation_handler=never) as client:
            async with anyio.create_task_group() as group:
                group.start_soon(called, client, "remove")
                await asked.wait()
                group.cancel_scope.cancel()
            await until(lambda: not part(server, Approvals)._asking)
        assert made == []

    async def test_so_many_questions_of_one_caller_are_open_at_once(self):
        server, _ = files()
        n_asked, go = 0, asyncio.Event()

        async def slow(*_: Any) -> Any:
            nonlocal n_asked
            n_asked += 1
            await go.wait()
            return None

        texts: list[str] = []
        async with (
            Client(server, mode="legacy", elicitation_handler=slow) as client,
            anyio.create_task_group() as group,
        ):

            async def call(i: int) -> None:
                texts.append(await called(client, "remove", path=f"/{i}"))

            for i in range(N_OF_CALLER + 5):
                group.start_soon(call, i)
            await until(lambda: len(texts) == 5)
            go.set()
        assert n_asked == N_OF_CALLER
        assert all("wait for them" in text for text in texts[:5])


class TestTwoRounds:
    """Of 2026-07-28: what a caller sends back is theirs to change, to repeat, and to send elsewhere."""

    async def sent(self, client: Client[Any], name: str, arguments: dict[str, Any], **more: Any) -> Any:
        return await client.session.call_tool(name, arguments, allow_input_required=True, **more)

    async def test_an_answer_is_taken_once(self):
        server, made = files()
        async with Client(server, mode="2026-07-28", elicitation_handler=Person("yes")) as client:
            first = await self.sent(client, "remove", {"path": "/a"})
            more = {"request_state": first.request_state, "input_responses": YES}
            for _ in range(3):
                again = await self.sent(client, "remove", {"path": "/a"}, **more)
        assert (made, again.result_type) == (["remove /a"], "input_required")

    @every(
        "answer",
        [
            {"action": "accept", "content": {"answer": "YES"}},
            {"action": "accept", "content": {"answer": "yes, for this session"}},
            {"action": "accept", "content": {"other": "yes"}},
            {"action": "accept", "content": {}},
            {"action": "accept"},
            {"action": "decline", "content": {"answer": "yes"}},
            {"action": "cancel"},
        ],
    )
    async def test_what_is_no_yes_that_was_offered_is_a_no(self, answer: dict[str, Any]):
        server, made = files()
        async with Client(server, mode="2026-07-28", elicitation_handler=Person("yes")) as client:
            first = await self.sent(client, "remove", {"path": "/a"})
            responses = {"agent-utilities-approval": answer}
            more = {"request_state": first.request_state, "input_responses": responses}
            done = await self.sent(client, "remove", {"path": "/a"}, **more)
        assert ("the answer was no" in done.content[0].text, made) == (True, [])

    async def test_two_answers_at_once_make_one_call(self):
        server, made = files()
        async with Client(server, mode="2026-07-28", elicitation_handler=Person("yes")) as client:
            first = await self.sent(client, "remove", {"path": "/a"})
            more = {"request_state": first.request_state, "input_responses": YES}
            await asyncio.gather(*(self.sent(client, "remove", {"path": "/a"}, **more) for _ in range(5)))
        assert made == ["remove /a"]

    async def test_an_answer_without_its_state_or_with_that_of_other_arguments_is_none(self):
        server, made = files()
        async with Client(server, mode="2026-07-28", elicitation_handler=Person("yes")) as client:
            first = await self.sent(client, "remove", {"path": "/a"})
            again = await self.sent(client, "remove", {"path": "/a"}, input_responses=YES)
            assert again.result_type == "input_required"
            more = {"request_state": first.request_state, "input_responses": YES}
            with pytest.raises(MCPError, match="requestState"):
                await self.sent(client, "remove", {"path": "/etc"}, **more)
        assert made == []

    async def test_a_state_that_a_client_wrote_is_none(self):
        server, made = files()
        async with Client(server, mode="2026-07-28", elicitation_handler=Person("yes")) as client:
            for state in ('agent-utilities/approval ["go", "a", null]', "x"):
                with pytest.raises(MCPError, match="requestState"):
                    await self.sent(client, "remove", {"path": "/a"}, request_state=state)
        assert made == []

    async def test_a_tools_own_question_comes_after_ours_and_neither_is_asked_twice(self):
        server, made = files()
        person = Person({"answer": "yes"}, {"branch": "main"})
        async with Client(server, mode="2026-07-28", elicitation_handler=person) as client:
            text = await called(client, "push")
        assert (text, len(person.read)) == ("pushed main", 2)
        assert made == ["push origin None", "push origin branch of origin"]

    async def test_the_last_round_is_made_once_however_often_it_is_sent(self):
        server, made = files()
        async with Client(server, mode="2026-07-28", elicitation_handler=Person("yes")) as client:
            first = await self.sent(client, "push", {})
            second = await self.sent(client, "push", {}, request_state=first.request_state, input_responses=YES)
            assert list(second.input_requests) == ["branch"]
            branch = {"branch": {"action": "accept", "content": {"branch": "main"}}}
            more = {"request_state": second.request_state, "input_responses": branch}
            done = [await self.sent(client, "push", {}, **more) for _ in range(3)]
        assert [each.is_error for each in done] == [False, True, True]
        assert "call anew" in done[1].content[0].text
        assert len(made) == 2

    async def test_a_call_that_was_begun_without_a_rule_is_asked_for_from_its_beginning(self):
        server, made = files("remove")
        async with Client(server, mode="2026-07-28", elicitation_handler=Person("yes")) as client:
            first = await self.sent(client, "push", {})
            feature = part(server, Approvals)
            feature._table = feature._table.model_copy(update={"tools": ("push",)})
            again = await self.sent(client, "push", {}, request_state=first.request_state)
        assert (again.is_error, len(made)) == (True, 1)


class TestElsewhere:
    """Where no client can be asked, or none may be, it is asked on the page."""

    @every("mode", MODES)
    async def test_a_call_names_the_page_and_is_made_once_after_a_yes_there(self, mode: str):
        server, made = files()
        async with Client(server, mode=mode) as client:
            first = await called(client, "remove", path="/a")
            assert await answered(server)
            texts = [await called(client, "remove", path="/a") for _ in range(2)]
        assert "/page/approvals" in first
        assert "agent-utilities approve" in first
        assert (texts[0], made) == ("removed /a", ["remove /a"])
        assert "not called yet" in texts[1]

    @every("mode", MODES)
    @every("option", ['how = "page"', 'by = "other"'])
    async def test_a_client_that_could_answer_is_not_asked_where_it_may_not_answer(
        self, option: str, mode: str, tmp_path: Path
    ):
        file = tmp_path / "agent-utilities.toml"
        file.write_text(f'[approve]\ntools = ["remove"]\n{option}\n')
        server, made = files("", MCP_CONFIG_FILE=str(file))
        person = Person("yes")
        async with Client(server, mode=mode, elicitation_handler=person) as client:
            text = await called(client, "remove", path="/a")
        assert (person.read, made, "/page/approvals" in text) == ([], [], True)

    @every("mode", MODES)
    async def test_a_no_is_told_once_and_then_it_is_asked_anew_after_a_minute(self, mode: str):
        server, made = files()
        now = [1_000.0]
        server.complete()
        store = part(server, Approvals).store
        store._clock = store._kept._clock = lambda: now[0]
        async with Client(server, mode=mode) as client:
            texts = [await called(client, "remove", path="/a")]
            await answered(server, "no")
            for passed_s in (0, 30, 31):
                now[0] += passed_s
                texts.append(await called(client, "remove", path="/a"))
        assert ["the answer was no" in text for text in texts] == [False, True, True, False]
        assert (made, len(await waiting(server))) == ([], 1)

    async def test_a_no_is_told_even_where_its_caller_comes_late(self):
        server, _ = files()
        now = [1_000.0]
        server.complete()
        store = part(server, Approvals).store
        store._clock = store._kept._clock = lambda: now[0]
        async with Client(server) as client:
            await called(client, "remove", path="/a")
            await answered(server, "no")
            now[0] += 200
            texts = [await called(client, "remove", path="/a") for _ in range(2)]
        assert ["the answer was no" in text for text in texts] == [True, False]

    async def test_a_yes_is_over_after_ten_minutes(self):
        server, made = files()
        now = [1_000.0]
        server.complete()
        store = part(server, Approvals).store
        store._clock = store._kept._clock = lambda: now[0]
        async with Client(server) as client:
            await called(client, "remove", path="/a")
            await answered(server)
            now[0] += 601
            await called(client, "remove", path="/a")
        assert made == []

    async def test_a_yes_is_of_no_use_once_the_definition_changed(self):
        server, made = files()
        async with Client(server) as client:
            await called(client, "remove", path="/a")
            await answered(server)
            server.local_provider.remove_tool("remove")

            @server.tool
            def remove(path: str, everywhere: bool = True) -> str:
                made.append("another")
                return "another"

            text = await called(client, "remove", path="/a")
        assert (made, "not called yet" in text) == ([], True)

    async def test_a_yes_is_of_no_use_to_another_session(self):
        server, made = files()
        async with Client(server, mode="legacy") as one, Client(server, mode="legacy") as other:
            await called(one, "remove", path="/a")
            await answered(server)
            text = await called(other, "remove", path="/a")
            assert ("not called yet" in text, made) == (True, [])
            await called(one, "remove", path="/a")
        assert made == ["remove /a"]

    async def test_the_same_call_waits_as_one_question(self):
        server, _ = files()
        async with Client(server) as client:
            texts = {await called(client, "remove", path="/a") for _ in range(5)}
        assert (len(texts), len(await waiting(server))) == (1, 1)

    async def test_of_many_questions_the_oldest_is_given_up_and_its_caller_told_once(self):
        server, made = files()
        async with Client(server) as client:
            for i in range(N_OF_CALLER + 1):
                await called(client, "remove", path=f"/{i}")
            assert len(await waiting(server)) == N_OF_CALLER
            texts = [await called(client, "remove", path="/0") for _ in range(2)]
        assert ["given up" in text for text in texts] == [True, False]
        assert made == []

    async def test_without_the_page_it_is_refused(self):
        server, made = files(MCP_PAGE="false")
        async with Client(server) as client:
            text = await called(client, "remove", path="/a")
        assert ("nobody can be asked" in text, made, await waiting(server)) == (True, [], [])

    async def test_over_stdio_it_is_refused_since_there_is_no_page(self):
        server, made = files()
        server.complete()
        server.transport = "stdio"
        async with Client(server) as client:
            text = await called(client, "remove", path="/a")
        assert ("nobody can be asked" in text, made, await waiting(server)) == (True, [], [])


class TestBesideOthers:
    @every("mode", MODES)
    async def test_what_is_asked_for_costs_no_quota(self, mode: str, tmp_path: Path):
        file = tmp_path / "agent-utilities.toml"
        file.write_text("[quota]\ncalls_per_minute = 2\n")
        server, _ = files(MCP_CONFIG_FILE=str(file))
        async with Client(server, mode=mode) as client:
            for _ in range(5):
                await called(client, "remove", path="/a")
            await answered(server)
            assert await called(client, "remove", path="/a") == "removed /a"
            assert await called(client, "look") == "seen"
            assert "quota" in await called(client, "look")

    @every("mode", MODES)
    async def test_a_call_through_call_tool_is_asked_for_as_the_tool_that_it_names(self, mode: str):
        server, made = files(MCP_TOOL_SEARCH="on")
        person = Person("no")
        async with Client(server, mode=mode, elicitation_handler=person) as client:
            await called(client, "call_tool", name="remove", arguments={"path": "/a"})
            person.answers = ["yes"]
            await called(client, "call_tool", name="remove", arguments={"path": "/b"})
        assert (["remove of files" in text for text in person.read], made) == ([True, True], ["remove /b"])

    @every("mode", MODES)
    async def test_question_and_answer_are_events_with_who_and_what(self, mode: str):
        server, _ = files()
        heard: list[Any] = []
        server.complete()
        server.features.observe(heard.append)
        async with Client(server, mode=mode, elicitation_handler=Person("yes")) as client:
            await called(client, "remove", path="/secret-place")
        lines = [each.recorded() for each in heard if isinstance(each, ApprovalAsked | ApprovalAnswered)]
        assert [kind for kind, _ in lines] == ["question", "answer"]
        assert [said.get("answer") for _, said in lines] == [None, "yes"]
        assert all("secret-place" not in json.dumps(said) for _, said in lines)

    @every("mode", MODES)
    async def test_a_failed_call_used_its_yes(self, mode: str):
        server, made = files()
        person = Person("yes")
        async with Client(server, mode=mode, elicitation_handler=person) as client:
            await called(client, "boom")
            await called(client, "boom")
        assert (made, len(person.read)) == (["boom"] * 2, 2)

"""Calls that a program makes: all that wait are asked at once, and each yes is for one of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from agent_utilities import AgentServer
from agent_utilities.approvals.feature import Approvals
from tests.approvals.asked import MODES, Batch, Person, called, files, waiting
from tests.every import every
from tests.parts import part

pytestmark = pytest.mark.anyio

CALLS: list[tuple[str, dict[str, Any]]] = [("remove", {"path": "/a"}), ("look", {}), ("note", {"text": "b"})]


def serving(approve: str = "look2", **environ: str) -> tuple[AgentServer, list[str], Batch]:
    """Return a server that asks for nothing of ours by its settings, what was called, and what makes calls."""
    batch = Batch()
    server, made = files(approve, features=[batch], **environ)
    return server, made, batch


class TestAsked:
    @every("mode", MODES)
    async def test_what_writes_is_asked_for_where_nothing_is_configured_and_all_of_it_at_once(self, mode: str):
        server, made, _ = serving()
        person = Person("yes")
        async with Client(server, mode=mode, elicitation_handler=person) as client:
            assert await called(client, "remove", path="/direct") == "removed /direct"
            text = await called(client, "batch", calls=CALLS)
        assert (text, len(person.read)) == ("removed /a | seen | noted", 1)
        assert [each for each in made if not each.startswith("look")] == ["remove /direct", "remove /a", "note b"]
        assert ("1. remove of files" in person.read[0], "2. note of files" in person.read[0]) == (True, True)

    @every("mode", MODES)
    async def test_each_of_a_few_is_answered_by_itself_and_a_no_is_told(self, mode: str):
        server, made, _ = serving()
        person = Person({"answer1": "no", "answer2": "yes"})
        async with Client(server, mode=mode, elicitation_handler=person) as client:
            text = await called(client, "batch", calls=CALLS)
        assert "the answer was no" in text
        assert text.endswith("noted")
        assert [each for each in made if not each.startswith("look")] == ["note b"]

    @every("mode", MODES)
    @every(("answer", "n_made"), [("yes", 8), ("no", 0)])
    async def test_many_are_answered_by_one_field(self, answer: str, n_made: int, mode: str):
        server, made, _ = serving()
        person = Person(answer)
        async with Client(server, mode=mode, elicitation_handler=person) as client:
            await called(client, "batch", calls=[("remove", {"path": f"/{i}"}) for i in range(8)])
        assert (len(made), [list(form["properties"]) for form in person.forms]) == (n_made, [["answer"]])

    async def test_a_call_that_it_makes_twice_is_asked_for_twice(self):
        server, made, _ = serving()
        person = Person("yes")
        async with Client(server, mode="legacy", elicitation_handler=person) as client:
            await called(client, "batch", calls=[("remove", {"path": "/a"})] * 2)
        assert (made, len(person.read)) == (["remove /a"] * 2, 2)

    @every("mode", MODES)
    async def test_without_a_client_that_can_be_asked_it_waits_on_the_page_and_says_how_to_go_on(self, mode: str):
        server, _, _ = serving()
        async with Client(server, mode=mode) as client:
            text = await called(client, "batch", calls=CALLS)
            assert ("/page/approvals" in text, "resume p_1" in text) == (True, True)
            asked = await waiting(server)
            assert sorted(each.tool for each in asked) == ["note", "remove"]
            for each in asked:
                await part(server, Approvals).answer(each.id, "yes", "page", ("", ""))
            text = await called(client, "batch", calls=CALLS)
        assert text == "removed /a | seen | noted"

    @every("mode", MODES)
    async def test_an_operators_rule_that_wants_the_page_holds_in_programs_too(self, mode: str, tmp_path: Any):
        file = tmp_path / "agent-utilities.toml"
        file.write_text('[approve]\nhow = "page"\n')
        server, _, _ = serving("", MCP_CONFIG_FILE=str(file))
        person = Person("yes")
        async with Client(server, mode=mode, elicitation_handler=person) as client:
            text = await called(client, "batch", calls=CALLS)
        assert (person.read, "/page/approvals" in text) == ([], True)

    async def test_a_question_that_the_client_is_asked_is_not_on_the_page(self):
        server, _, batch = serving()
        async with Client(server, mode="2026-07-28", elicitation_handler=Person("yes")) as client:
            await client.session.call_tool("batch", {"calls": CALLS}, allow_input_required=True)
        assert batch.asked[0]["resultType"] == "input_required"
        assert await waiting(server) == []

    async def test_a_session_that_is_agreed_to_is_so_in_programs(self):
        server, made, _ = serving("writes")
        person = Person("yes, for this session", "no")
        async with Client(server, mode="legacy", elicitation_handler=person) as client:
            await called(client, "note", text="a")
            text = await called(client, "batch", calls=[("note", {"text": "b"}), ("note", {"text": "c"})])
        assert (text, len(made), len(person.read)) == ("noted | noted", 3, 1)

    async def test_a_denied_tool_is_not_asked_for(self):
        server, _, _ = serving(MCP_DISABLED_TOOLS="remove")
        person = Person("yes")
        async with Client(server, elicitation_handler=person) as client:
            await called(client, "batch", calls=[("remove", {"path": "/a"})])
        assert person.read == []

    async def test_a_client_that_does_not_answer_in_time_is_a_no(self):
        server, made, _ = serving()
        server.complete()
        part(server, Approvals).ask_s = 0.05

        async def never(*_: Any) -> Any:
            await asyncio.Event().wait()

        async with Client(server, mode="legacy", elicitation_handler=never) as client:
            text = await called(client, "batch", calls=[("remove", {"path": "/a"})])
        assert ("was not called" in text, made) == (True, [])


@every(("programs", "asks"), [("writes", True), ("destructive", False), ("none", False), ("note", True)])
async def test_an_operator_says_what_of_programs_is_asked_for(programs: str, asks: bool, tmp_path: Path) -> None:
    path = tmp_path / "agent-utilities.toml"
    path.write_text(f'programs = "all"\n[approve]\ntools = ["remove"]\nprograms = "{programs}"\n')
    batch = Batch()
    server, made = files("", features=[batch], MCP_CONFIG_FILE=str(path))
    async with Client(server) as client:
        said = await called(client, "batch", calls=[["note", {"text": "a"}]])
    assert ("not called yet" in said or "was not called" in said) is asks
    assert made == ([] if asks else ["note a"])

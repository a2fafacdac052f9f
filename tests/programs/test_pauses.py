"""Programs that wait for a person's yes: what is asked, and how they go on, in this process or another."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from agent_utilities.approvals.feature import Approvals
from tests.approvals.asked import Person, waiting
from tests.every import every
from tests.parts import part
from tests.programs.servers import MODES, Ran, Tracker, ran

pytest.importorskip("pydantic_monty")
pytestmark = [pytest.mark.anyio, pytest.mark.outside]
WRITES = """
import asyncio
print("begun")
n, first, second, m = await asyncio.gather(
    count(n=1), write(path="a", text="one"), write(path="b", text="two"), count(n=2)
)
await count(n=3)
[n, first, second, m]
"""
CALLS = [("count", 1), ("count", 2), ("write", "a", "one"), ("write", "b", "two"), ("count", 3)]


def handle_in(ended: Ran) -> str:
    found = re.search(r'resume="(r_\w+)"', ended.text)
    assert found is not None, ended.text
    return found[1]


async def said_yes(server: Any, answer: str = "yes") -> None:
    for question in await waiting(server):
        await part(server, Approvals).answer(question.id, answer, "page", ("", ""))


@every("mode", MODES)
async def test_all_writes_are_asked_for_at_once_and_it_goes_on_where_it_stood(mode: str):
    tracker, person = Tracker(), Person("yes")
    async with tracker.client(mode, person) as client:
        ended = await ran(client, WRITES)
    assert (ended.is_error, ended.texts) == (False, ["begun\n", '[1,"wrote 3 characters","wrote 3 characters",2]'])
    assert sorted(map(str, tracker.calls[:4])) == sorted(map(str, CALLS[:4]))
    assert tracker.calls[4] == CALLS[4]
    assert len(person.read) == 1
    assert "one" in person.read[0]
    assert "two" in person.read[0]


@every("mode", MODES)
async def test_a_no_is_an_error_in_the_program_which_may_go_on(mode: str):
    tracker = Tracker()
    async with tracker.client(mode, "no") as client:
        code = "try:\n    await write(path='a', text='b')\nexcept RuntimeError as error:\n    said = str(error)\nsaid"
        ended = await ran(client, code)
    assert not ended.is_error
    assert "write" in ended.text
    assert tracker.calls == []


@every("mode", MODES)
async def test_who_can_not_be_asked_is_told_where_it_waits_and_goes_on_by_its_handle(mode: str):
    tracker = Tracker()
    async with tracker.client(mode, None) as client:
        stopped = await ran(client, WRITES)
        assert stopped.is_error
        assert "/page/approvals" in stopped.text
        still = await ran(client, "", resume=handle_in(stopped))
        assert handle_in(still) == handle_in(stopped)
        await said_yes(tracker.server)
        ended = await ran(client, "", resume=handle_in(stopped))
        assert ended.texts == ["begun\n", '[1,"wrote 3 characters","wrote 3 characters",2]']
        again = await ran(client, "", resume=handle_in(stopped))
    assert again.is_error
    assert "no program waits" in again.text
    assert len(tracker.calls) == 5


async def test_of_two_that_go_on_with_it_at_once_one_does():
    tracker = Tracker()
    async with tracker.client(answer=None) as client:
        handle = handle_in(await ran(client, WRITES))
        await said_yes(tracker.server)
        both = await asyncio.gather(ran(client, "", resume=handle), ran(client, "", resume=handle))
    assert sorted(each.is_error for each in both) == [False, True]
    assert len(tracker.calls) == 5


async def test_nobody_else_goes_on_with_it():
    tracker = Tracker()
    async with tracker.client(answer=None) as client, tracker.client(answer=None) as other:
        handle = handle_in(await ran(client, WRITES))
        await said_yes(tracker.server)
        unknown = "r_" + "a" * 26
        theirs, never = [await ran(other, "", resume=each) for each in (handle, unknown)]
    assert theirs.text.replace(handle, "X") == never.text.replace(unknown, "X")
    assert len(tracker.calls) == 2


async def test_a_tool_that_is_denied_meanwhile_is_not_called():
    tracker = Tracker()
    async with tracker.client(answer=None) as client:
        handle = handle_in(await ran(client, "await write(path='a', text='b')"))
        await said_yes(tracker.server)
        tracker.server.disable(names={"write"})
        ended = await ran(client, "", resume=handle)
    assert ended.is_error
    assert tracker.calls == []

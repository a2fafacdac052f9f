"""What an upstream tells, asks, lists late and answers with errors reaches whom it is for, as it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import mcp_types
import pytest
from mcp import MCPError

from tests.every import every
from tests.gateway.upstreams.supervised import QUICK, Caller, Running, running, script

pytestmark = [pytest.mark.outside, pytest.mark.anyio, pytest.mark.timeout(120)]

POLICY = replace(QUICK, probe_s=60)
NOTHING = mcp_types.ClientCapabilities()
ROOTS = mcp_types.ClientCapabilities(roots=mcp_types.RootsCapability())


def telling(*words: str, **settings: Any) -> Any:
    return script("up", "telling_server.py", *words, **settings)


class Offering(Caller):
    """A caller whose client offers what is said, in the middle of a call."""

    def __init__(self, session: str, offered: mcp_types.ClientCapabilities) -> None:
        super().__init__(session, asked_at_once=None if offered == NOTHING else offered)
        self._offered = offered

    @property
    def capabilities(self) -> mcp_types.ClientCapabilities:
        return self._offered


async def told(gateway: Running, relay: Any = None, **arguments: Any) -> dict[str, Any]:
    """Return what the upstream was told by the time that it answers a call."""
    answer: dict[str, Any] = json.loads(await gateway.call("up", "tell", relay, **arguments))
    return answer


class TestBeforeAResult:
    async def test_all_that_was_logged_is_told_in_order(self):
        async with running(telling(), policy=POLICY) as gateway:
            one = Caller("one")
            await told(gateway, one, logs=2_000)
            assert one.logged == list(range(2_000))

    async def test_so_is_all_progress(self):
        async with running(telling(), policy=POLICY) as gateway:
            one = Caller("one")
            await told(gateway, one, progress=2_000)
            assert one.progressed == [(n, 7, None) for n in range(2_000)]

    async def test_so_it_is_before_an_error(self):
        async with running(telling(), policy=POLICY) as gateway:
            one = Caller("one")
            with pytest.raises(MCPError):
                await told(gateway, one, logs=3, error={"code": 1, "message": "no"})
            assert one.logged == [0, 1, 2]

    async def test_a_message_is_told_as_it_came(self):
        class Kept(Caller):
            params: Mapping[str, Any] = {}

            async def log(self, params: Mapping[str, Any]) -> None:
                self.params = params

        async with running(telling(), policy=POLICY) as gateway:
            one = Kept("one")
            await told(gateway, one, logs=1)
            assert one.params == {"level": "info", "data": 0, "extra": {"kept": None}}


class TestErrorsOfItsOwn:
    @every("message", ["Connection closed", "SSE stream ended without a response", "session not found"])
    async def test_are_told_as_they_are_and_end_nothing(self, message):
        async with running(telling(), policy=POLICY) as gateway:
            await told(gateway)
            with pytest.raises(MCPError) as raised:
                await told(gateway, error={"code": -32000, "message": message, "data": {"db": "main"}})
            error = raised.value.error
            assert (error.code, error.message, error.data) == (-32000, message, {"db": "main"})
            starts = gateway["up"].counts.n_starts
            await told(gateway)
            assert gateway["up"].counts.n_starts == starts

    @every(
        ("error", "message"),
        [
            ({"code": "E_DB", "message": "database is locked"}, "database is locked"),
            ({"message": "no code"}, "no code"),
            ({"code": 5, "message": {"a": 1}}, '{"a":1}'),
            ("a text alone", "a text alone"),
        ],
    )
    async def test_that_are_not_quite_errors_are_told_by_what_they_say(self, error, message):
        async with running(telling(), policy=POLICY) as gateway:
            with pytest.raises(MCPError) as raised:
                await told(gateway, error=error)
            assert raised.value.error.message == message

    async def test_as_the_answer_to_a_list_cost_none_of_the_others(self):
        async with running(telling("prompts"), policy=POLICY) as gateway:
            await gateway.seen("up")
            snapshot = gateway["up"].snapshot
            assert [tool["name"] for tool in snapshot.tools] == ["tell"]
            assert "Connection closed" in snapshot.problems[0]


class TestWhatCallersOffer:
    async def test_is_told_in_a_handshake_and_no_more(self):
        async with running(telling(), policy=POLICY) as gateway:
            await gateway.at_rest("up")
            callers = (None, Offering("a", NOTHING), Offering("b", ROOTS), Offering("c", ROOTS))
            assert [(await told(gateway, caller))["caps"] for caller in callers] == [
                {},
                {},
                {"roots": {}},
                {"roots": {}},
            ]
            assert gateway["up"].counts.n_starts == 3  # one for the list, and one for each kind of caller

    async def test_is_told_on_a_connection_of_a_sessions_own(self):
        async with running(telling(isolate=True), policy=POLICY) as gateway:
            callers = (Offering("a", NOTHING), Offering("b", ROOTS))
            assert [(await told(gateway, caller))["caps"] for caller in callers] == [{}, {"roots": {}}]


class TestOutsideOfCalls:
    async def test_a_question_on_a_connection_of_a_sessions_own_goes_to_that_session(self):
        async with running(telling("asks", isolate=True), policy=POLICY) as gateway:
            one = Offering("one", ROOTS)
            await told(gateway, one)
            await gateway.until(lambda: one.n_asked == 1)
            while (answer := (await told(gateway, one))["outside"]) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert answer["roots"][0]["uri"] == "file:///home"

    async def test_a_question_on_a_shared_one_is_refused(self):
        async with running(telling("asks"), policy=POLICY) as gateway:
            while (answer := (await told(gateway))["outside"]) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert "no call is under way" in answer["message"]


class TestLogLevels:
    async def test_an_upstream_sends_what_the_most_verbose_present_caller_wants(self):
        async with running(telling(), policy=POLICY) as gateway:
            quiet, verbose, usual = Caller("quiet"), Caller("verbose"), Caller("usual")
            quiet.log_level, verbose.log_level = "error", "debug"
            assert (await told(gateway, usual))["level"] is None
            assert (await told(gateway, quiet))["level"] == "error"
            waiting = asyncio.create_task(told(gateway, verbose, asks=0))
            await gateway.until(lambda: verbose.n_asked)
            verbose_asked = (await waiting, await told(gateway, verbose))[1]
            assert verbose_asked["level"] == "debug"
            assert (await told(gateway, usual))["level"] == "info"


class TestAnEmptyFirstList:
    async def test_is_taken_again_once_it_is_told_to_have_changed_on_the_same_connection(self):
        async with running(telling("late=0.3"), policy=POLICY) as gateway:
            await gateway.seen("up")
            await gateway.until(lambda: gateway["up"].snapshot.tools)
            assert gateway["up"].counts.n_starts == 1
            await gateway.at_rest("up")

    async def test_of_one_that_never_lists_anything_is_not_taken_for_ever(self):
        async with running(telling("bare"), policy=replace(POLICY, empty_s=0.2)) as gateway:
            await gateway.at_rest("up")
            assert gateway["up"].counts.n_starts == 1
            await gateway.until(lambda: gateway["up"].counts.n_starts == 2)
            await gateway.at_rest("up")
            assert gateway["up"].snapshot.taken_at_s > 0

    async def test_holds_up_nobody_else(self):
        async with running(
            telling("bare"), script("other", "telling_server.py"), policy=replace(POLICY, slot_s=60), n_starts=1
        ) as gateway:
            await gateway.seen("up", "other")

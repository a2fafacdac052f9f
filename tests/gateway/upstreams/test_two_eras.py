"""A server of both eras asks whoever can be asked in the middle of a call, on a connection of the handshake's era."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import mcp_types
import pytest
from pydantic import SecretStr

from agent_utilities.gateway.upstreams.errors import UpstreamError
from agent_utilities.gateway.upstreams.snapshot_store import SnapshotStore
from tests.gateway.upstreams.supervised import QUICK, SLOW, Caller, Running, is_alive, running, script

pytestmark = [pytest.mark.outside, pytest.mark.anyio, pytest.mark.timeout(120)]

POLICY = replace(QUICK, probe_s=60)
"""No server here is silent when it is probed, however slowly it starts."""
ALL = mcp_types.ClientCapabilities(
    sampling=mcp_types.SamplingCapability(),
    elicitation=mcp_types.ElicitationCapability(form=mcp_types.FormElicitationCapability()),
    roots=mcp_types.RootsCapability(),
)
ROOTS = mcp_types.ClientCapabilities(roots=mcp_types.RootsCapability())


def both(*faults: str, **settings: Any) -> Any:
    return script("both", "two_era_server.py", *faults, **settings)


def asked(session: str, offered: mcp_types.ClientCapabilities = ALL) -> Caller:
    """Return a caller who can be asked in the middle of a call."""
    return Caller(session, asked_at_once=offered)


async def where(gateway: Running, relay: Caller | None = None) -> dict[str, Any]:
    """Return where a call is served: in which era, by which process, and what that was told of the client."""
    told: dict[str, Any] = json.loads(await gateway.call("both", "where", relay))
    return told


async def test_it_asks_whoever_can_be_asked_and_serves_all_others_in_the_newer_era():
    async with running(both(), policy=POLICY) as gateway:
        await gateway.seen("both")
        one = asked("one")
        assert "Anna" in await gateway.call("both", "ask", one, message="who?")
        assert "a model" in await gateway.call("both", "sample", one, prompt="hello")
        assert "file:///home" in await gateway.call("both", "roots", one)
        assert "unavailable" in await gateway.call("both", "ask", Caller("other"), message="who?")
        assert [(await where(gateway, relay))["era"] for relay in (one, Caller("other"), None)] == [
            "handshake",
            "modern",
            "modern",
        ]
        assert gateway["both"].snapshot.protocol_version >= "2026"


class TestProcesses:
    async def test_there_are_two_while_both_kinds_call(self):
        async with running(both(), policy=POLICY) as gateway:
            await gateway.seen("both")
            served = {(await where(gateway, relay))["pid"] for relay in (asked("one"), asked("two"), None, Caller("x"))}
            assert len(served) == 2
            assert gateway["both"].state.name == "ready"

    async def test_the_second_is_ended_when_nobody_has_used_it_for_long(self):
        async with running(both(idle_s=0.05), policy=POLICY) as gateway:
            await gateway.at_rest("both")
            pid = (await where(gateway, asked("one")))["pid"]
            await gateway.at_rest("both")
            assert not is_alive(pid)
            assert (await where(gateway, asked("one")))["pid"] != pid

    async def test_there_is_one_while_only_those_call_who_can_be_asked(self):
        async with running(both(), policy=POLICY) as gateway:
            await gateway.at_rest("both")
            assert (await where(gateway, asked("one")))["era"] == "handshake"
            assert gateway["both"].counts.n_starts == 2  # one was for the list
            assert (await where(gateway, asked("one")))["era"] == "handshake"
            assert gateway["both"].counts.n_starts == 2

    async def test_an_end_ends_both(self):
        async with running(both(), policy=POLICY) as gateway:
            await gateway.seen("both")
            served = [(await where(gateway, relay))["pid"] for relay in (asked("one"), None)]
        assert not any(map(is_alive, served))

    async def test_one_that_dies_in_a_call_harms_no_call_on_the_other(self):
        async with running(both(), policy=POLICY) as gateway:
            await gateway.seen("both")
            before = await where(gateway)
            slow = asyncio.create_task(gateway.call("both", "sleep", seconds=0.5))
            with pytest.raises(UpstreamError, match="died"):
                await gateway.call("both", "die", asked("one"), status=3)
            assert await slow == "slept"
            assert await where(gateway) == before
            await gateway.until(lambda: gateway["both"].counts.n_failures == 1)
            assert gateway["both"].state.name == "ready"
            while (await where(gateway, asked("one")))["era"] != "handshake":  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def test_with_isolate_a_session_has_one_of_its_era(self):
        async with running(both(isolate=True), policy=POLICY) as gateway:
            await gateway.seen("both")
            served = [await where(gateway, relay) for relay in (asked("one"), asked("two"), Caller("three"))]
            assert [each["era"] for each in served] == ["handshake", "handshake", "modern"]
            assert len({each["pid"] for each in served}) == 3
            assert (await where(gateway, asked("one")))["pid"] == served[0]["pid"]


class TestOffers:
    async def test_a_handshake_tells_what_the_callers_client_offers_and_no_more(self):
        async with running(both(), policy=POLICY) as gateway:
            await gateway.seen("both")
            assert (await where(gateway, asked("one")))["offered"] == {
                "sampling": {},
                "elicitation": {"form": {}},
                "roots": {},
            }
            assert (await where(gateway, asked("two", ROOTS)))["offered"] == {"roots": {}}

    async def test_whom_there_is_no_room_to_ask_is_served_as_others_are(self):
        async with running(both(), policy=replace(POLICY, n_offers=1)) as gateway:
            await gateway.seen("both")
            slow = asyncio.create_task(gateway.call("both", "sleep", asked("one"), seconds=30))
            await gateway.until(lambda: gateway["both"].counts.n_starts == 2)
            assert (await where(gateway, asked("two", ROOTS)))["era"] == "modern"
            slow.cancel()
            await asyncio.wait([slow])
            assert (await where(gateway, asked("two", ROOTS)))["era"] == "handshake"


async def test_no_question_reaches_another_session():
    async with running(both(), policy=POLICY) as gateway:
        await gateway.seen("both")
        one, other = asked("one"), asked("other")
        await where(gateway, one)
        slow = asyncio.create_task(gateway.call("both", "sleep", other, seconds=30))
        await gateway.until(lambda: gateway["both"].counts.n_calls == 2)
        assert "refused" in await gateway.call("both", "ask", one, message="who?")
        slow.cancel()
        await asyncio.wait([slow])
        assert "unavailable" in await gateway.call("both", "ask", Caller("third"), message="who?")
        assert one.n_asked == other.n_asked == 0


class TestWhereThereIsNoSecond:
    async def test_one_that_refuses_a_handshake_is_asked_for_it_once_and_stays_modern(self, tmp_path):
        pids = tmp_path / "pids"
        async with running(both("refuses-handshake", f"pids={pids}"), policy=POLICY) as gateway:
            await gateway.seen("both")
            served = [await where(gateway, asked("one"))]
            n_starts = gateway["both"].counts.n_starts
            served += [await where(gateway, asked(session)) for session in ("two", "one")]
            assert {each["era"] for each in served} == {"modern"}
            assert len({each["pid"] for each in served}) == 1
            await gateway.until(lambda: sum(is_alive(int(pid)) for pid in pids.read_text().split()) == 1)
            assert gateway["both"].counts.n_starts == n_starts
            assert gateway["both"].counts.n_failures == 0

    async def test_one_that_runs_but_once_serves_all_on_the_first_and_that_is_told_once(self, tmp_path, caplog):
        async with running(both(f"alone={tmp_path / 'lock'}"), policy=POLICY) as gateway:
            await gateway.seen("both")
            first = await where(gateway)
            for session in ("one", "two", "one"):
                assert await where(gateway, asked(session)) == first
            assert gateway["both"].state.name == "ready"
        told = [record for record in caplog.records if "can't ask callers" in record.getMessage()]
        assert [record.levelname for record in told if record.levelname != "DEBUG"] == ["WARNING"]
        assert "another of me runs" in told[0].getMessage()

    async def test_one_that_is_down_is_tried_once_in_either_era_until_the_next_try_is_due(self, tmp_path):
        store, well = SnapshotStore(tmp_path), both(env={"PYTHONHOME": ""})
        async with running(well, store=store, policy=POLICY) as gateway:
            await gateway.seen("both")
        failing = well.model_copy(update={"env": {"PYTHONHOME": SecretStr("/nowhere")}})
        async with running(failing, store=store, policy=replace(SLOW, probe_s=60)) as gateway:
            for n_starts in (2, 2):
                with pytest.raises(UpstreamError, match="did not start"):
                    await where(gateway, asked("one"))
                assert gateway["both"].counts.n_starts == n_starts


async def test_a_change_that_is_told_on_the_second_is_looked_for_on_the_first():
    async with running(both(), policy=POLICY) as gateway:
        await gateway.at_rest("both")
        taken_at_s = gateway["both"].snapshot.taken_at_s
        await gateway.call("both", "change", asked("one"), name="another")
        await gateway.until(lambda: gateway["both"].snapshot.taken_at_s > taken_at_s)

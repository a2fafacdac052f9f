"""What one upstream does wrong: told by its name, mended without a restart, and felt by no other upstream."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from agent_utilities.gateway.upstreams.config import UpstreamConfig
from agent_utilities.gateway.upstreams.connections.session import UpstreamSession
from agent_utilities.gateway.upstreams.errors import UpstreamError
from agent_utilities.gateway.upstreams.supervision.backoff import Policy
from tests.gateway.upstreams.snapshots import in_memory
from tests.gateway.upstreams.supervised import QUICK, SLOW, Running, faulty, is_alive, running

pytestmark = [pytest.mark.outside, pytest.mark.anyio, pytest.mark.timeout(120)]


@asynccontextmanager
async def beside_a_good_one(
    config: UpstreamConfig, policy: Policy = QUICK, **options: object
) -> AsyncIterator[Running]:
    """Run an upstream beside one that all is well with, and find that one untouched in the end."""
    async with running(config, faulty("good"), policy=policy, **options) as gateway:
        pid = await gateway.pid("good")
        yield gateway
        assert await gateway.call("good", "echo", text="still here") == "still here"
        assert await gateway.pid("good") == pid
        assert gateway["good"].counts.n_failures == 0


async def error_of(gateway: Running, tool: str = "echo", **arguments: object) -> UpstreamError:
    """Return the error that a call of the upstream that misbehaves ends in."""
    with pytest.raises(UpstreamError) as raised:
        await gateway.call("bad", tool, **(arguments or {"text": "hello"}))
    assert raised.value.upstream == "bad"
    assert str(raised.value).startswith("upstream 'bad' ")
    return raised.value


class TestNotStarting:
    async def test_not_found(self):
        async with beside_a_good_one(faulty("bad", command="no-such-command-here")) as gateway:
            error = await error_of(gateway)
        assert error.cause == "not found"
        assert "no-such-command-here" in str(error)

    async def test_exits_at_once(self):
        async with beside_a_good_one(faulty("bad", "exits=3", "stderr=out of luck"), SLOW) as gateway:
            await gateway.until(lambda: gateway["bad"].state.name == "failing")
            error = await error_of(gateway)
            state = gateway["bad"].state
        assert error.cause == "did not start"
        assert "status 3" in str(error)
        assert "cannot go on" in str(error)
        assert "tried again in" in str(error)
        assert (state.name, state.cause, state.n_failures) == ("failing", "did not start", 1)

    async def test_it_is_answered_at_once_while_the_next_try_is_not_due(self):
        async with running(faulty("bad", "exits=3"), policy=SLOW) as gateway:
            await gateway.until(lambda: gateway["bad"].state.name == "failing")
            n_starts = gateway["bad"].counts.n_starts
            for _ in range(50):
                await error_of(gateway)
            assert gateway["bad"].counts.n_starts == n_starts

    async def test_hangs_at_start_and_its_process_is_gone_before_the_next_try(self, tmp_path):
        pids = tmp_path / "pids"
        async with beside_a_good_one(faulty("bad", "hang-at-start", f"pids={pids}", start_timeout_s=0.3)) as gateway:
            error = await error_of(gateway)
            await gateway.until(lambda: gateway["bad"].counts.n_failures >= 3)
            started = [int(pid) for pid in pids.read_text().split()]
            assert sum(map(is_alive, started)) <= 1
        assert (error.cause, "not answered within 0.3 s" in str(error)) == ("did not start", True)
        assert not any(map(is_alive, started))

    async def test_fails_ten_times_and_then_works(self, tmp_path):
        async with beside_a_good_one(faulty("bad", f"fails=10:{tmp_path / 'n'}")) as gateway:
            await gateway.seen("bad")
            assert "bad" in gateway.changes
            assert await gateway.call("bad", "echo", text="at last") == "at last"

    async def test_a_closed_breaker_is_no_tight_loop(self):
        policy = replace(QUICK, backoff=replace(QUICK.backoff, n_until_open=2, probe_s=3600))
        async with running(faulty("bad", "exits=3"), policy=policy) as gateway:
            await gateway.until(lambda: gateway["bad"].state.n_failures == 2)
            assert 3000 < (await error_of(gateway)).retry_in_s <= 3600


class TestDying:
    async def test_in_a_call_ends_it_at_once_with_what_it_wrote_last(self):
        async with beside_a_good_one(faulty("bad", "die-in-call")) as gateway:
            error = await error_of(gateway)
        assert error.cause == "died"
        assert "status 3" in str(error)
        assert "out of luck" in str(error)

    async def test_in_a_call_ends_the_calls_beside_it(self):
        async with beside_a_good_one(faulty("bad")) as gateway:
            beside = asyncio.create_task(gateway.call("bad", "sleep", seconds=60))
            await gateway.pid("bad")
            assert (await error_of(gateway, "die", status=4)).cause == "died"
            with pytest.raises(UpstreamError, match="status 4"):
                await beside

    async def test_the_next_call_starts_it_anew_once_that_is_due(self):
        async with beside_a_good_one(faulty("bad")) as gateway:
            await error_of(gateway, "die", status=4)
            await gateway.until(lambda: gateway["bad"].state.name == "failing")
            answer = None
            while answer is None:
                with suppress(UpstreamError):  # until it is due
                    answer = await gateway.call("bad", "echo", text="back")
            assert answer == "back"
            assert gateway["bad"].state.name == "ready"

    async def test_between_calls_costs_the_next_one_nothing(self):
        policy = replace(QUICK, backoff=replace(QUICK.backoff, first_s=3600, limit_s=3600, sustained_s=0))
        async with beside_a_good_one(faulty("bad"), policy) as gateway:
            pid = await gateway.pid("bad")
            os.kill(pid, signal.SIGKILL)
            await gateway.until(lambda: gateway["bad"].state.name == "idle")
            assert await gateway.call("bad", "echo", text="hello") == "hello"

    async def test_after_its_last_words_costs_the_next_call_nothing_though_it_is_not_gone_yet(self):
        async with beside_a_good_one(faulty("bad", "last-call")) as gateway:
            assert await gateway.call("bad", "echo", text="first") == "first"
            assert await gateway.call("bad", "echo", text="second") == "second"

    async def test_before_a_call_was_sent_has_it_sent_to_the_next_one(self):
        n_sent = 0

        async def send(live: UpstreamSession) -> Any:
            nonlocal n_sent
            n_sent += 1
            if n_sent == 1:
                os.kill(pid, signal.SIGKILL)
                await live.ended.wait()
            return await live.ask("tools/call", {"name": "echo", "arguments": {"text": "hello"}})

        async with beside_a_good_one(faulty("bad"), SLOW) as gateway:
            pid = await gateway.pid("bad")
            assert (await gateway["bad"].request(send))["content"][0]["text"] == "hello"
            assert n_sent == 2

    async def test_again_and_again_is_no_reason_to_start_it_again_at_once(self):
        async with running(faulty("bad"), policy=SLOW) as gateway:
            await error_of(gateway, "die", status=4)
            await gateway.until(lambda: gateway["bad"].state.name == "failing")
            assert (await error_of(gateway)).retry_in_s > 3000


class TestHanging:
    async def test_at_a_list_delays_nobody_and_keeps_what_was_known(self, tmp_path):
        config = faulty("bad", list_timeout_s=0.2)
        store = in_memory()
        async with running(config, store=store) as gateway:
            await gateway.seen("bad")
            known = gateway["bad"].snapshot
        hanging = faulty("bad", "hang-at-list", list_timeout_s=0.2)
        store.save(known.model_copy(update={"config_digest": hanging.digest}))
        async with beside_a_good_one(hanging, store=store) as gateway:
            assert await gateway.call("bad", "echo", text="hello") == "hello"
            assert gateway["bad"].snapshot.digest
            assert len(gateway["bad"].snapshot.tools) == len(known.tools)

    async def test_at_the_first_list_is_told(self):
        async with beside_a_good_one(faulty("bad", "hang-at-list", list_timeout_s=0.2), SLOW) as gateway:
            await gateway.until(lambda: gateway["bad"].state.name == "failing")
            assert gateway["bad"].state.cause == "did not answer"
            assert gateway["bad"].snapshot is None

    async def test_at_a_call_ends_it_and_then_the_process_if_that_answers_nothing(self):
        policy = replace(QUICK, ping_s=0.3)
        async with beside_a_good_one(faulty("bad", "stops-reading", timeout_s=0.3), policy) as gateway:
            assert (await error_of(gateway)).cause == "did not answer"
            await gateway.until(lambda: gateway["bad"].counts.n_failures >= 1)

    async def test_at_a_call_leaves_a_process_that_still_answers(self):
        async with beside_a_good_one(faulty("bad", timeout_s=0.3)) as gateway:
            pid = await gateway.pid("bad")
            assert (await error_of(gateway, "sleep", seconds=60)).cause == "did not answer"
            assert await gateway.pid("bad") == pid


class TestLists:
    async def test_of_10000_tools_is_taken(self):
        async with beside_a_good_one(faulty("bad", "tools=10000")) as gateway:
            await gateway.seen("bad")
            assert len(gateway["bad"].snapshot.tools) >= 10_000

    async def test_of_15_mb_is_taken(self):
        async with beside_a_good_one(faulty("bad", "list-bytes=15000000")) as gateway:
            await gateway.seen("bad")
            assert gateway["bad"].snapshot.problems == ()

    async def test_over_the_bounds_is_cut_and_told(self):
        policy = replace(QUICK, n_items=5)
        async with beside_a_good_one(faulty("bad"), policy) as gateway:
            await gateway.seen("bad")
            snapshot = gateway["bad"].snapshot
        assert len(snapshot.tools) == 5
        assert "more tools than the 5" in snapshot.problems[0]

    async def test_a_name_twice_is_taken_once_and_told(self):
        async with beside_a_good_one(faulty("bad", "twice")) as gateway:
            await gateway.seen("bad")
            snapshot = gateway["bad"].snapshot
        names = [tool["name"] for tool in snapshot.tools]
        assert len(names) == len(set(names))
        assert re.search("listed more than once; the first is taken", snapshot.problems[0])

    async def test_one_list_that_fails_costs_no_tool(self):
        kinds = ("prompts", "resources", "resources/templates")
        names = [f"{fault}={kind}" for fault in ("refuses-list", "hang-at-list") for kind in kinds]
        timeouts = {name: {"list_timeout_s": 1.0} for name in names if "hang" in name}
        async with running(
            faulty("good"), *(faulty(name, name, **timeouts.get(name, {})) for name in names)
        ) as gateway:
            await gateway.seen("good", *names)
            for name in names:
                assert await gateway.call(name, "echo", text="hello") == "hello"
                assert gateway[name].snapshot.tools == gateway["good"].snapshot.tools
                assert (len(gateway[name].snapshot.problems), gateway[name].counts.n_failures) == (1, 0)

    async def test_one_list_that_fails_later_keeps_what_it_was(self):
        store = in_memory()
        async with running(faulty("bad"), store=store) as gateway:
            await gateway.at_rest("bad")
            before = gateway["bad"].snapshot
        config = faulty("bad", "refuses-list=prompts")
        store.save(before.model_copy(update={"config_digest": config.digest, "taken_at_s": 1.0}))
        async with running(config, store=store) as gateway:
            await gateway.until(lambda: gateway["bad"].snapshot.taken_at_s > 1)
            assert gateway["bad"].snapshot.prompts == before.prompts != ()

    async def test_a_schema_that_is_none_costs_that_tool_alone(self):
        async with beside_a_good_one(faulty("bad", "bad-schema")) as gateway:
            await gateway.seen("bad")
            await gateway.seen("good")
            snapshot, good = gateway["bad"].snapshot, gateway["good"].snapshot
        assert {tool["name"] for tool in good.tools} <= {tool["name"] for tool in snapshot.tools}
        assert re.search(r"^tool '.*' is left out: .*", snapshot.problems[0])

    async def test_a_schema_nested_too_deep_costs_that_tool_alone(self):
        deep = faulty("deep", "deep-schema=100"), faulty("deeper", "deep-schema=140")
        async with running(faulty("good"), *deep) as gateway:
            await gateway.seen("good", "deep", "deeper")
            for snapshot in (gateway["deep"].snapshot, gateway["deeper"].snapshot):
                assert snapshot.tools == gateway["good"].snapshot.tools
                assert snapshot.problems[0].startswith("tool 'deep' is left out: ")

    async def test_a_change_is_taken_over(self):
        async with beside_a_good_one(faulty("bad")) as gateway:
            await gateway.seen("bad")
            gateway.changes.clear()
            await gateway.call("bad", "change", name="later")
            await gateway.until(lambda: "bad" in gateway.changes)
            assert "later" in {tool["name"] for tool in gateway["bad"].snapshot.tools}

    async def test_a_storm_of_changes_is_a_few_lists(self, tmp_path):
        record = tmp_path / "record"
        policy = replace(QUICK, settle_s=0.05)
        async with beside_a_good_one(faulty("bad", "storm=1000", f"record={record}"), policy) as gateway:
            for n in range(20):
                assert await gateway.call("bad", "sleep", seconds=0.05) == "slept", n
            n_lists = record.read_text().count('"tools/list"')
        assert 1 <= n_lists <= 8
        assert gateway.changes.count("bad") == 1


class TestUnclear:
    async def test_what_it_writes_in_place_of_mcp_is_told_where_it_takes_too_long(self):
        async with beside_a_good_one(faulty("bad", "garbage-only", start_timeout_s=3)) as gateway:
            told = str(await error_of(gateway))
        assert "it has not answered within 3 s; what it writes to stdout is no MCP, such as " in told
        assert "I am no MCP server" in told

    async def test_that_announces_nothing_is_told(self):
        async with beside_a_good_one(faulty("bad", "no-capabilities")) as gateway:
            await gateway.seen("bad")
            (problem,) = gateway["bad"].snapshot.problems
        assert problem == "it announces no capability for tools, prompts or resources, and is asked for none"

    async def test_an_empty_cursor_is_none(self):
        async with beside_a_good_one(faulty("bad", "empty-cursor")) as gateway:
            await gateway.seen("bad")
            snapshot = gateway["bad"].snapshot
        assert (snapshot.problems, len(snapshot.tools) > 10) == ((), True)


class TestEverythingAtOnce:
    async def test_a_good_one_is_listed_and_called_beside_all_kinds_of_bad_ones(self):
        faults = [
            "exits=1",
            "hang-at-start",
            "garbage-only",
            "spin",
            "hang-at-list",
            "storm=1000",
            "stderr-flood=5000000",
        ]
        bad = [faulty(f"bad{n}", fault, start_timeout_s=5, list_timeout_s=1) for n, fault in enumerate(faults)]
        async with running(*bad, faulty("good"), n_starts=2) as gateway:
            assert await gateway.call("good", "echo", text="hello") == "hello"
            assert gateway["bad0"].state.name == "starting"
            await gateway.seen("good")
            assert gateway["good"].counts.n_failures == 0

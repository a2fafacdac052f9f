"""One upstream and its supervisor, on real processes."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from agent_utilities.gateway.upstreams.errors import UpstreamError
from agent_utilities.gateway.upstreams.snapshot_store import SnapshotStore
from tests.gateway.upstreams.supervised import QUICK, Caller, faulty, gateway_of, is_alive, running

pytestmark = [pytest.mark.outside, pytest.mark.anyio, pytest.mark.timeout(120)]


class TestStarting:
    async def test_200_callers_start_one_process(self, tmp_path):
        pids = tmp_path / "pids"
        async with running(faulty("faulty", f"pids={pids}", "slow-start=0.2")) as gateway:
            answers = await asyncio.gather(*(gateway.call("faulty", "echo", text=str(n)) for n in range(200)))
        assert answers == [str(n) for n in range(200)]
        assert len(pids.read_text().splitlines()) == 1

    async def test_callers_that_leave_while_it_starts_stop_it_for_nobody(self, tmp_path):
        gate = tmp_path / "gate"
        async with running(faulty("faulty", f"wait-for={gate}")) as gateway:
            leaving = [asyncio.create_task(gateway.call("faulty", "echo", text="gone")) for _ in range(5)]
            staying = asyncio.create_task(gateway.call("faulty", "echo", text="here"))
            await gateway.until(lambda: gateway["faulty"].state.name == "starting")
            for task in leaving:
                task.cancel()
            await asyncio.wait(leaving)
            gate.touch()
            assert await staying == "here"
            assert gateway["faulty"].counts.n_starts == 1

    async def test_a_call_before_anything_runs_says_so(self):
        async with running() as gateway:
            pass
        await gateway.upstreams.reload(gateway_of(faulty()))
        with pytest.raises(UpstreamError, match="not running"):
            await gateway.call("faulty", "echo", text="hello")

    async def test_so_many_start_at_once_and_those_that_are_called_first(self, tmp_path):
        gate = tmp_path / "gate"
        slow = [faulty(f"slow{n}", f"wait-for={gate}") for n in range(5)]
        async with running(*slow, faulty("called"), n_starts=2) as gateway:
            call = asyncio.create_task(gateway.call("called", "echo", text="hello"))
            await gateway.until(lambda: sum(each.state.name == "starting" for each in gateway.upstreams) >= 3)
            gate.touch()
            assert await call == "hello"
            await gateway.seen(*(each.name for each in slow))

    async def test_one_that_hangs_gives_its_place_to_start_back(self):
        policy = replace(QUICK, slot_s=0.05)
        hanging = [faulty(f"hanging{n}", "hang-at-start") for n in range(3)]
        async with running(*hanging, faulty(), n_starts=1, policy=policy) as gateway:
            await gateway.seen("faulty")


class TestSharing:
    async def test_calls_share_one_process_and_run_beside_each_other(self):
        async with running(faulty()) as gateway:
            slow = asyncio.create_task(gateway.call("faulty", "sleep", seconds=30))
            assert await gateway.pid("faulty") == await gateway.pid("faulty")
            assert not slow.done()
            slow.cancel()
            await asyncio.wait([slow])

    async def test_a_call_that_is_cancelled_is_cancelled_there_and_harms_no_other(self):
        async with running(faulty()) as gateway:
            pid = await gateway.pid("faulty")
            other = asyncio.create_task(gateway.call("faulty", "sleep", seconds=0.5))
            call = asyncio.create_task(gateway.call("faulty", "progress", n=1000, delay=0.01))
            await gateway.until(lambda: gateway["faulty"].counts.n_calls == 3)
            await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait([call])
            assert call.cancelled()
            assert await other == "slept"
            assert await gateway.call("faulty", "cancelled") != "[]"
            assert await gateway.pid("faulty") == pid

    async def test_with_isolate_each_session_has_a_process_of_its_own_until_it_is_forgotten(self):
        async with running(faulty(isolate=True)) as gateway:
            one, other = Caller("one"), Caller("other")
            pids = {await gateway.pid("faulty", one), await gateway.pid("faulty", other)}
            assert len(pids) == 2
            assert await gateway.pid("faulty", one) in pids
            gateway["faulty"].forget_session("one")
            await gateway.until(lambda: sum(map(is_alive, pids)) == 1)
            assert await gateway.pid("faulty", other) in pids


class TestIdling:
    async def test_a_mere_snapshot_leaves_nothing_running(self, tmp_path):
        pids = tmp_path / "pids"
        async with running(faulty("faulty", f"pids={pids}")) as gateway:
            await gateway.at_rest("faulty")
            assert not any(is_alive(int(line.split()[-1])) for line in pids.read_text().splitlines())
            assert len(gateway["faulty"].snapshot.tools) > 10

    async def test_it_is_ended_when_nobody_has_used_it_for_long(self):
        async with running(faulty(idle_s=0.05)) as gateway:
            pid = await gateway.pid("faulty")
            await gateway.until(lambda: gateway["faulty"].state.name == "idle")
            assert not is_alive(pid)
            assert await gateway.pid("faulty") != pid

    async def test_it_is_not_ended_under_a_call(self):
        async with running(faulty(idle_s=0.01)) as gateway:
            assert await gateway.call("faulty", "sleep", seconds=0.3) == "slept"

    async def test_a_warm_start_starts_nothing(self, tmp_path):
        store, pids = SnapshotStore(tmp_path / "snapshots"), tmp_path / "pids"
        config = faulty("faulty", f"pids={pids}")
        async with running(config, store=store) as gateway:
            await gateway.at_rest("faulty")
        async with running(config, store=SnapshotStore(tmp_path / "snapshots")) as gateway:
            assert gateway["faulty"].state.name == "idle"
            await asyncio.sleep(0.05)
            assert gateway["faulty"].counts.n_starts == 0
            assert gateway.changes == []
        assert len(pids.read_text().splitlines()) == 1


class TestDeadlines:
    async def test_a_call_without_a_sign_of_progress_is_given_up(self):
        async with running(faulty("faulty", "hang-at-call", timeout_s=0.2)) as gateway:
            with pytest.raises(UpstreamError, match=r"'faulty' did not answer.*no progress for 0.2 s"):
                await gateway.call("faulty", "echo", text="hello")

    async def test_progress_gives_a_call_time(self):
        relay = Caller("one")
        async with running(faulty(timeout_s=1)) as gateway:
            assert await gateway.call("faulty", "progress", relay, n=15, delay=0.1) == "15 steps"
        assert relay.progressed[0] == (1.0, 15.0, "step 1")

    async def test_a_flood_of_progress_keeps_no_call_open_for_ever(self):
        async with running(faulty(timeout_s=20, max_call_s=2)) as gateway:
            pid = await gateway.pid("faulty")
            with pytest.raises(UpstreamError, match=r"'faulty' did not answer: the call took over 2 s.*maxCallSeconds"):
                await gateway.call("faulty", "progress", Caller("one"), n=10**9, delay=0)
            assert await gateway.pid("faulty") == pid

    async def test_what_a_call_may_take_in_all_includes_questions(self):
        async with running(faulty(max_call_s=0.3)) as gateway:
            with pytest.raises(UpstreamError, match=r"the call took over 0.3 s in all"):
                await gateway.call("faulty", "ask", Caller("one", thinks_s=3600), message="who?")


class TestQuestions:
    async def test_they_go_to_the_caller_whose_call_is_under_way(self):
        relay = Caller("one")
        async with running(faulty()) as gateway:
            assert "Anna" in await gateway.call("faulty", "ask", relay, message="who?")
            assert "a model" in await gateway.call("faulty", "sample", relay, prompt="hello")
            assert "file:///home" in await gateway.call("faulty", "roots", relay)
            await gateway.call("faulty", "log", relay, message="hello")
            await gateway.until(lambda: relay.logged)
        assert relay.logged == ["hello"]

    async def test_they_are_refused_while_calls_of_two_sessions_are_under_way(self):
        one, other = Caller("one"), Caller("other")
        async with running(faulty()) as gateway:
            await gateway.seen("faulty")  # from then on all who offer the same are on one connection
            slow = asyncio.create_task(gateway.call("faulty", "sleep", other, seconds=30))
            await gateway.until(lambda: gateway["faulty"].counts.n_calls == 1 and gateway["faulty"].is_busy)
            assert "refused" in await gateway.call("faulty", "ask", one, message="who?")
            slow.cancel()
            await asyncio.wait([slow])
        assert one.n_asked == other.n_asked == 0

    async def test_two_calls_of_one_session_may_ask(self):
        one = Caller("one")
        async with running(faulty()) as gateway:
            await gateway.pid("faulty")
            slow = asyncio.create_task(gateway.call("faulty", "sleep", one, seconds=30))
            await gateway.until(lambda: gateway["faulty"].counts.n_calls == 2)
            assert "Anna" in await gateway.call("faulty", "ask", one, message="who?")
            slow.cancel()
            await asyncio.wait([slow])

    async def test_a_person_may_think_longer_than_a_call_may_take(self):
        one = Caller("one", thinks_s=0.5)
        async with running(faulty(timeout_s=0.2)) as gateway:
            assert "Anna" in await gateway.call("faulty", "ask", one, message="who?")

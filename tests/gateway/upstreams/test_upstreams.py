"""All upstreams together: ended with the gateway whatever is going on, and exchanged while it runs."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from agent_utilities.gateway.upstreams.errors import UpstreamError
from agent_utilities.gateway.upstreams.snapshot import Snapshot
from agent_utilities.gateway.upstreams.snapshot_store import SnapshotStore
from agent_utilities.gateway.upstreams.supervision.upstreams import Upstreams
from tests.every import every
from tests.gateway.upstreams.snapshots import in_memory
from tests.gateway.upstreams.supervised import FAULTY, PATIENCE_S, QUICK, Running, faulty, gateway_of, is_alive, running

pytestmark = [pytest.mark.outside, pytest.mark.anyio, pytest.mark.timeout(120)]


def started(path) -> list[int]:
    """Return the ids of the processes that have recorded theirs."""
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


class TestEnding:
    @every(("fault", "n_cancels"), [("hang-at-start", 1), ("wrapper", 3)])
    async def test_no_process_is_left_whenever_it_ends(self, tmp_path, fault, n_cancels):
        pids = tmp_path / "pids"
        upstreams = Upstreams(
            gateway_of(faulty("bad", fault, f"pids={pids}")),
            environ=os.environ,
            store=in_memory(),
            on_change=lambda name: None,
            policy=QUICK,
        )
        task = asyncio.create_task(upstreams.run())
        async with asyncio.timeout(30):
            while not started(pids):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            for _ in range(n_cancels):
                task.cancel()
                await asyncio.sleep(0.01)
            await asyncio.wait([task])
        assert task.cancelled()
        assert not any(map(is_alive, started(pids)))

    async def test_callers_that_wait_for_a_start_are_told(self):
        async with running(faulty("faulty", "hang-at-start")) as gateway:
            call = asyncio.create_task(gateway.call("faulty", "echo", text="hello"))
            await gateway.until(lambda: gateway["faulty"].state.name == "starting")
        with pytest.raises(UpstreamError, match="stopping"):
            await call

    async def test_calls_under_way_are_told_that_it_is_stopping(self):
        async with running(faulty()) as gateway:
            await gateway.pid("faulty")
            call = asyncio.create_task(gateway.call("faulty", "sleep", seconds=60))
            await gateway.until(lambda: gateway["faulty"].counts.n_calls == 2)
            await asyncio.sleep(0)
        with pytest.raises(UpstreamError) as raised:
            await call
        assert raised.value.cause in ("stopping", "died")

    async def test_they_may_run_again(self):
        upstreams = Upstreams(gateway_of(faulty()), environ=os.environ, store=in_memory(), on_change=lambda name: None)
        for _ in range(2):
            started = asyncio.Event()
            task = asyncio.create_task(upstreams.run(started))
            await started.wait()
            assert await Running(upstreams, []).call("faulty", "echo", text="hello") == "hello"
            task.cancel()
            await asyncio.wait([task])


class TestReload:
    async def test_again_and_again_leaves_one_process(self, tmp_path):
        pids = tmp_path / "pids"
        async with running(faulty("faulty", f"pids={pids}")) as gateway:
            await gateway.pid("faulty")
            for n in range(4):
                await gateway.upstreams.reload(gateway_of(faulty("faulty", f"pids={pids}", f"stderr={n}")))
            pid = await gateway.pid("faulty")
            assert [each for each in started(pids) if is_alive(each)] == [pid]
            await gateway.upstreams.reload(gateway_of())
            await gateway.until(lambda: not is_alive(pid))

    async def test_what_is_unchanged_keeps_its_process(self):
        async with running(faulty("one"), faulty("other")) as gateway:
            pid = await gateway.pid("one")
            await gateway.seen("one", "other")
            gateway.changes.clear()
            await gateway.upstreams.reload(gateway_of(faulty("one"), faulty("third")))
            assert await gateway.pid("one") == pid
            assert gateway.upstreams.get("other") is None
            assert [each.config.name for each in gateway.upstreams] == ["one", "third"]
            await gateway.seen("third")
            assert set(gateway.changes) == {"third", "other"}

    async def test_what_only_judges_is_no_reason_to_start_anew(self):
        async with running(faulty()) as gateway:
            pid = await gateway.pid("faulty")
            await gateway.upstreams.reload(gateway_of(faulty(deny=frozenset({"echo"}), timeout_s=7)))
            assert gateway["faulty"].config.timeout_s == 7
            assert await gateway.pid("faulty") == pid

    async def test_what_is_changed_starts_anew_once_the_former_has_ended(self):
        async with running(faulty("faulty", "ignores-eof")) as gateway:
            pid = await gateway.pid("faulty")
            await gateway.upstreams.reload(gateway_of(faulty("faulty", "stderr=changed")))
            assert await gateway.pid("faulty") != pid
            assert not is_alive(pid)

    async def test_a_call_under_way_on_what_is_removed_may_end(self):
        async with running(faulty()) as gateway:
            pid = await gateway.pid("faulty")
            call = asyncio.create_task(gateway.call("faulty", "sleep", seconds=0.3))
            await gateway.until(lambda: gateway["faulty"].counts.n_calls == 2)
            await gateway.upstreams.reload(gateway_of())
            assert await call == "slept"
            await gateway.until(lambda: not is_alive(pid))

    async def test_a_disabled_one_is_off_and_says_so(self):
        async with running(faulty()) as gateway:
            await gateway.upstreams.reload(gateway_of(faulty(enabled=False)))
            assert gateway["faulty"].state.name == "off"
            with pytest.raises(UpstreamError, match="'faulty' off: it is disabled in test: faulty"):
                await gateway.call("faulty", "echo", text="hello")
            await gateway.upstreams.reload(gateway_of(faulty()))
            assert await gateway.call("faulty", "echo", text="hello") == "hello"


class TestRenewing:
    async def test_it_is_answered_once_a_snapshot_is_taken_anew(self):
        async with running(faulty()) as gateway:
            await gateway.at_rest("faulty")
            taken_at_s = gateway["faulty"].snapshot.taken_at_s
            await gateway["faulty"].renewed()
            assert gateway["faulty"].snapshot.taken_at_s > taken_at_s

    @every("fault", ["exits=1", "hang-at-list"])
    async def test_it_is_answered_once_that_has_failed(self, fault):
        async with running(faulty("faulty", fault, list_timeout_s=0.2)) as gateway:
            await gateway["faulty"].renewed()
            assert gateway["faulty"].state.name == "failing"

    async def test_a_secret_that_it_echoes_is_in_no_list(self):
        async with running(faulty(env={"API_KEY": "former-0123456789"})) as gateway:
            await gateway.call("faulty", "change", name="former-0123456789")
            await gateway["faulty"].renewed()
            snapshot = gateway["faulty"].snapshot
        assert "former-0123456789" not in str(snapshot)
        assert "a secret of the config stands in its name" in snapshot.problems[0]

    async def test_an_old_snapshot_is_taken_anew_behind(self, tmp_path):
        store, config = in_memory(), faulty()
        async with running(config, store=store) as gateway:
            await gateway.at_rest("faulty")
            known = gateway["faulty"].snapshot
        store.save(known.model_copy(update={"taken_at_s": 1.0}))
        async with running(config, store=store) as gateway:
            await gateway.until(lambda: gateway["faulty"].snapshot.taken_at_s > 1.0)
            assert gateway.changes == []


FIRST_STARTS = """
import asyncio, os
from agent_utilities.gateway.upstreams.config import UpstreamConfig
from agent_utilities.gateway.upstreams.snapshot_store import file_name
from agent_utilities.gateway.upstreams.snapshot_store import SnapshotStore
from agent_utilities.gateway.upstreams.supervision.upstreams import Upstreams
from tests.gateway.upstreams.snapshots import in_memory
from tests.gateway.upstreams.supervised import faulty, gateway_of

async def main():
    url = {"source": "test", "url": "http://127.0.0.1:9/", "start_timeout_s": 20}
    others = [UpstreamConfig(name=kind, transport=kind, **url) for kind in ("http", "sse")]
    configs = gateway_of(*others, *(faulty(f"stdio{n}") for n in range(4)))
    upstreams = Upstreams(configs, environ=os.environ, store=in_memory(), on_change=lambda _: None)
    running = asyncio.create_task(upstreams.run())
    while any(each.state.name in ("unseen", "starting") for each in upstreams):
        await asyncio.sleep(0.01)
    print([each.state.cause for each in upstreams])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

asyncio.run(main())
"""


async def test_transports_of_every_kind_are_first_imported_at_once():
    command = [sys.executable, "-c", FIRST_STARTS]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout.strip() == str(["unreachable", "unreachable", None, None, None, None]), done.stderr


class TestADiskThatHangs:
    async def test_that_goes_on_has_what_was_being_written_when_the_gateway_ended(self, tmp_path: Path) -> None:
        fifo = tmp_path / "disk"  # to be opened for writing it waits for a reader
        os.mkfifo(fifo)

        class SlowStore(SnapshotStore):
            is_writing = threading.Event()

            def save(self, snapshot: Snapshot) -> None:
                self.is_writing.set()
                os.close(os.open(fifo, os.O_WRONLY))
                super().save(snapshot)

        store = SlowStore(tmp_path)
        upstreams = Upstreams(
            gateway_of(faulty()),
            environ=os.environ,
            store=store,
            on_change=lambda name: None,
            policy=replace(QUICK, disk_s=PATIENCE_S),
        )
        running = asyncio.create_task(upstreams.run())
        assert await asyncio.to_thread(store.is_writing.wait, PATIENCE_S)
        running.cancel()
        await asyncio.sleep(0)
        os.close(await asyncio.to_thread(os.open, fifo, os.O_RDONLY))
        await asyncio.wait([running])
        assert SnapshotStore(tmp_path).load(faulty()) is not None

    def test_holds_up_no_end_of_the_gateway(self, tmp_path: Path) -> None:
        environ = {**os.environ, "MCP_GATEWAY_FOLDER": str(tmp_path), "MCP_GRAPH": "off"}
        command = [sys.executable, str(Path(__file__).with_name("hung_disk_gateway.py")), str(FAULTY)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, env=environ, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stdin
            assert process.stderr
            while "the disk hangs" not in process.stderr.readline():
                assert process.poll() is None
            process.stdin.close()  # its client has gone
            try:
                assert process.wait(PATIENCE_S) == 0
            finally:
                process.kill()


async def test_what_fails_again_for_the_same_cause_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "agent_utilities.gateway.upstreams")
    async with running(faulty("bad", "exits=3")) as gateway:
        await gateway.until(lambda: gateway["bad"].state.n_failures > 3)
    told = [record.levelname for record in caplog.records if "exited with status 3" in record.getMessage()]
    assert told[0] == "WARNING"
    assert {*told[1:]} == {"INFO"}

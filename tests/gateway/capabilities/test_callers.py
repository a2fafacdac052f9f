"""Many callers at once: each has their own capabilities, none has another's, and nothing runs for who is gone."""

from __future__ import annotations

import asyncio
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from fastmcp.exceptions import ToolError

from agent_utilities import AgentServer
from agent_utilities.gateway.capabilities import switching as switching_module
from agent_utilities.gateway.upstreams.config import GatewayConfig
from agent_utilities.gateway.upstreams.supervision.upstream import Upstream
from tests.gateway.capabilities.capable import TRIGGERS, gateway, listed, offer, processes, session, switched
from tests.gateway.capabilities.turns import WORDS, at_rest, six
from tests.gateway.upstreams.processes import until
from tests.parts import capabilities_of, upstreams_of

pytestmark = [pytest.mark.outside, pytest.mark.anyio]

SETS = list(combinations(TRIGGERS, 3))


async def takes_a_set(
    served: AgentServer, names: tuple[str, ...], all_are_on: asyncio.Barrier, ran: dict[str, Upstream]
) -> None:
    """Switch some capabilities on, and see exactly their tools while everybody else has others on."""
    async with session(served) as client:
        for name in names:
            await switched(client, "enable", name)
        await all_are_on.wait()
        seen, summary = await listed(client)
        assert summary["capabilities"]["active"] == list(names)
        assert {tool.partition("-server_")[0] for tool in seen if "-server_" in tool} == set(names)
        other = next(name for name in TRIGGERS if name not in names)
        with pytest.raises(ToolError, match="Unknown tool"):
            await client.call_tool(f"{other}-server_{'now' if other == 'clock' else 'fetch'}", {})
        ran.update((each.config.name, each) for each in upstreams_of(served).upstreams if each.config.capabilities)
        await all_are_on.wait()


@pytest.mark.parametrize("n", [8, pytest.param(50, marks=pytest.mark.nightly)])
async def test_sessions_at_once_have_each_their_own_and_leave_nothing(tmp_path: Path, n: int) -> None:
    served = gateway(tmp_path)
    async with session(served):
        barrier, ran = asyncio.Barrier(n), dict[str, Upstream]()
        async with asyncio.TaskGroup() as group:
            for i in range(n):
                group.create_task(takes_a_set(served, SETS[i % len(SETS)], barrier, ran))
        assert len(ran) == len(TRIGGERS)
        await at_rest(served, ran)
        assert capabilities_of(served).counts()["sessions"] == 0
        assert [name for name in processes() if name != "office"] == []


async def test_two_requests_of_a_session_with_other_new_words_never_have_more_on_than_may_be(tmp_path: Path) -> None:
    served = gateway(tmp_path, six(most=2))
    async with session(served) as client:
        await capabilities_of(served).switching.router.wait_until_ready()
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(listed(client, query=words)) for words in WORDS.values()]
        for each in asked:
            assert len(each.result()[1]["capabilities"]["active"]) <= 2
        _, told = await listed(client)
        await at_rest(served, {})
        assert {name.removesuffix("-server") for name in processes()} - {"office"} == set(
            told["capabilities"]["active"]
        )


async def test_a_race_of_enables_never_has_more_on_than_may_be(tmp_path: Path) -> None:
    served = gateway(tmp_path, offer(most=2))
    async with session(served) as client:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(switched(client, "enable", name)) for name in TRIGGERS]
        assert max(len(each.result()["active"]) for each in asked) <= 2
        assert len(capabilities_of(served).switching.holders.names()) <= 2


async def test_a_caller_who_vanishes_while_he_switches_one_on_leaves_nothing(tmp_path: Path) -> None:
    served = gateway(tmp_path)
    async with session(served):
        async with session(served) as vanishing:
            asked = asyncio.create_task(switched(vanishing, "enable", "files"))
            await until(lambda: "files-server" in {each.config.name for each in upstreams_of(served).upstreams})
            upstream = upstreams_of(served).upstreams["files-server"]
            asked.cancel()
            await asyncio.wait([asked])
        await capabilities_of(served).switching.settle()
        await upstream.stop()
        assert capabilities_of(served).switching.holders.names() == frozenset()
        assert "files-server" not in processes()


async def test_a_gateway_that_stops_leaves_no_server_of_what_was_on(tmp_path: Path) -> None:
    served = gateway(tmp_path, offer(fixed=["clock"]))
    async with session(served) as client:
        for name in ("files", "web", "mail"):
            await switched(client, "enable", name)
        await at_rest(served, {})
        assert set(processes()) >= {"clock-server", "files-server", "web-server", "mail-server"}
    assert processes() == []


async def test_what_could_not_be_stopped_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = gateway(tmp_path)
    n_tries, is_done, reload = 0, asyncio.Event(), upstreams_of(served).upstreams.reload

    async def fail_once(config: GatewayConfig) -> Any:
        nonlocal n_tries
        n_tries += 1
        if n_tries == 1:
            raise RuntimeError("a server that can't be ended")
        is_done.set()
        return await reload(config)

    monkeypatch.setattr(upstreams_of(served).upstreams, "reload", fail_once)
    monkeypatch.setattr(switching_module, "_LOOK_S", 0)
    capabilities_of(served).switching.holders.lease(["clock"])
    ending = asyncio.create_task(capabilities_of(served).switching._end_leases())
    await asyncio.wait([ending, asyncio.create_task(is_done.wait())], return_when=asyncio.FIRST_COMPLETED)
    assert not ending.done()
    ending.cancel()

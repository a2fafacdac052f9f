"""Whatever is wrong with one capability's server, files or caller is its own: all others serve, and nothing is left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.exceptions import ToolError

from agent_utilities import AgentServer
from agent_utilities.gateway.capabilities import answers
from tests.every import every
from tests.gateway.capabilities.capable import listed, processes, session, switched
from tests.gateway.capabilities.taps import faulty, tap_gateway, tiny, write_bundle
from tests.parts import capabilities_of, upstreams_of

pytestmark = [pytest.mark.outside, pytest.mark.anyio]


@pytest.fixture
def tap(tmp_path: Path) -> Path:
    write_bundle(tmp_path / "tap", "clock", tiny("clock-server", "now"))
    return tmp_path / "tap"


@pytest.fixture(autouse=True)
def long_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, what answers at all is waited for."""
    monkeypatch.setattr(answers, "WAIT_S", 60.0)


@asynccontextmanager
async def serving(tap: Path, **options: Any) -> AsyncIterator[tuple[AgentServer, Client[Any]]]:
    served = tap_gateway(tap, tap.parent / "state", **options)
    async with session(served) as client:
        yield served, client


class TestAServerThatNeverServes:
    @every(
        ("table", "why"),
        [
            ({"name": "bad-server", "type": "stdio", "command": "no-such-command"}, "can't be reached"),
            (faulty("bad-server", "exits=3"), "can't be reached"),
        ],
    )
    async def test_is_told_where_it_is_switched_on_and_costs_others_nothing(
        self, tap: Path, table: dict[str, Any], why: str
    ) -> None:
        write_bundle(tap, "bad", table)
        async with serving(tap) as (_, client):
            told = await switched(client, "enable", "bad")
            assert told["active"] == ["bad"]
            assert why in told["notices"][0]
            assert (await switched(client, "enable", "clock"))["active"] == ["bad", "clock"]
            assert (await client.call_tool("clock-server_now", {})).content[0].text == "now"
            names, _ = await listed(client)
            assert sorted(names) == ["capability", "clock-server_now", "office_hello"]
            assert (await switched(client, "disable", "bad"))["active"] == ["clock"]

    @every("fault", ["hang-at-start", "garbage-only"])
    async def test_nor_fails_is_told_to_be_starting(
        self, tap: Path, fault: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_bundle(tap, "bad", faulty("bad-server", fault))
        async with serving(tap) as (_, client):
            with monkeypatch.context() as short:
                short.setattr(answers, "WAIT_S", 0.0)
                told = await switched(client, "enable", "bad")
            assert "bad-server is starting" in told["notices"][0]
            assert (await switched(client, "enable", "clock"))["active"] == ["bad", "clock"]
            assert (await client.call_tool("clock-server_now", {})).content[0].text == "now"


class TestAServerThatDies:
    async def test_in_a_call_fails_that_call_by_its_name_and_stays_on(self, tap: Path) -> None:
        write_bundle(tap, "frail", faulty("frail-server", "die-in-call"))
        async with serving(tap, most=2) as (_, client):
            await switched(client, "enable", "frail")
            await switched(client, "enable", "clock")
            with pytest.raises(ToolError, match="frail-server"):
                await client.call_tool("frail-server_echo", {"text": "x"})
            _, told = await listed(client)
            assert told["capabilities"]["active"] == ["frail", "clock"]
            assert (await client.call_tool("clock-server_now", {})).content[0].text == "now"


class TestAServerThatDoesNotStop:
    async def test_holds_up_nothing_that_is_switched_on_in_its_place(self, tap: Path) -> None:
        write_bundle(tap, "stubborn", faulty("stubborn-server", "lingers"))
        async with serving(tap, most=1) as (served, client):
            await switched(client, "enable", "stubborn")
            before = upstreams_of(served).upstreams["stubborn-server"]
            told = await switched(client, "enable", "clock")
            assert told["evicted"] == ["stubborn"]
            assert (await client.call_tool("clock-server_now", {})).content[0].text == "now"
            assert before.is_running


class TestAServerThatTwoCapabilitiesShare:
    @pytest.fixture
    def shared(self, tap: Path) -> Path:
        desk = tiny("desk-server", "read_mail", "send_mail", "read_calendar")
        write_bundle(tap, "mail", desk, allowed_tools=["desk-server:*_mail"])
        write_bundle(tap, "calendar", desk, allowed_tools=["desk-server:read_*"])
        return tap

    async def test_runs_once_and_stays_for_the_other_with_its_tools_alone(self, shared: Path) -> None:
        async with serving(shared) as (served, client):
            await switched(client, "enable", "mail")
            desk = upstreams_of(served).upstreams["desk-server"]
            await switched(client, "enable", "calendar")
            await switched(client, "disable", "mail")
            names, _ = await listed(client)
            assert {name for name in names if name.startswith("desk")} == {
                "desk-server_read_calendar",
                "desk-server_read_mail",
            }
            with pytest.raises(ToolError, match="Unknown tool"):
                await client.call_tool("desk-server_send_mail", {})
            assert upstreams_of(served).upstreams["desk-server"] is desk
            assert processes().count("desk-server") == 1
            await switched(client, "disable", "calendar")
            await desk.stop()
            assert "desk-server" not in processes()


class TestAMissingVariable:
    @pytest.fixture
    def keyed(self, tap: Path) -> Path:
        table = tiny("keyed-server", "look_up", env={"KEY": "{{ENV:NO_SUCH_KEY}}"})
        write_bundle(
            tap, "keyed", table, triggers=["look up the weather", "weather, look up", "please look up the weather"]
        )
        return tap

    async def test_is_named_where_it_would_be_switched_on(self, keyed: Path) -> None:
        async with serving(keyed) as (_, client):
            with pytest.raises(ToolError, match="NO_SUCH_KEY"):
                await switched(client, "enable", "keyed")

    async def test_is_named_where_words_call_for_it_and_evicts_nothing(self, keyed: Path) -> None:
        async with serving(keyed, most=1) as (served, client):
            await capabilities_of(served).switching.router.wait_until_ready()
            await switched(client, "enable", "clock")
            _, told = await listed(client, query="look up the weather")
            assert told["capabilities"]["active"] == ["clock"]
            assert "NO_SUCH_KEY" in told["capabilities"]["cause"]

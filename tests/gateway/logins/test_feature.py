"""What people have by their logins goes with what the operator has, and comes back with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from agent_utilities.gateway.feature import Upstreams
from agent_utilities.gateway.logins.feature import Logins
from agent_utilities.seam.host import find
from tests.fleet.processes.replicas import until
from tests.gateway.logins.gateways import LOGGED_IN, Office, has_login, log_in, logged_in, office, told

pytestmark = [pytest.mark.anyio, pytest.mark.outside]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def names(client: Client[Any]) -> list[str]:
    return [tool.name for tool in await client.list_tools()]


async def turn(at: Office, *, on: bool) -> None:
    """Have the operator take the server behind from everybody, or bring it back."""
    upstreams = find(at.gateway, Upstreams)
    assert upstreams is not None
    await upstreams.turn("mail", on=on)


def logins_of(at: Office) -> Logins:
    logins = find(at.gateway, Logins)
    assert logins is not None
    return logins


class TestAServerThatIsTakenAway:
    async def test_is_listed_to_nobody_and_comes_back_with_everybodys_logins(self, tmp_path: Path) -> None:
        async with office(tmp_path) as at:
            await logged_in(at, at.ann, "ann@mail")
            async with at.client(at.ann) as ann, at.client(at.bob) as bob:
                assert (await names(ann), await names(bob)) == (["mail_read"], ["mail_login"])

                async def are_listed(*expected: list[str]) -> bool:
                    return (await names(ann), await names(bob)) == expected

                await turn(at, on=False)
                await until(lambda: are_listed([], []))
                assert await told(ann, "mail_read") == (True, "Unknown tool: 'mail_read'")
                await turn(at, on=True)
                await until(lambda: are_listed(["mail_read"], ["mail_login"]))
                assert await told(ann, "mail_read") == (False, "mail of ann@mail")
            assert at.issuer.counts["code"] == 1

    async def test_lists_nobody_else_anew_where_another_change_was_made(self, tmp_path: Path) -> None:
        async with office(tmp_path) as at:
            await logged_in(at, at.ann, "ann@mail")
            held = dict(logins_of(at)._held)
            at.gateway.tool(name="clock")(lambda: "noon")
            await turn(at, on=True)  # it was on
            async with at.client(at.ann) as ann:
                assert sorted(await names(ann)) == ["clock", "mail_read"]
            assert logins_of(at)._held == held


class TestManyPeople:
    async def test_are_served_however_many_are_kept_up_at_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("agent_utilities.gateway.logins.feature.N_PEOPLE", 1)
        async with office(tmp_path) as at:
            await logged_in(at, at.ann, "ann@mail")
            await logged_in(at, at.bob, "bob@mail")
            for _ in range(2):
                for token, mail in ((at.ann, "ann@mail"), (at.bob, "bob@mail")):
                    async with at.client(token) as client:
                        assert await told(client, "mail_read") == (False, f"mail of {mail}")
                    assert len(logins_of(at)._held) <= 2
            assert at.issuer.counts["code"] == 2


class TestTheToolToLogInBy:
    async def test_tells_where_and_is_gone_once_there_is_something_to_list(self, tmp_path: Path) -> None:
        async with office(tmp_path) as at, at.client(at.ann) as client:
            (tool,) = await client.list_tools()
            assert (tool.name, tool.title) == ("mail_login", "Log in at mail")
            assert tool.description == ("Log in at mail with your own account: its tools are listed once you have.")
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint is True
            assert tool.input_schema == {"type": "object", "properties": {}}
            text = (await told(client))[1]
            await log_in(text[text.index("http") :].split()[0], at.ann, at_mail="ann@mail")
            assert await told(client) == (False, LOGGED_IN)
            assert await names(client) == ["mail_read"]

    async def test_stays_callable_for_who_is_logged_in(self, tmp_path: Path) -> None:
        async with office(tmp_path) as at:
            await logged_in(at, at.ann, "ann@mail")
            assert await has_login(at, at.ann)
            assert not await has_login(at, at.bob)


class TestWhatClientsKeep:
    async def test_is_bounded_by_nothing_of_ours_once_they_are_logged_in(self, tmp_path: Path) -> None:
        async with office(tmp_path) as at:
            await logged_in(at, at.ann, "ann@mail")
            kept = []
            for token in (at.ann, at.bob):
                async with at.client(token, mode="2026-07-28") as client:
                    listed = await client.list_tools_mcp()
                    wanted = (listed.meta or {}).get("agent-utilities/selection", {}).get("wants_login")
                    kept.append((listed.ttl_ms == 0, wanted))
            assert kept == [(False, None), (True, ["mail"])]

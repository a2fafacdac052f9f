"""Callers' own logins at upstreams are the same at all replicas, and renewed once for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from agent_utilities.gateway.logins.feature import Logins
from agent_utilities.gateway.upstreams.http.account import Account
from agent_utilities.seam.host import SharedState, find
from agent_utilities.state.redis_state import WAIT_S, RedisState
from tests.fleet.processes.replicas import Shared, until
from tests.gateway.logins.gateways import LOGGED_IN, Office, asked, has_login, logged_in, office, told
from tests.gateway.logins.issuers import Issuer
from tests.gateway.logins.test_logins import served_another

pytestmark = [pytest.mark.anyio, pytest.mark.outside, pytest.mark.timeout(120)]
LOGINS = "agent-utilities:gateway:login:*"
CHANNEL = "agent-utilities:gateway:logins"
MAIL = (False, "mail of ann@mail")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def two(shared: Shared, folder: Path, **environ: str) -> AsyncIterator[tuple[Office, Office]]:
    """Serve two replicas for a block, each with a folder of its own."""
    given = {**shared.environ, **environ}
    async with office(folder, **given) as here, another(here, folder / "there", **given) as there:
        yield here, there


@asynccontextmanager
async def another(at: Office, kept: Path, **environ: str) -> AsyncIterator[Office]:
    """Serve one more replica for a block."""
    async with at.restarted(MCP_GATEWAY_FOLDER=str(kept), MCP_AUTH_BASE_URL=at.url, **environ) as more:
        yield more


def account(at: Office, person: str = "ann") -> Account:
    """Return somebody's login at the server behind, as a replica that serves them holds it."""
    logins = find(at.gateway, Logins)
    assert logins is not None
    return logins._held["local", person]._accounts["mail"]


def end_what_is_used_twice(issuer: Issuer) -> None:
    """Have an issuer take a login for stolen once a refresh token comes that was used before, and count that."""
    load = issuer.load_refresh_token

    async def load_or_end(client: Any, token: str) -> Any:
        if (found := await load(client, token)) is None:
            issuer.counts["twice"] += 1
            issuer.end()
        return found

    issuer.load_refresh_token = load_or_end  # type: ignore[method-assign]


async def read(at: Office, token: str) -> tuple[bool, str]:
    async with at.client(token) as client:
        return await told(client, "mail_read")


class TestOneThatWasMade:
    async def test_serves_its_person_at_the_other_replica_at_once(self, shared: Shared, tmp_path: Path) -> None:
        async with two(shared, tmp_path) as (here, there), there.client(there.ann) as client:
            assert [tool.name for tool in await client.list_tools()] == ["mail_login"]
            await logged_in(here, here.ann, "ann@mail")
            assert await told(client) == (False, LOGGED_IN)
            assert await told(client, "mail_read") == MAIL
            assert not await has_login(there, there.bob)
            assert here.issuer.counts["code"] == 1

    async def test_has_the_other_list_what_there_is_without_being_asked(self, shared: Shared, tmp_path: Path) -> None:
        async with two(shared, tmp_path) as (here, there), there.client(there.ann) as client:
            assert [tool.name for tool in await client.list_tools()] == ["mail_login"]
            await logged_in(here, here.ann, "ann@mail")

            async def is_listed() -> bool:
                return [tool.name for tool in await client.list_tools()] == ["mail_read"]

            assert await until(is_listed) < 2

    async def test_is_found_by_a_replica_that_hears_nothing(self, shared: Shared, tmp_path: Path) -> None:
        may = ["+@all", "-subscribe"]
        shared.admin.acl_setuser("deaf", True, passwords=["+x"], keys=["*"], channels=["*"], commands=may)
        deaf = {**shared.environ, "MCP_STATE_URL": shared.url("deaf:x")}
        async with office(tmp_path, **shared.environ) as here, another(here, tmp_path / "there", **deaf) as there:
            assert not await has_login(there, there.ann)
            await logged_in(here, here.ann, "ann@mail")
            assert await until(account(there).has_login.is_set) < 5

    async def test_that_ends_at_one_has_ended_at_the_other(self, shared: Shared, tmp_path: Path) -> None:
        async with two(shared, tmp_path) as (here, there):
            await logged_in(here, here.ann, "ann@mail")
            assert await read(there, there.ann) == MAIL
            here.issuer.end()
            assert (await read(here, here.ann))[0]
            n_refused = here.issuer.counts["refresh"]
            assert await until(lambda: not account(there).has_login.is_set()) < 2
            async with another(here, tmp_path / "third", **shared.environ) as third:
                assert not await has_login(third, third.ann)
            assert here.issuer.counts["refresh"] == n_refused

    async def test_outlives_all_replicas_and_their_folders(self, shared: Shared, tmp_path: Path) -> None:
        async with office(tmp_path, **shared.environ) as here:
            await logged_in(here, here.ann, "ann@mail")
            async with another(here, tmp_path / "later", **shared.environ) as later:
                assert await read(later, later.ann) == MAIL

    async def test_before_there_was_a_fleet_is_taken_into_it(self, shared: Shared, tmp_path: Path) -> None:
        key = {"MCP_SECRET_KEY": shared.environ["MCP_SECRET_KEY"]}
        async with office(tmp_path, **key) as alone:
            await logged_in(alone, alone.ann, "ann@mail")
            async with alone.restarted(**shared.environ) as here:
                assert await read(here, here.ann) == MAIL
                async with another(here, tmp_path / "there", **shared.environ) as there:
                    assert await read(there, there.ann) == MAIL


class TestRenewal:
    async def test_at_two_replicas_at_once_asks_the_issuer_once(self, shared: Shared, tmp_path: Path) -> None:
        async with two(shared, tmp_path) as (here, there):
            end_what_is_used_twice(here.issuer)
            await logged_in(here, here.ann, "ann@mail")
            async with here.client(here.ann) as one, there.client(there.ann) as other:
                clients: list[Client] = [one, other]
                assert [await told(each, "mail_read") for each in clients] == [MAIL, MAIL]
                here.issuer.expire()
                here.issuer.may_answer.clear()
                calls = [asyncio.ensure_future(told(each, "mail_read")) for each in 5 * clients]
                await here.issuer.was_asked.wait()
                await until(lambda: all(account(each)._renewal is not None for each in (here, there)))
                here.issuer.may_answer.set()
                assert set(await asyncio.gather(*calls)) == {MAIL}
            assert (here.issuer.counts["refresh"], here.issuer.counts["twice"]) == (1, 0)
            assert account(here)._kept == account(there)._kept

    async def test_made_at_one_is_used_by_the_other_which_heard_nothing_of_it(
        self, shared: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("agent_utilities.fleet.logins.SharedLogins.heard", lambda *_: None)
        monkeypatch.setattr("agent_utilities.fleet.news.COMPARE_S", 60)
        async with two(shared, tmp_path) as (here, there):
            end_what_is_used_twice(here.issuer)
            await logged_in(here, here.ann, "ann@mail")
            assert await read(there, there.ann) == MAIL
            here.issuer.expire()
            assert [await read(here, here.ann), await read(there, there.ann)] == [MAIL, MAIL]
            assert (here.issuer.counts["refresh"], here.issuer.counts["twice"]) == (1, 0)

    async def test_goes_on_where_a_replica_that_was_killed_holds_its_turn(
        self, shared: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("agent_utilities.state.redis_state.ALONE_S", 1.0)
        async with office(tmp_path, **shared.environ) as here:
            await logged_in(here, here.ann, "ann@mail")
            (login,) = shared.admin.scan_iter(LOGINS)
            turn = login.replace(b":login:", b":renewal:")
            shared.admin.set(turn, "somebody's", px=60_000)
            here.issuer.expire()
            assert await read(here, here.ann) == MAIL
            assert shared.admin.get(turn) == b"somebody's"

    async def test_needs_no_redis(self, shared: Shared, tmp_path: Path) -> None:
        async with office(tmp_path, **shared.environ) as here:
            await logged_in(here, here.ann, "ann@mail")
            shared.kill()
            here.issuer.expire()
            assert await read(here, here.ann) == MAIL
            assert here.issuer.counts["refresh"] == 1
            shared.start()


class TestWhereRedisIsGone:
    async def test_a_login_is_made_and_handed_on_when_it_is_back(self, shared: Shared, tmp_path: Path) -> None:
        async with two(shared, tmp_path) as (here, there):
            assert not await has_login(there, there.ann)
            shared.kill()
            await logged_in(here, here.ann, "ann@mail")
            assert await read(here, here.ann) == MAIL
            assert not await has_login(there, there.ann)
            shared.start()
            assert await until(account(there).has_login.is_set) < 5
            assert await read(there, there.ann) == MAIL

    async def test_the_next_process_goes_on_with_its_folder(self, shared: Shared, tmp_path: Path) -> None:
        async with office(tmp_path, **shared.environ) as here:
            await logged_in(here, here.ann, "ann@mail")
            shared.kill()
            async with here.restarted(**shared.environ) as again:
                assert await read(again, again.ann) == MAIL
                state = again.gateway.offered(SharedState)[0].redis
                assert state is not None
                assert "redis" in state.cause
            shared.start()

    async def test_what_has_ended_meanwhile_has_ended_when_it_is_back(
        self, shared: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with two(shared, tmp_path) as (here, there):
            await logged_in(here, here.ann, "ann@mail")
            assert await read(there, there.ann) == MAIL
            monkeypatch.setattr(RedisState, "wait_s", WAIT_S)
            shared.pause()
            try:
                here.issuer.end()
                assert (await read(here, here.ann))[0]
            finally:
                shared.go_on()
            await until(lambda: not account(there).has_login.is_set())
            assert not account(here).has_login.is_set()

    async def test_and_comes_back_empty_what_replicas_know_is_written_back(
        self, shared: Shared, tmp_path: Path
    ) -> None:
        async with two(shared, tmp_path) as (here, there):
            await logged_in(here, here.ann, "ann@mail")
            assert await read(there, there.ann) == MAIL
            shared.flush()
            assert await until(lambda: any(shared.admin.scan_iter(LOGINS))) < 5
            assert [account(each).has_login.is_set() for each in (here, there)] == [True, True]
            async with another(here, tmp_path / "third", **shared.environ) as third:
                assert await read(third, third.ann) == MAIL


class TestAStranger:
    async def test_who_swaps_logins_gives_nobody_anothers(self, shared: Shared, tmp_path: Path) -> None:
        async with office(tmp_path, **shared.environ) as here:
            await logged_in(here, here.ann, "ann@mail")
            (of_ann,) = shared.admin.scan_iter(LOGINS)
            await logged_in(here, here.bob, "bob@mail")
            (of_bob,) = set(shared.admin.scan_iter(LOGINS)) - {of_ann}
            kept = {key: shared.admin.get(key) for key in (of_ann, of_bob)}
            swapped = {of_bob: kept[of_ann], of_ann: kept[of_bob]}
            for name, changed in (("swapped", swapped), ("junk", {**swapped, of_bob: b"junk"})):
                for key, content in changed.items():
                    shared.admin.set(key, content)
                async with another(here, tmp_path / name, **shared.environ) as new:
                    assert not await served_another(new)
            assert await read(here, here.ann) == MAIL

    async def test_reads_no_token_and_no_name(self, shared: Shared, tmp_path: Path) -> None:
        async with office(tmp_path, **shared.environ) as here:
            await logged_in(here, here.ann, "ann@mail")
            tokens = [*here.issuer.access_tokens, *here.issuer.refresh_tokens]
            dumped = shared.told()
        assert [secret for secret in (*tokens, "ann@mail", "ann") if secret.encode() in dumped] == []

    async def test_who_tells_of_logins_ends_none_and_has_few_looked_at(self, shared: Shared, tmp_path: Path) -> None:
        async with office(tmp_path, **shared.environ) as here:
            await logged_in(here, here.ann, "ann@mail")
            (login,) = shared.admin.scan_iter(LOGINS)
            n_before = shared.commands()
            for message in (login[-33:-1], b"", b"\xff" * 99, b"0" * 32):
                for _ in range(1000):
                    shared.admin.publish(CHANNEL, message)
            assert shared.commands() - n_before < 4000 + 1500
            shared.admin.delete(login)
            assert await read(here, here.ann) == MAIL

    async def test_finds_only_who_reads_that_a_login_was_asked(self, shared: Shared, tmp_path: Path) -> None:
        async with two(shared, tmp_path) as (here, there), there.client(there.ann) as client:
            link = await asked(client)
            assert link.rpartition("/")[2].encode() not in shared.told()
            assert link.startswith(here.url)

"""People's logins, kept by each replica for all: what is told, kept, handed on and taken, with a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.auth import OAuthToken

from agent_utilities.fleet.logins import SharedLogins
from agent_utilities.fleet.news import News
from agent_utilities.gateway.upstreams.config import UpstreamConfig
from agent_utilities.gateway.upstreams.http.account import Account, Kept
from agent_utilities.gateway.upstreams.sealed_store import SealedStore
from agent_utilities.state.redis_state import RedisState
from tests.every import every
from tests.fleet.processes.replicas import Shared, until

pytestmark = [pytest.mark.anyio, pytest.mark.outside]
LOGINS = "agent-utilities:gateway:login:*"
CHANNEL = "agent-utilities:gateway:logins"
NAME = ("login", "local", "ann", "mail", "http://mail.example/mcp")
HALF_A_YEAR_S = 180 * 24 * 3600


def kept(token: str) -> Kept:
    return Kept(tokens=OAuthToken(access_token=token), client=None, metadata=None, resource=None, expires_at_s=None)


class Store:
    """The logins of one replica, without a gateway around them.

    Args:
        shared: the Redis of all.
        folder: of its own.
    """

    def __init__(self, shared: Shared, folder: Path) -> None:
        self.state = RedisState(shared.url(), "agent-utilities", "gateway", b"k" * 32)
        self._tasks: set[asyncio.Task[None]] = set()
        self.logins = SharedLogins(self.state, lambda: self.news, self._start)
        self.logins.folder = SealedStore(folder, b"k" * 32)
        self.news = News(self.state, [self.logins], self._look)
        self.folder = folder

    async def _look(self, is_lost: bool) -> None: ...

    def _start(self, work: Coroutine[Any, Any, None]) -> bool:
        self._tasks.add(asyncio.create_task(work))
        return True

    def account(self) -> Account:
        given = {"transport": "http", "url": NAME[-1], "credentials": "caller"}
        config = UpstreamConfig(name="mail", source="mcp.json: mcpServers.mail", **given)  # type: ignore[arg-type]
        account = Account(config, ("local", "ann"), self.logins, lambda work: asyncio.ensure_future(work()))  # type: ignore[arg-type]
        assert account.name == NAME
        return account

    def key(self) -> str:
        return self.state.name("login", self.logins._digest(NAME))


@asynccontextmanager
async def stores(shared: Shared, folder: Path, *, hear: bool = False) -> AsyncIterator[list[Store]]:
    """Two for a block, which tell one another where they hear."""
    made = [Store(shared, folder / name) for name in ("here", "there")]
    tasks = [asyncio.create_task(each.news.run()) for each in made] if hear else []
    try:
        await until(lambda: not hear or dict(shared.admin.pubsub_numsub(CHANNEL))[CHANNEL.encode()] == 2)
        yield made
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in made:
            await each.state.close()


class TestAStore:
    async def test_hears_each_change_at_once_however_many_come(
        self, shared: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("agent_utilities.fleet.news.COMPARE_S", 600)
        async with stores(shared, tmp_path, hear=True) as (here, there):
            account = there.account()
            await account.load()
            for login in (kept("one"), kept("two"), None, kept("three")):
                await here.logins.keep(NAME, login)
                await until(lambda login=login: account._kept == login)  # type: ignore[misc]
                assert account.has_login.is_set() == (login is not None)

    async def test_keeps_a_login_for_half_a_year_after_its_last_use(self, shared: Shared, tmp_path: Path) -> None:
        async with stores(shared, tmp_path) as (here, there):
            await here.logins.keep(NAME, kept("one"))
            assert HALF_A_YEAR_S - 60 < shared.admin.ttl(here.key()) <= HALF_A_YEAR_S
            shared.admin.expire(here.key(), 1000)
            assert await there.logins.load(NAME, None) == kept("one")
            assert HALF_A_YEAR_S - 60 < shared.admin.ttl(here.key()) <= HALF_A_YEAR_S

    async def test_knows_one_that_ended_as_ended_whatever_it_knew(self, shared: Shared, tmp_path: Path) -> None:
        async with stores(shared, tmp_path) as (here, there):
            await here.logins.keep(NAME, kept("one"))
            await there.logins.load(NAME, None)
            await here.logins.keep(NAME, None)
            assert await there.logins.load(NAME, kept("one")) is None
            assert [list(each.folder.glob("*.sealed")) for each in (here, there)] == [[], []]

    async def test_takes_what_it_knows_where_there_is_none_and_hands_it_on(
        self, shared: Shared, tmp_path: Path
    ) -> None:
        async with stores(shared, tmp_path) as (here, there):
            assert await here.logins.load(NAME, None) is None
            assert not list(shared.admin.scan_iter(LOGINS))
            assert await here.logins.load(NAME, kept("one")) == kept("one")
            assert await there.logins.load(NAME, None) == kept("one")
            shared.flush()
            assert await there.logins.load(NAME, None) == kept("one")  # by its folder
            assert await here.logins.load(NAME, kept("older")) == kept("one")

    @every("junk", [b"junk", b""])
    async def test_puts_what_it_knows_in_the_place_of_what_nobody_sealed(
        self, junk: bytes, shared: Shared, tmp_path: Path
    ) -> None:
        async with stores(shared, tmp_path) as (here, there):
            shared.admin.set(here.key(), junk)
            assert await here.logins.load(NAME, kept("one")) == kept("one")
            assert await there.logins.load(NAME, None) == kept("one")

    async def test_leaves_one_of_another_version_as_it_is(self, shared: Shared, tmp_path: Path) -> None:
        async with stores(shared, tmp_path) as (here, _):
            shared.admin.set(here.key(), sealed := here.state.sealed(here.key(), b'{"v": 2}'))
            assert await here.logins.load(NAME, kept("one")) == kept("one")
            assert shared.admin.get(here.key()) == sealed

    async def test_knows_what_it_loaded_while_redis_is_gone(self, shared: Shared, tmp_path: Path) -> None:
        async with stores(shared, tmp_path) as (here, there):
            await here.logins.keep(NAME, kept("one"))
            await there.logins.load(NAME, None)
            shared.kill()
            assert await there.logins.load(NAME, None) == kept("one")
            assert await there.logins.load(NAME, kept("mine")) == kept("mine")
            shared.start()

    @every("login", [kept("new"), None])
    async def test_hands_on_what_was_kept_while_redis_was_gone_once_it_is_asked(
        self, login: Kept | None, shared: Shared, tmp_path: Path
    ) -> None:
        async with stores(shared, tmp_path) as (here, there):
            await here.logins.keep(NAME, kept("old"))
            shared.kill()
            await here.logins.keep(NAME, login)
            shared.start()

            async def is_handed_on() -> bool:
                assert await here.logins.load(NAME, login) == login
                return await there.logins.load(NAME, None) == login

            await until(is_handed_on)

    async def test_hands_on_what_was_kept_while_redis_was_gone_where_nobody_asks(
        self, shared: Shared, tmp_path: Path
    ) -> None:
        async with stores(shared, tmp_path, hear=True) as (here, there):
            shared.kill()
            await here.logins.keep(NAME, kept("new"))
            shared.start()
            await until(lambda: bool(shared.admin.exists(here.key())))
            assert await there.logins.load(NAME, None) == kept("new")

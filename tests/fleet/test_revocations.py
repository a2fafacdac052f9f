"""A token that is revoked at one replica is refused by the others, each with a file of its own that still has it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from shutil import copyfile

import httpx2
import pytest

from agent_utilities.access.token_file import revoke_token
from tests.access.team import Team
from tests.fleet.processes.replicas import Shared, until
from tests.server.in_process import ask, web_of

pytestmark = [pytest.mark.anyio, pytest.mark.outside]


class Replicas:
    """Servers of one team, each with a copy of the file of tokens."""

    def __init__(self, shared: Shared, folder: Path, opened: AsyncExitStack) -> None:
        self._environ, self._folder, self._opened = shared.environ, folder, opened
        self.file = folder / "tokens.json"
        self._team = Team(folder)
        self.headers = {name: self._team.token(name) for name in ("ann", "bob")}
        self.webs: list[httpx2.AsyncClient] = []
        self.files: list[Path] = []

    async def start(self, **environ: str) -> httpx2.AsyncClient:
        """Start a further one."""
        folder = self._folder / str(len(self.webs))
        folder.mkdir()
        team = Team(folder)
        copyfile(self.file, team.tokens)
        team.tokens.chmod(0o600)
        self.files.append(team.tokens)
        server = team.server({**self._environ, **environ})
        self.webs.append(await self._opened.enter_async_context(web_of(server)))
        return self.webs[-1]

    async def status(self, web: httpx2.AsyncClient, name: str) -> int:
        return (await ask(web, "/mcp", **self.headers[name])).status_code

    async def until_refused(self, web: httpx2.AsyncClient, name: str, *, status: int = 401) -> float:
        """Return the seconds that it took until somebody was refused, or got another status."""

        async def holds() -> bool:
            return await self.status(web, name) == status

        return await until(holds)


@asynccontextmanager
async def replicas(shared: Shared, folder: Path, n: int = 2) -> AsyncIterator[Replicas]:
    async with AsyncExitStack() as opened:
        fleet = Replicas(shared, folder, opened)
        for _ in range(n):
            await fleet.start()
        yield fleet


async def test_is_refused_at_the_other_within_two_seconds(shared: Shared, tmp_path: Path) -> None:
    async with replicas(shared, tmp_path) as fleet:
        assert [await fleet.status(web, "ann") for web in fleet.webs] == [200, 200]
        revoke_token(fleet.files[0], "ann")
        assert await fleet.until_refused(fleet.webs[1], "ann") < 2
        assert await fleet.status(fleet.webs[1], "bob") == 200


async def test_is_refused_within_five_seconds_where_no_message_comes(shared: Shared, tmp_path: Path) -> None:
    shared.admin.acl_setuser("deaf", True, passwords=["+x"], keys=["*"], commands=["+@all"], reset_channels=True)
    async with replicas(shared, tmp_path, 1) as fleet:
        deaf = await fleet.start(MCP_STATE_URL=shared.url("deaf:x"))
        assert await fleet.status(deaf, "ann") == 200
        revoke_token(fleet.files[0], "ann")
        await until(lambda: shared.admin.scard("agent-utilities:team:revocations") == 1)
        assert 0 < await fleet.until_refused(deaf, "ann") < 5


async def test_is_written_back_after_a_flush_for_who_comes_later(shared: Shared, tmp_path: Path) -> None:
    async with replicas(shared, tmp_path) as fleet:
        revoke_token(fleet.files[0], "ann")
        await fleet.until_refused(fleet.webs[1], "ann")
        shared.admin.flushall()
        assert await fleet.status(fleet.webs[1], "ann") == 401
        later = await fleet.start()
        assert await fleet.until_refused(later, "ann") < 5


async def test_is_refused_once_a_redis_that_was_gone_is_back(shared: Shared, tmp_path: Path) -> None:
    async with replicas(shared, tmp_path) as fleet:
        shared.kill()
        revoke_token(fleet.files[0], "ann")
        await fleet.until_refused(fleet.webs[0], "ann")
        assert await fleet.status(fleet.webs[1], "ann") == 200
        shared.start()
        assert await fleet.until_refused(fleet.webs[1], "ann") < 5


async def test_of_a_file_that_is_gone_for_a_moment_is_none(shared: Shared, tmp_path: Path) -> None:
    async with replicas(shared, tmp_path) as fleet:
        fleet.files[0].rename(away := tmp_path / "away")
        await fleet.until_refused(fleet.webs[0], "ann")
        away.rename(fleet.files[0])
        await fleet.until_refused(fleet.webs[0], "ann", status=200)
        revoke_token(fleet.files[0], "bob")
        await fleet.until_refused(fleet.webs[1], "bob")
        assert await fleet.status(fleet.webs[1], "ann") == 200


async def test_a_stranger_can_revoke_nothing_and_take_nothing_back(shared: Shared, tmp_path: Path) -> None:
    async with replicas(shared, tmp_path) as fleet:
        key = "agent-utilities:team:revocations"
        revoke_token(fleet.files[0], "bob")
        await fleet.until_refused(fleet.webs[1], "bob")
        (kept,) = shared.admin.smembers(key)
        for forged in (b"", b"x" * 32, kept[:16] + b"x" * 16, kept[16:] + kept[:16], b"\xff" * 1000):
            shared.admin.publish(key, forged)
            shared.admin.sadd(key, forged)
        shared.admin.srem(key, kept)
        shared.admin.set("agent-utilities:team:news", "x")
        await until(lambda: shared.admin.sismember(key, kept) == 1)
        assert [await fleet.status(web, "bob") for web in fleet.webs] == [401, 401]
        assert [await fleet.status(web, "ann") for web in fleet.webs] == [200, 200]

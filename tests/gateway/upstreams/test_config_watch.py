"""Config files that are edited while a gateway serves: taken whole or not at all, and never without agreement."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_utilities.gateway.upstreams.config import GatewayConfig
from agent_utilities.gateway.upstreams.configuration.config_files import read_config
from agent_utilities.gateway.upstreams.operator.lock import lock_of, lock_path, write_lock
from agent_utilities.gateway.upstreams.operator.operator_rules import ConfigFiles
from agent_utilities.runtime import process_io

pytestmark = pytest.mark.anyio

PATIENCE_S = 30


class Edited:
    """A config of two servers that is edited, and what a gateway takes of it.

    Args:
        folder: where it stands.
        caplog: what is told of edits that are not taken.
        is_agreed: whether the user has agreed to what it says.
        more: entries beside those of `git` and `time`.
    """

    def __init__(
        self,
        folder: Path,
        caplog: pytest.LogCaptureFixture,
        is_agreed: Callable[[GatewayConfig], bool] = lambda config: True,
        **more: object,
    ) -> None:
        self.file, self._caplog = folder / "mcp.json", caplog
        self.write("git", "time", **more)
        files = ConfigFiles([self.file], {}, read_config([self.file], {}), is_agreed)
        self._changes = files.changes()
        self._next = asyncio.ensure_future(anext(self._changes))

    def write(self, *names: str, **more: object) -> None:
        """Write the config whole, as editors do."""
        servers = {**{name: {"command": sys.executable} for name in names}, **more}
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps({"mcpServers": servers}))
        new.rename(self.file)

    async def taken(self) -> list[str]:
        """Return the names of the servers that are taken next."""
        async with asyncio.timeout(PATIENCE_S):
            config, _ = await self._next
        self._next = asyncio.ensure_future(anext(self._changes))
        return [each.name for each in config.upstreams]

    async def refused(self) -> str:
        """Return why an edit is not taken, once that is told."""
        async with asyncio.timeout(PATIENCE_S):
            while not (told := [record.getMessage() for record in self._caplog.records]):
                assert not self._next.done(), "it was taken"
                await asyncio.sleep(0.01)
        return told[0]

    async def close(self) -> None:
        """Watch no more."""
        self._next.cancel()
        await asyncio.gather(self._next, return_exceptions=True)


@pytest.fixture(autouse=True)
def _at_once_and_errors_alone(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(process_io, "LOOK_S", 0.05)
    caplog.set_level(logging.ERROR, "agent_utilities.gateway")


async def test_a_server_that_cant_be_taken_is_kept_as_it_was_with_all_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    edited = Edited(tmp_path, caplog)
    try:
        edited.write("git", time={"command": 7})
        told = await edited.refused()
        assert told.startswith("the configuration is kept as it was: ")
        assert "mcpServers.time.command" in told
        edited.write("git", "time", "notes")
        assert await edited.taken() == ["git", "time", "notes"]
    finally:
        await edited.close()


async def test_one_that_could_not_be_taken_from_the_start_holds_up_no_edit_of_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    edited = Edited(tmp_path, caplog, odd={"command": 7})
    try:
        edited.write("git", "notes", odd={"command": 7})
        assert await edited.taken() == ["git", "notes"]
        edited.write("git", notes={"command": 8}, odd={"command": 7})
        assert "mcpServers.notes.command" in await edited.refused()
    finally:
        await edited.close()


async def test_an_edit_that_nobody_has_agreed_to_is_not_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    agreed: set[str] = {"git", "time", "notes"}
    edited = Edited(tmp_path, caplog, lambda config: {each.name for each in config.upstreams} <= agreed)
    try:
        edited.write("git", "time", "evil")
        assert "nobody has agreed to it yet" in await edited.refused()
        edited.write("git", "notes")
        assert await edited.taken() == ["git", "notes"]
    finally:
        await edited.close()


async def test_a_lock_that_is_removed_holds_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    locked = lock_path(tmp_path / "mcp.json")
    write_lock(locked, lock_of([]))
    edited = Edited(tmp_path, caplog)
    try:
        edited.write("git", "notes")
        assert await edited.taken() == ["git", "notes"]
        locked.unlink()
        assert "mcp.lock.json is gone: what it withholds is withheld" in await edited.refused()
        edited.write("git", "time")
        assert await edited.taken() == ["git", "time"]
    finally:
        await edited.close()

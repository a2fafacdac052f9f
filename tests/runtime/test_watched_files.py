"""Files that are watched: what counts as a change, whatever was done to them, and when it is over."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from agent_utilities.runtime import process_io
from agent_utilities.runtime.process_io import looked_at, touched
from tests.every import every

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _looking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_io, "LOOK_S", 0.005)


def written_alike(file: Path) -> None:
    """Write as many bytes, and set the time back, as tools that copy files do."""
    before = file.stat()
    file.write_text("other")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def exchanged(file: Path) -> None:
    new = file.with_name("new")
    new.write_text("first")
    new.replace(file)


def folder_exchanged(file: Path) -> None:
    """Have the link that a folder is lead to another one, as Kubernetes does."""
    (file.parents[1] / "..2").mkdir()
    (file.parents[1] / "..2" / "file").write_text("first")
    (file.parents[1] / "new").symlink_to("..2")
    (file.parents[1] / "new").replace(file.parent)


CHANGES: dict[str, Callable[[Path], object]] = {
    "written": lambda file: file.write_text("second"),
    "written alike": written_alike,
    "exchanged": exchanged,
    "permitted": lambda file: file.chmod(0o600),
    "removed": lambda file: file.unlink(),
    "folder": folder_exchanged,
    "a pipe": lambda file: (file.unlink(), os.mkfifo(file)),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file whose folder is a link; anybody may read it."""
    (tmp_path / "..1").mkdir()
    (tmp_path / "data").symlink_to("..1")
    made = tmp_path / "data" / "file"
    made.write_text("first")
    made.chmod(0o644)
    return made


async def second(changes: AsyncIterator[None], change: Callable[[], object]) -> None:
    """Return once a change is told of, beside the one that each has at its start."""
    async with asyncio.timeout(30):
        await anext(changes)
        change()
        await anext(changes)


@every("change", [pytest.param(change, id=name) for name, change in CHANGES.items()])
async def test_a_file_is_touched_that_was(change: Callable[[Path], object], file: Path) -> None:
    async with aclosing(touched([file])) as changes:  # type: ignore[type-var]
        await second(changes, lambda: change(file))


async def test_one_that_is_made_is_touched(tmp_path: Path) -> None:
    async with aclosing(touched([tmp_path / "none"])) as changes:  # type: ignore[type-var]
        await second(changes, (tmp_path / "none").touch)


async def test_nothing_is_touched_that_stays_as_it_is(file: Path) -> None:
    told = []
    async with aclosing(looked_at([file])) as looks:  # type: ignore[type-var]
        async for each in looks:
            told.append(each)
            if len(told) == 5:
                break
    assert told == [(True, False), (False, True), *[(False, False)] * 3]


async def test_a_change_is_told_at_once_and_again_when_it_is_over(file: Path) -> None:
    told = []
    async with aclosing(looked_at([file])) as looks:  # type: ignore[type-var]
        async for each in looks:
            told.append(each)
            if len(told) in (2, 3):  # while a look waits, somebody writes
                await asyncio.to_thread(file.write_text, "x" * len(told))
            if len(told) == 6:
                break
    assert told[2:] == [(True, False), (True, False), (False, True), (False, False)]

"""Records for tests: written by real logs, and edited as whoever can write the file may."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from agent_utilities.access.record.chain import Head, Report, verify, write_line
from agent_utilities.access.record.log import AuditLog, RecordFile, all_files

BIG = 1 << 30
DAY_S = 86_400.0


def audit_log(path: Path, *, max_bytes: int = BIG, max_age_s: float = DAY_S, **pace: float) -> AuditLog:
    """Return a log that is written quickly where nothing else is said."""
    log = AuditLog(RecordFile(path, max_bytes, max_age_s), {"event": "opened"})
    for name, value in {"gathers_s": 0.001, "pause_s": 0.02, **pace}.items():
        setattr(log, name, value)
    return log


@asynccontextmanager
async def running(path: Path, **options: Any) -> AsyncIterator[AuditLog]:
    """Write a log while the block runs."""
    log = audit_log(path, **options)
    log.start()
    try:
        yield log
    finally:
        await log.close({"event": "closed"})


async def write(path: Path, n: int, **options: Any) -> Head:
    """Write a chain with so many lines between its first and last, and return its head."""
    async with running(path, **options) as log:
        for number in range(n):
            await log.written(lambda number=number: {"event": "call", "number": number})  # type: ignore[misc]
    return log.head


def chain_text(n: int, **fields: Any) -> tuple[list[bytes], list[Head]]:
    """Return the lines of a chain, and the head that each leaves."""
    head, lines, heads = Head.of_new_chain(), [], []
    for number in range(n):
        line, head = write_line(head, 1_780_000_000 + number, {"event": "call", "number": number, **fields})
        lines.append(line)
        heads.append(head)
    return lines, heads


def of_file(path: Path, *heads: Head) -> Report:
    """Return what is found in a record, with the files that it was before."""
    return verify(all_files(path), heads)


def fill(disk: Path) -> Path:
    """Take all the room of a small disk, and return the file that does."""
    filler = disk / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(512))
    return filler


def said(path: Path, name: str = "event") -> list[Any]:
    """Return what each line of a record says under a name, in the order of the files."""
    texts = [line for file in all_files(path) for line in file.read_text().splitlines()]
    return [json.loads(text).get(name) for text in texts]

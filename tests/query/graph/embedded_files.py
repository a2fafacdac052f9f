"""The file of an embedded graph: worked with, looked into, held by another process, and on a small disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_utilities.query.graph.base import ToolRecord
from agent_utilities.query.graph.embedded import EmbeddedGraph
from agent_utilities.query.graph.sync import sync
from tests.query.graph.records import expected, held

_HOLDER = """
import sys, ladybug
database = ladybug.Database(sys.argv[1], max_db_size=1 << 30, buffer_pool_size=64 << 20)
connection = ladybug.Connection(database)
connection.execute("CREATE NODE TABLE IF NOT EXISTS Held(name STRING PRIMARY KEY)")
print("held", flush=True)
sys.stdin.read()
"""


def contents(folder: Path) -> dict[str, bytes]:
    """Return what each file in a folder holds, by name."""
    return {file.name: file.read_bytes() for file in folder.iterdir()}


async def check_works(graph: EmbeddedGraph, tools: list[ToolRecord]) -> None:
    """Open a graph, bring tools in, find them again, and close it."""
    await graph.open()
    await sync(graph, "s", tools, 1)
    assert await held(graph, "s") == expected(tools, "s")
    await graph.close()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let another process hold a file for a block; it is killed at its end."""
    command = [sys.executable, "-c", _HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        try:
            yield
        finally:
            holder.kill()


@contextmanager
def tmpfs(folder: Path, size: str, *options: str) -> Iterator[Path]:
    """Mount a small file system; where that is not allowed, the test is skipped."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", ",".join([f"size={size}", *options]), "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small file system can't be mounted here: that takes root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)

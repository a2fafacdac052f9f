"""A Redis for each test of a fleet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.processes.replicas import Shared, shared_redis


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    """A Redis of the test's own, in a folder of its own."""
    (folder := tmp_path / "redis").mkdir()
    with shared_redis(folder) as shared:
        yield shared

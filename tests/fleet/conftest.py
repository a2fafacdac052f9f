"""One Redis for a module of tests, emptied before each of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agent_utilities.state.redis_state import RedisState
from tests.fleet.processes.replicas import Shared, shared_redis


@pytest.fixture(scope="module")
def _redis_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    with shared_redis(tmp_path_factory.mktemp("redis")) as shared:
        yield shared


@pytest.fixture
def shared(_redis_of_module: Shared, monkeypatch: pytest.MonkeyPatch) -> Shared:
    """A Redis with nothing in it, which is waited for however busy the machine is."""
    monkeypatch.setattr(RedisState, "wait_s", 60.0)
    _redis_of_module.flush()
    return _redis_of_module


@pytest.fixture
def redis_here(shared: Shared) -> Shared:
    """One that has had what replicas share for long, so that a session it does not know is none."""
    shared.admin.set("agent-utilities:notes:begun", "long ago", ex=1000)
    return shared

"""One Redis for a module of tests, emptied before each of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agent_utilities.state.redis_state import RedisState
from tests.features.fleet.redis_here import RedisHere


@pytest.fixture(scope="module")
def _redis_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisHere]:
    here = RedisHere(tmp_path_factory.mktemp("redis"))
    yield here
    here.kill()


@pytest.fixture
def redis_here(_redis_of_module: RedisHere, monkeypatch: pytest.MonkeyPatch) -> RedisHere:
    """A Redis with nothing in it, which is waited for however busy the machine is."""
    monkeypatch.setattr(RedisState, "wait_s", 60.0)
    with _redis_of_module.client() as client:
        client.flushall()
    return _redis_of_module

"""One Redis for a module of tests, emptied before each of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.features.fleet.redis_here import RedisHere


@pytest.fixture(scope="module")
def _redis_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisHere]:
    here = RedisHere(tmp_path_factory.mktemp("redis"))
    yield here
    here.kill()


@pytest.fixture
def redis_here(_redis_of_module: RedisHere) -> RedisHere:
    """A Redis with nothing in it."""
    with _redis_of_module.client() as client:
        client.flushall()
    return _redis_of_module

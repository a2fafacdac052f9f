"""Values that replicas share, in a real Redis: sealed, each under its own name, and kept here while it is gone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from agent_utilities.state.redis_state import RedisState, SharedValues
from tests.every import every
from tests.fleet.processes.replicas import Shared, shared_redis

pytestmark = [pytest.mark.outside, pytest.mark.anyio]


@pytest.fixture(scope="module")
def _redis_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    with shared_redis(tmp_path_factory.mktemp("redis")) as shared:
        yield shared


@pytest.fixture
def shared(_redis_of_module: Shared) -> Shared:
    _redis_of_module.flush()
    return _redis_of_module


def state_of(shared: Shared) -> RedisState:
    state = RedisState(shared.url(), "agent-utilities", "one", bytes(range(32)))
    state.wait_s = 60.0
    return state


@pytest.fixture
async def stores(shared: Shared) -> AsyncIterator[list[SharedValues]]:
    """The same values at two replicas."""
    states = [state_of(shared) for _ in range(2)]
    yield [SharedValues(state, "values") for state in states]
    for state in states:
        await state.close()


async def test_are_kept_for_all_and_deleted_by_any(stores: list[SharedValues], shared: Shared) -> None:
    here, there = stores
    await here.put("a", {"v": 1})
    assert await there.get("a") == {"v": 1}
    assert await there.delete("a") is True  # it has none of its own
    assert await there.get("a") is None
    await here.put("a", {"v": 2})
    shared.flush()
    assert await here.delete("a") is True  # nobody else has it
    assert await here.delete("a") is False


async def test_of_one_collection_are_not_those_of_another(stores: list[SharedValues]) -> None:
    here, there = stores
    await here.put("a", {"v": 1}, collection="one")
    await here.put("a", {"v": 2}, collection="other")
    assert [await there.get("a", collection=name) for name in ("one", "other", None)] == [{"v": 1}, {"v": 2}, None]
    assert await there.delete("a", collection="one")
    assert await here.get("a", collection="other") == {"v": 2}


@every(("ttl", "seconds"), [(60, 60), (59.9, 59), (0.2, 1), (None, -1)])
async def test_are_kept_for_so_many_seconds(
    ttl: float | None, seconds: int, stores: list[SharedValues], shared: Shared
) -> None:
    shared.flush()
    await stores[0].put("a", {"v": 1}, ttl=ttl)
    (name,) = shared.admin.scan_iter()
    left_s = shared.admin.ttl(name)
    assert left_s == -1 if seconds < 0 else seconds - 20 < left_s <= seconds


@every("content", [b"[]", b"7", b"{}", b'{"value": 7}', b"no JSON"])
async def test_of_another_version_are_none(content: bytes, stores: list[SharedValues], shared: Shared) -> None:
    await stores[0].put("a", {"v": 1})
    (name,) = shared.admin.scan_iter()
    shared.admin.set(name, state_of(shared).sealed(name.decode(), content))
    assert await stores[1].get("a") is None


async def test_are_what_this_replica_set_while_redis_is_gone(stores: list[SharedValues], shared: Shared) -> None:
    here, there = stores
    await here.put("one", {"value": 1})
    shared.kill()
    assert (await here.get("one"), await there.get("one")) == ({"value": 1}, None)
    await here.put("two", {"value": 2}, collection="c")
    assert await here.get("two", collection="c") == {"value": 2}
    assert [await here.delete("two", collection="c") for _ in range(2)] == [True, False]
    assert await here.get("two", collection="c") is None
    shared.start()


async def test_of_one_name_can_not_be_put_under_another_nor_be_read(stores: list[SharedValues], shared: Shared) -> None:
    here, there = stores
    await here.put("ann:mail", {"value": "secret"})
    (ann,) = shared.admin.scan_iter("*")
    await here.put("bob:mail", {"value": "other"})
    (bob,) = set(shared.admin.scan_iter("*")) - {ann}
    assert not any(word in shared.told() for word in (b"secret", b"ann", b"mail"))
    shared.admin.copy(ann, bob, replace=True)
    shared.admin.set(ann, b'{"value": {"value": "mine"}}')
    assert [await there.get(name) for name in ("ann:mail", "bob:mail")] == [None, None]

"""Values that replicas share, in a real Redis."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_utilities.state.redis_state import RedisState
from agent_utilities.state.shared_values import SharedValues
from tests.fleet.services import redis_server

pytestmark = [pytest.mark.outside, pytest.mark.anyio]


async def test_are_kept_for_all_and_deleted_by_any(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        state = RedisState(server.url(), "agent-utilities", "one", bytes(range(32)))
        state.wait_s = 60.0
        here, there = SharedValues(state, "values"), SharedValues(state, "values")
        await here.put("a", {"v": 1})
        assert await there.get("a") == {"v": 1}
        assert await there.delete("a") is True  # it has none of its own
        assert await there.get("a") is None
        await here.put("a", {"v": 2})
        server.flush()
        assert await here.delete("a") is True  # nobody else has it
        assert await here.delete("a") is False
        await state.close()

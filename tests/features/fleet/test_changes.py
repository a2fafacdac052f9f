"""What one replica has seen of an upstream, another that has seen nothing begins with."""

from __future__ import annotations

from typing import Any, cast

import pytest

from agent_utilities.features.fleet.changes import Changes, SharedSnapshots
from agent_utilities.state.redis_state import RedisState
from agent_utilities.upstream.config import UpstreamConfig
from agent_utilities.upstream.snapshot import Snapshot
from tests.fleet.replicas import Shared
from tests.upstream.snapshots import config, snapshot, tool

pytestmark = [pytest.mark.anyio, pytest.mark.outside]


class Upstream:
    """An upstream as a replica knows it."""

    def __init__(self, of: UpstreamConfig, seen: Snapshot | None) -> None:
        self.config, self.snapshot = of, seen

    def learn(self, seen: Snapshot) -> None:
        self.snapshot = seen


class Silent:
    """Tells nobody."""

    async def tell(self, *_: object) -> None: ...


@pytest.mark.parametrize("own", [None, "own_tool"])
async def test_a_replica_begins_with_what_another_has_seen_where_it_has_seen_nothing(
    redis_here: Shared, own: str | None
) -> None:
    state = RedisState(redis_here.url(), "agent-utilities", "notes", b"k" * 32)
    try:
        of = config()
        await SharedSnapshots(state).save(snapshot(of, tool("others_tool")))
        upstream = Upstream(of, None if own is None else snapshot(of, tool(own)))
        changes = Changes(state, cast(Any, [upstream]), lambda work: work.close())
        await changes.compare(cast(Any, Silent()))
        assert upstream.snapshot is not None
        assert [each.name for each in upstream.snapshot.tools] == [own or "others_tool"]
    finally:
        await state.close()

"""A new replica lists at once what another has seen of upstreams, from what is sealed in Redis."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from fastmcp import Client

from agent_utilities import AgentServer, create_gateway
from agent_utilities.fleet.news import Changes, SharedSnapshots
from agent_utilities.gateway.upstreams.config import UpstreamConfig
from agent_utilities.gateway.upstreams.snapshot import Snapshot
from agent_utilities.state.redis_state import RedisState
from tests.every import every
from tests.fleet.processes.replicas import Shared, until
from tests.gateway.upstreams.snapshots import config, snapshot, tool
from tests.gateway.upstreams.supervised import FAULTY

pytestmark = [pytest.mark.anyio, pytest.mark.outside, pytest.mark.timeout(60)]
NEWS = "agent-utilities:gateway:news"
SEALED = "agent-utilities:gateway:snapshot:*"


def gateway(shared: Shared, folder: Path, name: str, **environ: str) -> AgentServer:
    """Return a replica with a folder of its own; its upstream answers nothing until a file is there."""
    one = {"command": "python3", "args": [str(FAULTY), f"wait-for={folder / 'open'}"]}
    kept = {"MCP_GRAPH": "off", "MCP_TOOL_SEARCH": "off", "MCP_GATEWAY_FOLDER": str(folder / name)}
    kept |= {"MCP_FIRST_LIST_S": "5"}
    return create_gateway({"mcpServers": {"one": one}}, environ={**kept, **shared.environ, **environ})


async def names(client: Client[Any]) -> set[str]:
    return {tool.name for tool in await client.list_tools()}


async def test_is_listed_by_a_replica_that_reaches_nothing(shared: Shared, tmp_path: Path) -> None:
    (tmp_path / "open").touch()
    async with Client(gateway(shared, tmp_path, "a")) as client:
        assert "one_echo" in (seen := await names(client))
        await until(lambda: any(shared.admin.scan_iter(SEALED)) and shared.admin.exists(NEWS) == 1)
        shared.admin.flushall()
        await until(lambda: any(shared.admin.scan_iter(SEALED)))
    (tmp_path / "open").unlink()
    async with Client(gateway(shared, tmp_path, "b")) as client:
        assert await names(client) == seen
    assert b"echo" not in shared.told()


async def test_that_a_stranger_wrote_is_not_used(shared: Shared, tmp_path: Path) -> None:
    (tmp_path / "open").touch()
    async with Client(gateway(shared, tmp_path, "a")) as client:
        await names(client)
        await until(lambda: any(shared.admin.scan_iter(SEALED)))
    (tmp_path / "open").unlink()
    (key,) = shared.admin.scan_iter(SEALED)
    sealed = shared.admin.get(key)
    assert isinstance(sealed, bytes)
    shared.admin.set(key, sealed[:-1] + bytes([sealed[-1] ^ 1]))
    async with Client(gateway(shared, tmp_path, "b", MCP_FIRST_LIST_S="0.5")) as client:
        assert "one_echo" not in await names(client)


class Upstream:
    """An upstream as a replica knows it."""

    def __init__(self, of: UpstreamConfig, seen: Snapshot | None) -> None:
        self.config, self.snapshot = of, seen

    def learn(self, seen: Snapshot) -> None:
        self.snapshot = seen


class Silent:
    """Tells nobody."""

    async def tell(self, *_: object) -> None: ...


@every("own", [None, "own_tool"])
async def test_a_replica_begins_with_what_another_has_seen_where_it_has_seen_nothing(
    shared: Shared, own: str | None
) -> None:
    state = RedisState(shared.url(), "agent-utilities", "notes", b"k" * 32)
    try:
        of = config()
        await SharedSnapshots(state).save(snapshot(of, tool("others_tool")))
        upstream = Upstream(of, None if own is None else snapshot(of, tool(own)))
        changes = Changes(state, cast(Any, [upstream]), lambda work: work.close())
        await changes.compare(cast(Any, Silent()))
        assert upstream.snapshot is not None
        assert [each["name"] for each in upstream.snapshot.tools] == [own or "others_tool"]
    finally:
        await state.close()

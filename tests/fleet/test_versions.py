"""Replicas of two releases side by side: the older one ignores what it does not know, and destroys nothing."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.fleet.feature import Fleet, _events
from agent_utilities.seam.feature import Feature
from agent_utilities.seam.host import find
from agent_utilities.seam.request import Request
from tests.fleet.processes.replicas import Shared
from tests.fleet.test_sessions import Talk, replica
from tests.server.in_process import web_of

pytestmark = [pytest.mark.anyio, pytest.mark.outside]


@dataclass(frozen=True)
class Visits:
    """What a feature of a newer release keeps of a session."""

    n: int = 0


class Visited(Feature):
    """A feature that the older release does not have."""

    name, keeps = "visited", Visits

    async def after_request(self, request: Request, result: dict[str, Any], call: Any) -> dict[str, Any]:
        assert request.session is not None
        n = request.session.update(self.name, Visits(), lambda before: Visits(before.n + 1)).n
        return {**result, "_meta": {"visits": n}}


def newer(redis: Shared) -> AgentServer:
    """Return a replica of a release with a feature more."""
    environ = {**redis.environ, "MCP_GRAPH": "off", "MCP_TOOL_SEARCH": "on"}
    server = create_mcp_server("notes", environ=environ, features=[Visited()])
    for name in ("read_note", "write_note", "count_notes"):
        server.tool(name=name)(lambda: "done")
    return server


async def test_what_a_newer_feature_keeps_outlasts_requests_at_the_older_one(redis_here: Shared) -> None:
    async with AsyncExitStack() as stack:
        new, old = [await stack.enter_async_context(web_of(each)) for each in (newer(redis_here), replica(redis_here))]
        talk = Talk()
        await talk.begin(old)
        await talk.call(new, "write_note")
        await talk.call(old, "count_notes")
        answer = await talk.call(new, "write_note")
        assert answer.json()["result"]["_meta"]["visits"] == 2
        assert {"write_note", "count_notes"} <= set(await talk.listed(new)) & set(await talk.listed(old))


async def test_what_is_known_to_newer_ones_alone_stays(redis_here: Shared) -> None:
    server = replica(redis_here)
    async with web_of(server) as old:
        talk = Talk()
        await talk.begin(old)
        await talk.call(old, "write_note")
        fleet = find(server, Fleet)
        assert fleet is not None
        name = redis_here.admin.keys("agent-utilities:notes:session:*")[0].decode().split("{")[1].rstrip("}")
        values, version = await fleet.state.load("session", name)
        values |= {"v": 2, "later": {"a": 1}, "record": {**values["record"], "later": 1}}
        values["tool_search"]["later"] = [1]
        await fleet.state.swap("session", name, version, values, 60)
        await talk.call(old, "count_notes")
        kept, _ = await fleet.state.load("session", name)
        assert {"write_note", "count_notes"} <= set(await talk.listed(old))
    assert (kept["v"], kept["later"], kept["record"]["later"]) == (2, {"a": 1}, 1)
    assert kept["tool_search"]["later"] == [1]


def test_usage_of_a_kind_or_with_a_field_that_is_unknown_is_left_out() -> None:
    assert _events(b'[{"kind": "Later", "a": 1}, {"a": 1}, {"kind": "Call", "later": 1}]') == []

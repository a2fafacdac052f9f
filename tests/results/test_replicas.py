"""Replicas share what is kept of results and who read on in them; where they can't, `/ready` says why."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_utilities.results.feature import Results
from agent_utilities.state.redis_state import RedisState
from tests.fleet.processes.replicas import Shared, shared_redis, until
from tests.fleet.test_sessions import Talk
from tests.parts import part
from tests.results.test_feature import github
from tests.server.in_process import web_of
from tests.usage.logs import rows

pytestmark = [pytest.mark.anyio, pytest.mark.outside]


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shared]:
    """A Redis of the test's own, which is waited for however busy the machine is."""
    monkeypatch.setattr(RedisState, "wait_s", 60.0)
    with shared_redis(tmp_path) as shared:
        yield shared


async def called(talk: Talk, web: httpx2.AsyncClient, name: str, **arguments: Any) -> dict[str, Any]:
    answer = await talk.send(web, "tools/call", name=name, arguments=arguments)
    result: dict[str, Any] = answer.json()["result"]
    return result


def handle_in(result: dict[str, Any]) -> str:
    return str(result["_meta"]["agent-utilities/result"]["handle"])


def reads(path: Path) -> list[tuple[Any, ...]]:
    """Return the reads in a log; none where it has no table of them yet."""
    with suppress(sqlite3.OperationalError):
        return rows(path, "SELECT tool, projection, n_reads FROM reads") if path.exists() else []
    return []


async def test_a_read_at_one_replica_is_in_the_log_of_another(shared: Shared, tmp_path: Path) -> None:
    paths = [tmp_path / "one.db", tmp_path / "other.db"]
    one, other = (github(**shared.environ, MCP_USAGE="counts", MCP_USAGE_FILE=str(path)) for path in paths)
    async with web_of(one) as web, web_of(other) as web_of_other:
        talk = Talk()
        await talk.begin(web)
        handle = handle_in(await called(talk, web, "list_issues"))
        await called(talk, web_of_other, "read_result", result=handle, select="[].title")
        await until(lambda: [reads(path) for path in paths] == [[("list_issues", "[].title", 1)]] * 2)


async def test_why_results_are_kept_in_one_process_alone_is_told_until_they_are_gone(shared: Shared) -> None:
    server = github(**shared.environ)
    async with web_of(server) as web:
        talk = Talk()
        await talk.begin(web)

        async def told() -> dict[str, Any]:
            return dict((await web.get("/ready")).json().get("results", {}))

        await called(talk, web, "list_issues")
        assert await told() == {}
        shared.kill()
        handle = handle_in(await called(talk, web, "list_issues"))
        found = await told()
        assert (found["status"], found["cause"][:12]) == ("apart", "redis failed")
        assert "400 items" in (await called(talk, web, "read_result", result=handle, select="@"))["content"][0]["text"]
        shared.start()
        part(server, Results)._bounded.kept.close()
        assert await told() == {}

"""What is logged of results: how many tokens they take, and which fields callers then read; never what is in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_utilities.seam.feature import Feature
from agent_utilities.seam.request import RESULT_TOKENS, Call, Request, ResultRead
from agent_utilities.usage.model import Read
from tests.every import every
from tests.server.servers import log_server
from tests.usage.logs import NOW_MS, flushed, rows, running
from tests.usage.test_recorder import calls, recorded

pytestmark = pytest.mark.anyio


class Counted(Feature):
    """Counts a result as of 900 tokens, of which 80 were given."""

    name = "counted"
    after = ("results",)

    async def after_request(self, request: Request, result: dict[str, Any], call: Call | None) -> dict[str, Any]:
        request.values[RESULT_TOKENS] = 900, 80
        return result


def read(projection: str) -> Read:
    return Read(NOW_MS, "demo", "ping", projection, 900, 80)


async def test_a_call_is_recorded_with_the_tokens_of_its_result() -> None:
    async with recorded(log_server(features=[Counted()])) as (client, events):
        await client.call_tool("tail_log")
    assert [(call.result_tokens, call.given_tokens) for call in calls(events)] == [(900, 80)]


async def test_a_read_is_recorded_with_the_names_that_were_selected() -> None:
    server = log_server()
    async with recorded(server) as (_, events):
        server.notify(ResultRead("tail_log", "lines[].{at: at}", 900, 80))
    (event,) = [each for each in list[Any](events) if isinstance(each, Read)]
    assert (event.server, event.tool, event.projection) == ("logs", "tail_log", "lines[].{at: at}")
    assert (event.n_tokens, event.n_selected) == (900, 80)


class TestProjection:
    @every(
        "projection",
        [
            "title",
            "[].{number: number, title: title}",
            "issues[].{number: number, user: user.login, labels: labels[].name}",
            "data.nodes[*].[sha, commit.message]",
            "*.name",
            "@",
            "a | b",
            '"@graph"[]."first-name"',
            "x" * 64,
            ", ".join(["x" * 49] * 6)[:300],
        ],
    )
    def test_of_names_alone_is_kept(self, projection: str) -> None:
        assert read(projection).projection == projection

    @every(
        "projection",
        [
            "issues[?state=='open'].title",
            "issues[?number > `5`]",
            "contains(title, 'secret')",
            "length(items)",
            "sort_by(items, &age)",
            "items[0]",
            "items[:5]",
            "`[1]`",
            "'text'",
            '"a name of words"',
            '"a\\nb"',
            '"mail@host.example"',
            "naïve",
            "a\nb",
            "1a",
            "x" * 65,
            ", ".join(["x" * 49] * 7),
            "a" * 100_000,
            "[]" * 50_000 + "!",
        ],
    )
    def test_that_could_hold_a_value_is_dropped(self, projection: str) -> None:
        assert read(projection).projection == ""

    @every("projection", ["tokens.ghp_16C7e42F292c6912E7710c838347Ae178B4a.name", "[].{password: hunter2}"])
    async def test_that_looks_like_a_secret_is_not_written(self, tmp_path: Path, projection: str) -> None:
        assert read(projection).projection
        async with running(tmp_path / "usage.db") as log:
            for each in (projection, "a.b"):
                log.record(read(each))
            await flushed(log)
        assert rows(tmp_path / "usage.db", "SELECT projection FROM reads ORDER BY id") == [("",), ("a.b",)]

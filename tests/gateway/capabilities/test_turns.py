"""Nine turns over six capabilities: what is on, listed and running after each, in a session and without one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.capabilities.turns import TURNS, WORDS, After, Talk, conversation, six

pytestmark = [pytest.mark.outside, pytest.mark.anyio]


@pytest.fixture(params=["session", "stateless"])
async def talk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Talk]:
    async with conversation(tmp_path, request.param) as talk:
        yield talk


async def test_nine_turns_have_on_list_and_run_exactly_what_their_words_and_calls_come_to(talk: Talk) -> None:
    expected = [
        After(
            turn.activated,
            turn.evicted,
            turn.active,
            frozenset(turn.active),
            tuple(sorted(f"{name}-server" for name in turn.active)),
        )
        for turn in TURNS
    ]
    assert [await talk.turn(turn) for turn in TURNS] == expected


async def test_a_list_counts_nothing_as_used(talk: Talk) -> None:
    for name in ("versioning", "files", "clock", "web"):
        await talk.list(WORDS[name])
    await talk.list("")
    _, told = await talk.list(WORDS["mail"])
    assert told["evicted"] == ["versioning"]


async def test_words_that_call_for_what_is_on_do_not_count_as_its_use(talk: Talk) -> None:
    for name in ("versioning", "files", "clock", "web", "versioning"):
        await talk.list(WORDS[name])
    _, told = await talk.list(WORDS["mail"])
    assert told["evicted"] == ["versioning"]


@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_words_that_the_operator_gave_once_for_all_switch_nothing_on(tmp_path: Path, era: str) -> None:
    async with conversation(tmp_path, era, MCP_QUERY=WORDS["files"]) as talk:
        _, told = await talk.list("")
    assert told["active"] == []
    assert "route" not in told


@pytest.mark.parametrize("era", ["session", "stateless"])
async def test_words_switch_nothing_on_where_the_operator_says_so(tmp_path: Path, era: str) -> None:
    async with conversation(tmp_path, era, six(routes=False)) as talk:
        _, told = await talk.list(WORDS["files"])
    assert told["active"] == []

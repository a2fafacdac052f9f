"""Nine turns over six capabilities: what is on, listed and running after each, in a session and without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.every import every
from tests.gateway.capabilities.turns import TURNS, WORDS, After, conversation, six

pytestmark = [pytest.mark.outside, pytest.mark.anyio]


@every("era", ["session", "stateless"])
async def test_nine_turns_have_on_list_and_run_exactly_what_words_and_calls_come_to(tmp_path: Path, era: str) -> None:
    async with conversation(tmp_path, era) as talk:
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


@every("era", ["session", "stateless"])
async def test_a_list_counts_nothing_as_used(tmp_path: Path, era: str) -> None:
    async with conversation(tmp_path, era) as talk:
        for name in ("versioning", "files", "clock", "web"):
            await talk.list(WORDS[name])
        await talk.list("")
        _, told = await talk.list(WORDS["mail"])
        assert told["evicted"] == ["versioning"]


@every("era", ["session", "stateless"])
async def test_words_that_call_for_what_is_on_do_not_count_as_its_use(tmp_path: Path, era: str) -> None:
    async with conversation(tmp_path, era) as talk:
        for name in ("versioning", "files", "clock", "web", "versioning"):
            await talk.list(WORDS[name])
        _, told = await talk.list(WORDS["mail"])
        assert told["evicted"] == ["versioning"]


@every("era", ["session", "stateless"])
async def test_words_that_the_operator_gave_once_for_all_switch_nothing_on(tmp_path: Path, era: str) -> None:
    async with conversation(tmp_path, era, MCP_QUERY=WORDS["files"]) as talk:
        _, told = await talk.list("")
    assert told["active"] == []
    assert "route" not in told


@every("era", ["session", "stateless"])
async def test_words_switch_nothing_on_where_the_operator_says_so(tmp_path: Path, era: str) -> None:
    async with conversation(tmp_path, era, six(routes=False)) as talk:
        _, told = await talk.list(WORDS["files"])
    assert told["active"] == []

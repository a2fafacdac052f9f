"""What holds after any steps of a router, whatever its settings."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_utilities import ToolRouter
from tests.search.catalogs import TOPICS, catalog, names

NAMES = names(catalog())
MESSAGES = st.sampled_from([*(f"what about the {noun}?" for noun in TOPICS), "rename all of them", "thanks"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("turn"), MESSAGES),
        st.tuples(st.just("search"), MESSAGES),
        st.tuples(st.just("select"), st.lists(st.sampled_from(NAMES), min_size=1, max_size=6)),
        st.tuples(st.just("touch"), st.sampled_from([*NAMES, "stranger"])),
    ),
    max_size=12,
)
SETTINGS = st.fixed_dictionaries(
    {
        "initial_k": st.integers(1, 12),
        "search_k": st.integers(1, 4),
        "search_turns": st.integers(1, 4),
        "max_active": st.integers(0, 5),
        "max_tools": st.none() | st.integers(1, 30),
        "pins": st.sampled_from(["", "weather_*", "*_rename,song_show"]),
    }
)


async def take(router: ToolRouter, kind: str, asked: Any) -> Any:
    """Take one step; return what it says of what it added and evicted."""
    match kind:
        case "turn":
            return await router.turn(asked)
        case "search":
            return await router.search(asked)
        case "select":
            return await router.search("select:" + ",".join(asked))
    return router.touch(asked)


def rest(router: ToolRouter) -> list[str]:
    """Return the names of what is listed, without entry tools."""
    return [name for name in names(router.tools()) if name not in ("tool_search", "call_tool")]


@settings(max_examples=100)
@given(SETTINGS, STEPS)
def test_a_list_only_grows_at_its_end_but_for_what_was_told_to_go_out_and_keeps_its_caps(
    given_settings: dict[str, Any], steps: list[tuple[str, Any]]
) -> None:
    async def run() -> None:
        router = ToolRouter(catalog(), **given_settings)
        pins = rest(router)
        for kind, asked in steps:
            before = rest(router)
            told = await take(router, kind, asked)
            after = rest(router)
            stayed = [name for name in before if name not in told.evicted]
            assert after[: len(stayed)] == stayed
            assert len(after) == len(set(after))
            assert after[: len(pins)] == pins
            added = told.activated if kind in ("search", "select") else told.added
            assert after[len(stayed) :] == list(added)
            assert not given_settings["max_active"] or len(router.active.loaded) <= given_settings["max_active"]
            assert given_settings["max_tools"] is None or len(after) <= max(0, given_settings["max_tools"] - 2)
            assert router.active.n_turns <= given_settings["search_turns"]

    asyncio.run(run())


@settings(max_examples=50)
@given(SETTINGS, STEPS, STEPS)
def test_the_same_steps_give_the_same_bytes_and_a_childs_give_its_parent_none(
    given_settings: dict[str, Any], steps: list[tuple[str, Any]], childs: list[tuple[str, Any]]
) -> None:
    async def run() -> None:
        first, second = ToolRouter(catalog(), **given_settings), ToolRouter(catalog(), **given_settings)
        for kind, asked in steps:
            await take(first, kind, asked)
            await take(second, kind, asked)
        assert first.tools("openai") == second.tools("openai")
        handed_over = ToolRouter(catalog(), active=first.active_value, **given_settings)
        assert handed_over.tools() == first.tools()
        child = first.child()
        for kind, asked in childs:
            await take(child, kind, asked)
            await take(handed_over, kind, asked)
        assert first.tools() == second.tools()
        assert child.tools() == handed_over.tools()

    asyncio.run(run())

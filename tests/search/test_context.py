"""What a router's tools cost in a prompt, by section and server."""

from __future__ import annotations

import pytest

from agent_utilities import ToolRouter
from agent_utilities.catalog.context import n_tokens
from tests.search.catalogs import N_TOOLS, catalog

pytestmark = pytest.mark.anyio


def cost(router: ToolRouter) -> int:
    return sum(map(n_tokens, router.tools()))


async def test_sections_are_those_of_the_list_and_of_what_is_not_in_it() -> None:
    router = ToolRouter(catalog(), pins=["weather_*"])
    await router.turn("the photo")
    await router.search("select:song_show,ticket_show")
    report = router.context()
    counted = {(row.section, row.server): row.n_tools for row in report.rows if row.section != "deferred"}
    assert counted == {
        ("entry tools", ""): 2,
        ("pins", "weather"): 7,
        ("attached", "photo"): 7,
        ("active", "song"): 1,
        ("active", "ticket"): 1,
    }
    assert sum(row.n_tools for row in report.rows if row.section == "deferred") == N_TOOLS - 16


async def test_the_total_is_what_the_list_costs() -> None:
    router = ToolRouter(catalog(), pins=["weather_show"])
    await router.turn("the photo")
    await router.search("song")
    assert router.context().total == cost(router)
    assert router.context().undeferred_tokens == cost(ToolRouter(catalog(), tool_search="off"))


def test_where_nothing_is_deferred_all_of_it_is_listed() -> None:
    report = ToolRouter(catalog(), tool_search="off").context()
    assert {row.section for row in report.rows} == {"listed"}
    assert report.total == report.undeferred_tokens

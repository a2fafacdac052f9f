"""What is in the prompt on every turn, by server and section, and what that costs a day."""

from __future__ import annotations

import re

import pytest

from agent_utilities import AgentServer
from agent_utilities.catalog.context import SECTIONS
from tests.every import every
from tests.page.looking import opened
from tests.page.test_door import notes

pytestmark = pytest.mark.anyio


def server(**environ: str) -> AgentServer:
    made = notes(**environ)
    for i in range(30):
        made.tool(name=f"tool_{i}", description=f"Do what number {i} does, at length. " * 9)(lambda: "done")
    return made


def money(page: str) -> list[float]:
    return [float(each.replace(",", "")) for each in re.findall(r"\$([\d,]+\.\d\d)", page)]


class TestMoney:
    @every(
        ("query", "dollars_per_token"),
        [("", 0.003), ("price=2&turns=50", 0.0001), ("price=0", 0), ("turns=1e3", 0.003)],
    )
    async def test_is_tokens_times_turns_times_price(self, query: str, dollars_per_token: float) -> None:
        async with opened(server(MCP_TOOL_SEARCH="on")) as web:
            page = (await web.get(f"/page/prompt?{query}")).text
            rows = (await web.get("/page/prompt?format=json")).json()["prompt"]
        in_prompt = sum(row["tokens"] for row in rows if row["section"] != "deferred")
        (all_of_it,) = re.findall(r"<title>all permitted tools: ([\d,]+)</title>", page)
        undeferred = int(all_of_it.replace(",", ""))
        assert undeferred > in_prompt > 0
        expected = [in_prompt, undeferred, undeferred - in_prompt]
        assert money(page) == pytest.approx([each * dollars_per_token for each in expected], abs=0.011)

    @every("query", ["price=-1", "price=many", "turns=1e10", "turns=nan", "price=inf"])
    async def test_of_what_is_no_number_is_refused_with_one_that_would_do(self, query: str) -> None:
        async with opened(notes()) as web:
            answer = await web.get(f"/page/prompt?{query}")
        name = query.partition("=")[0]
        hint = {"price": 3, "turns": 1000}[name]
        assert answer.status_code == 400
        assert f"{name} can&#39;t be read" in answer.text
        assert f"such as {hint}" in answer.text

    @every("query", ["price=", "turns=%20", "price=1e9&turns=0"])
    async def test_of_nothing_and_of_the_bounds_themselves_is_counted(self, query: str) -> None:
        async with opened(notes()) as web:
            assert (await web.get(f"/page/prompt?{query}")).status_code == 200


class TestDrawing:
    async def test_has_each_section_where_the_one_before_it_ends(self) -> None:
        async with opened(server(MCP_TOOL_SEARCH="on")) as web:
            page = (await web.get("/page/prompt")).text
            rows = (await web.get("/page/prompt?format=json")).json()["prompt"]
        drawn = re.findall(r'<rect class="section-([\w-]+)" x="([\d.]+)%" width="([\d.]+)%"', bar_of(page, "notes"))
        ends = 0.0
        for _, x, width in drawn:
            assert float(x) == pytest.approx(ends, abs=0.02)
            ends = float(x) + float(width)
        tokens = {row["section"].replace(" ", "-"): row["tokens"] for row in rows}
        widths = {name: float(width) for name, _, width in drawn}
        assert set(widths) == set(tokens)
        scale = widths["deferred"] / tokens["deferred"]
        assert widths == {name: pytest.approx(n * scale, abs=0.02) for name, n in tokens.items()}

    async def test_is_labelled_with_all_that_is_drawn(self) -> None:
        async with opened(server(MCP_TOOL_SEARCH="on")) as web:
            page = (await web.get("/page/prompt")).text
            rows = (await web.get("/page/prompt?format=json")).json()["prompt"]
        deferred = sum(row["tokens"] for row in rows if row["section"] == "deferred")
        in_prompt = sum(row["tokens"] for row in rows) - deferred
        assert f"{in_prompt:,} in the prompt, {deferred:,} deferred" in bar_of(page, "notes")
        assert min(in_prompt, deferred) > 0

    async def test_has_a_mark_of_its_own_for_each_kind_and_a_colour(self) -> None:
        async with opened(server()) as web:
            page, sheet = (await web.get("/page/prompt")).text, (await web.get("/page/static/page.css")).text
        names = [section.replace(" ", "-") for section in SECTIONS]
        colours = [re.findall(rf"\.section-{name} {{ fill: ([^;]+);", sheet) for name in names]
        assert all(len(each) == 1 for each in colours)
        assert len({each[0] for each in colours}) == len(SECTIONS)
        marks = dict(re.findall(r'<pattern id="mark-([\w-]+)"[^>]*>(.*?)</pattern>', page, re.S))
        assert set(marks) == set(names)
        assert len(set(marks.values())) == len(SECTIONS)


def bar_of(page: str, server: str) -> str:
    """Return the markup of a server's bar, with its label."""
    (found,) = re.findall(rf'<div class="bar-row"><span>{server}</span>(.*?)</div>', page, re.S)
    return re.sub(r"\s+", " ", found)

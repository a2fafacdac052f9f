"""The page on features: its example is a feature that works, and its table names every method."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent_utilities import Feature
from agent_utilities.testing import client
from tests.docs.test_readme import example
from tests.server.in_process import ask, web_of

TEXT = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
WEDNESDAY = datetime(2026, 11, 25, 12, tzinfo=UTC)


@pytest.fixture
def page() -> dict[str, Any]:
    """What the page's example defines."""
    scope: dict[str, Any] = {"__name__": "extending"}
    exec(compile(example("office hours", TEXT), "extending.md", "exec"), scope)
    return scope


@pytest.mark.anyio
class TestOfficeHours:
    async def test_tools_that_write_are_there_in_office_hours_only(self, page: dict[str, Any]) -> None:
        hours, mcp = next(each for each in page["mcp"].features if each.name == "office-hours"), page["mcp"]
        hours.now = lambda: WEDNESDAY
        async with client(mcp) as caller:
            assert [tool.name for tool in await caller.list_tools()] == ["read_note", "write_note"]
            assert (await caller.call_tool("write_note", {"name": "a", "text": "b"})).data == "written"
            hours.now = lambda: WEDNESDAY.replace(day=28)
            assert [tool.name for tool in await caller.list_tools()] == ["read_note"]
            refused = await caller.call_tool("write_note", {"name": "a", "text": "b"}, raise_on_error=False)
            assert refused.is_error

    async def test_models_and_operators_are_told(self, page: dict[str, Any]) -> None:
        async with web_of(page["mcp"]) as web:
            assert (await web.get("/ready")).json()["office"] in ("open", "closed")
            told = (await ask(web, "/mcp", "server/discover")).json()["result"]["instructions"]
        assert "weekdays from 8 to 18 o'clock" in told


def test_the_example_is_at_most_forty_lines_of_a_feature() -> None:
    code = example("office hours", TEXT)
    assert len(code[: code.index("mcp = ")].strip().splitlines()) <= 40


def test_the_table_names_every_method_but_reports() -> None:
    methods = {name for name, value in vars(Feature).items() if callable(value) and not name.startswith("_")}
    table = TEXT[TEXT.index("## What a feature can give") : TEXT.index("## What a feature can't")]
    assert {name for name in methods if f"`{name}" not in table} == {"report"}
    assert set(re.findall(r"`(\w+)\(", table)) <= methods

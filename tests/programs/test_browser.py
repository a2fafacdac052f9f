"""A program that pages at one replica, is agreed to in a real browser at the other, and goes on there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fastmcp import Client

from tests.fleet.processes.replicas import shared_redis
from tests.page.browser import Visiting
from tests.page.conftest import browser, visit
from tests.page.looking import key_of
from tests.page.serving import in_a_loop_of_its_own
from tests.programs.servers import Ran, Tracker, ran
from tests.server.servers import running

__all__ = ["browser", "visit"]
pytest.importorskip("pydantic_monty")
pytestmark = pytest.mark.outside
REPORT = """
numbers = []
page = 1
while page:
    found = await list_issues(repo="a/b", page=page)
    numbers += [issue["number"] for issue in found["items"]]
    page = found.get("next")
await write(path="report.txt", text=str(len(numbers)))
"""


def test_a_program_goes_on_at_the_replica_whose_page_was_answered(visit: Visiting, tmp_path: Path) -> None:
    with shared_redis(tmp_path) as shared:
        one, other = Tracker(**shared.environ), Tracker(**shared.environ)
        with running(one.server) as first, running(other.server) as second:

            async def at(url: str, code: str, **given: str) -> Ran:
                async with Client(f"{url}/mcp", mode="2026-07-28") as client:
                    return await ran(client, code, **given)

            stopped = in_a_loop_of_its_own(lambda: at(first, REPORT))
            handle = re.search(r'resume="(r_\w+)"', stopped.text)
            assert handle is not None
            page = visit(f"{second}/?key={key_of(other.server)}").page
            page.goto(f"{second}/page/approvals")
            row = page.locator("#shown tbody tr")
            row.wait_for(timeout=10_000)
            assert "report.txt" in row.inner_text()
            row.get_by_role("button", name="Yes").click()
            page.get_by_role("button", name="Yes").click()
            ended = in_a_loop_of_its_own(lambda: at(second, "", resume=handle[1]))
    assert ended.texts == ["wrote 2 characters"]
    assert [len(each.calls) for each in (one, other)] == [5, 1]

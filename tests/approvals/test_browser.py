"""The list of what waits, in a browser that is open: a call comes in by itself, and is answered by two presses."""

from __future__ import annotations

import pytest
from fastmcp import Client

from tests.approvals.asked import called, files
from tests.page.browser import Visiting
from tests.page.conftest import browser, visit
from tests.page.looking import key_of
from tests.page.serving import in_a_loop_of_its_own
from tests.server.servers import running

__all__ = ["browser", "visit"]
pytestmark = pytest.mark.outside


def test_a_call_comes_in_by_itself_and_is_made_after_a_yes(visit: Visiting) -> None:
    server, made = files()
    with running(server) as url:

        async def call() -> str:
            async with Client(f"{url}/mcp") as client:
                return await called(client, "remove", path="<b>/a</b>\u202eb")

        page = visit(f"{url}/?key={key_of(server)}").page
        page.goto(f"{url}/page/approvals")
        assert page.locator("#shown tbody tr").count() == 0
        in_a_loop_of_its_own(call)
        row = page.locator("#shown tbody tr")
        row.wait_for(timeout=10_000)
        assert "path: <b>/a</b>\\u202eb" in row.inner_text()
        row.get_by_role("button", name="Yes").click()
        assert "remove of files" in page.locator(".question").inner_text()
        page.get_by_role("button", name="Yes").click()
        assert "yes: remove of files" in page.locator(".told").inner_text()
        assert "removed" in in_a_loop_of_its_own(call)
    assert len(made) == 1

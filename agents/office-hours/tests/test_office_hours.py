"""Office hours: a feature of another package, which is loaded where it is named, and refuses calls by its own rule."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agent_utilities import AgentServer, Feature, Host, Panel, SettingsError, create_mcp_server
from agent_utilities.testing import client
from office_hours import OfficeHours
from tests.command_line import run_command
from tests.page.looking import opened

CLOSED = {"MCP_FEATURES": "office-hours", "MCP_OFFICE_OPENS": "0", "MCP_OFFICE_CLOSES": "24"}


@pytest.fixture(autouse=True)
def on_a_sunday(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sunday(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime(2026, 11, 29, 12, tzinfo=tz or UTC)

    monkeypatch.setattr("office_hours.datetime", Sunday)


def server(**environ: str) -> AgentServer:
    mcp = create_mcp_server("notes", environ=environ)

    @mcp.tool(annotations={"readOnlyHint": True})
    def read_note() -> str:
        return "read"

    @mcp.tool
    def write_note() -> str:
        return "written"

    return mcp


@pytest.mark.anyio
class TestOfficeHours:
    async def test_a_tool_that_writes_is_refused_and_its_caller_is_told_when_it_may_be_called(self) -> None:
        async with client(server(**CLOSED, MCP_OFFICE_ZONE="Europe/Vienna")) as caller:
            refused = await caller.call_tool("write_note", {}, raise_on_error=False)
            assert (await caller.call_tool("read_note", {})).data == "read"
        assert refused.is_error
        assert "on weekdays from 0 to 24 o'clock (Europe/Vienna)" in refused.content[0].text

    async def test_it_is_not_there_where_it_is_not_named(self) -> None:
        mcp = server()
        async with client(mcp) as caller:
            assert (await caller.call_tool("write_note", {})).data == "written"
        assert mcp.offered(OfficeHours) == []

    async def test_the_page_and_metrics_show_what_it_refused(self) -> None:
        mcp = server(**CLOSED)
        async with client(mcp) as caller:
            await caller.call_tool("write_note", {}, raise_on_error=False)
        async with opened(mcp) as web:
            assert "office_hours_refused 1.0" in (await web.get("/metrics")).text
            page = (await web.get("/page/office-hours")).text
            told = (await web.get("/page/office-hours?format=json")).json()
        assert "Office hours" in page
        assert "calls refused" in page
        assert told["office hours"][0]["calls refused"] == 1

    async def test_a_value_that_can_not_be_is_refused_with_where_it_comes_from(self) -> None:
        with pytest.raises(SettingsError, match=r"'99' \(from env MCP_OFFICE_OPENS\)"):
            server(**CLOSED | {"MCP_OFFICE_OPENS": "99"}).complete()

    async def test_a_name_that_is_no_feature_is_refused_with_the_nearest(self) -> None:
        with pytest.raises(SettingsError, match="did you mean office-hours"):
            server(MCP_FEATURES="office-hour").complete()


def test_the_command_line_has_its_options(capfd: pytest.CaptureFixture[str]) -> None:
    environ = {"MCP_FEATURES": "office-hours", "MCP_CONFIG_FILE": "none"}
    for value, code in (("7", 0), ("noon", 2)):
        mcp = create_mcp_server("notes")
        done = run_command(mcp.cli, ["notes", "--office-opens", value, "--list"], environ, capfd)
        assert done.returncode == code, done.stderr
    assert "'noon' (from option --office-opens)" in done.stderr


@pytest.mark.anyio
async def test_a_panel_that_fails_takes_no_other_along() -> None:
    class Broken(Feature):
        name = "broken"

        def attach(self, host: Host) -> None:
            super().attach(host)
            host.offer(Panel, lambda: Panel("hidden", "Hidden", self.look, is_there=self.fail))
            host.offer(Panel, lambda: Panel("shown", "Shown", self.look))

        def fail(self, host: Host) -> bool:
            raise RuntimeError("it failed")

        async def look(self, *_: object) -> dict[str, Any]:
            raise RuntimeError("it failed")

    async with opened(create_mcp_server("notes", environ={}, features=[Broken()])) as web:
        assert (await web.get("/")).status_code == 200
        shown = await web.get("/page/shown")
        assert (shown.status_code, "it failed, see the server" in shown.text) == (500, True)
        assert (await web.get("/page/hidden")).status_code == 404

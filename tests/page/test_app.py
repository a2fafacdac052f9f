"""The caller's context as an MCP app: for clients that show apps alone, and only where the operator wants it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mcp_types
import pytest
from fastmcp import Client
from fastmcp.apps import UI_EXTENSION_ID
from mcp.client.extension import advertise

from agent_utilities import AgentServer
from agent_utilities.page.app import NAME, URI
from tests.every import every
from tests.page.browser import chromium
from tests.page.test_door import notes

pytestmark = pytest.mark.anyio
ERAS = ("auto", "legacy")


def client(server: AgentServer, era: str, *, shows_apps: bool) -> Client[Any]:
    return Client(server, mode=era, extensions=[advertise(UI_EXTENSION_ID)] if shows_apps else None)


@every("era", ERAS)
async def test_is_listed_and_called_by_clients_that_show_apps_alone(era: str) -> None:
    server = notes(MCP_PAGE_APP="on")
    async with client(server, era, shows_apps=True) as showing, client(server, era, shows_apps=False) as plain:
        listed = [[tool.name for tool in await each.list_tools()] for each in (showing, plain)]
        result = await showing.call_tool(NAME, {})
        refused = await plain.call_tool(NAME, {}, raise_on_error=False)
        page = await showing.read_resource(URI)
    assert listed == [[NAME, "read_note"], ["read_note"]]
    told = result.structured_content
    assert told is not None
    assert told["total"] == sum(row["tokens"] for row in told["rows"])
    (text,) = result.content
    assert isinstance(text, mcp_types.TextContent)
    assert text.text == f"{told['line']}; {told['total']:,} tokens on every turn, counted by {told['tokenizer']}"
    assert refused.is_error
    assert page[0].mime_type == "text/html;profile=mcp-app"


@every("environ", [{}, {"MCP_PAGE_APP": "on", "MCP_DISABLED_TOOLS": NAME}])
async def test_is_off_by_default_and_where_it_is_denied(environ: dict[str, str]) -> None:
    async with client(notes(**environ), "auto", shows_apps=True) as showing:
        assert [tool.name for tool in await showing.list_tools()] == ["read_note"]


@pytest.mark.outside
def test_draws_what_a_host_hands_it(tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    app = Path(__file__).parents[2] / "agent_utilities/page/static/app.html"
    host = tmp_path / "host.html"
    rows = '[{"section": "listed", "server": "<b>x</b>", "n_tools": 2, "tokens": 1234}]'
    host.write_text(f"""<iframe id="app" src="file://{app}"></iframe><script>
    addEventListener("message", ({{ source, data }}) => {{
      if (data.method === "ui/initialize") source.postMessage({{ jsonrpc: "2.0", id: data.id, result: {{}} }}, "*");
      if (data.method === "ui/notifications/initialized") source.postMessage({{ jsonrpc: "2.0",
        method: "ui/notifications/tool-result",
        params: {{ structuredContent: {{ total: 1234, line: "2 of 2 listed", rows: {rows} }} }} }}, "*");
    }});</script>""")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"file://{host}")
        frame = page.frame_locator("#app")
        frame.locator("td").first.wait_for()
        assert frame.locator("#total").inner_text() == "1,234"
        assert frame.locator("tbody tr").inner_text().split("\t") == ["listed", "<b>x</b>", "2", "1,234"]
        browser.close()

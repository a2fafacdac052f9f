"""What results cost, on the page: beside what lists cost, and of each call; nothing of what a reader may not know."""

from __future__ import annotations

import html
import json
import re
import time
import tomllib
from pathlib import Path

import pytest

from agent_utilities import create_mcp_server
from agent_utilities.usage.model import Call, Listed, Read, UsageBounds, read_salt, subject_key
from agent_utilities.usage.store import UsageStore
from tests.access.team import Team
from tests.page.looking import logged_in, opened
from tests.page.test_door import notes
from tests.page.test_panels import READERS, call, without_key
from tests.server.in_process import web_of
from tests.usage.test_results import Counted

pytestmark = pytest.mark.anyio
NOW_MS = int(time.time() * 1000)
SETTING = re.compile(r'<pre id="result-\d"[^>]*>(.*?)</pre>', re.S)


def logged(path: Path, server: str, *tools: str, subject: str = "") -> dict[str, str]:
    """Write a log of long results that were read on, and return the environment of a server that has it."""
    store = UsageStore(path, UsageBounds(30, 1000))
    for tool in tools:
        store.write([Call(NOW_MS, server, tool, subject=subject, result_tokens=120_000, given_tokens=7_500)] * 2)
        store.write([Read(NOW_MS, server, tool, "issues[].title", 120_000, 7_200)] * 3)
        store.write([Listed(NOW_MS, server, tool, "", 100, 150)])
    store.close()
    return {"MCP_USAGE": "counts", "MCP_USAGE_FILE": str(path)}


class TestPrompt:
    async def test_has_what_results_cost_beside_lists(self, tmp_path: Path) -> None:
        async with opened(notes(**logged(tmp_path / "usage.db", "notes", "read_note"))) as web:
            page = (await web.get("/page/prompt")).text
            tables = (await web.get("/page/prompt?format=json")).json()
        assert '<span class="big">15,000</span> tokens of results were given in 30 days, beside 15,000 of lists' in page
        assert tables["results"] == [
            {"server": "notes", "tool": "read_note", "calls": 2, "tokens": 240_000, "given": 15_000}
        ]

    async def test_has_a_setting_to_copy_for_results_that_callers_read_on_in(self, tmp_path: Path) -> None:
        async with opened(notes(**logged(tmp_path / "usage.db", "notes", "read_note"))) as web:
            page = html.unescape((await web.get("/page/prompt")).text)
        assert "50.0 % of what you pay is read_note: this line would take 94 % of a whole result away" in page
        (setting,) = SETTING.findall(page)
        assert tomllib.loads(setting) == {"results": {"read_note": {"select": "issues[].title"}}}

    async def test_says_nothing_of_results_where_none_is_counted(self, tmp_path: Path) -> None:
        pages = []
        for environ in ({"MCP_USAGE": "off"}, {"MCP_USAGE": "counts", "MCP_USAGE_FILE": str(tmp_path / "usage.db")}):
            async with opened(notes(**environ)) as web:
                pages.append((await web.get("/page/prompt")).text)
        assert ["Tokens of results" in page for page in pages] == [False, False]

    async def test_is_shown_where_the_log_can_not_be_read(self, tmp_path: Path) -> None:
        (tmp_path / "usage.db").write_text("somebody else's")
        async with opened(notes(MCP_USAGE="counts", MCP_USAGE_FILE=str(tmp_path / "usage.db"))) as web:
            answer = await web.get("/page/prompt")
        assert (answer.status_code, "Tokens of results" in answer.text) == (200, False)

    async def test_is_a_twins_for_who_may_not_know_a_tool(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        told = []
        for tools in (("git_push", "git_log"), ("git_log",)):
            folder = tmp_path_factory.mktemp("team")
            team, path = Team(folder, READERS), folder / "usage.db"
            of_bob = subject_key(read_salt(path), json.dumps(("sub", "local", "bob")))
            environ = {**logged(path, "team", *tools, subject=of_bob), "MCP_USAGE_SCOPE": "subject"}
            logged(path, "team", *tools, subject="of somebody else")
            server = team.server(environ)
            if "git_push" not in tools:
                server.local_provider.remove_tool("git_push")
            async with logged_in(server, team.token("bob")["authorization"].split()[1]) as web:
                told.append(without_key((await web.get("/page/prompt")).text))
        assert told[0] == told[1]
        assert '<span class="big">15,000</span> tokens of results were given in 30 days.' in told[0]
        assert ("of what you pay" in told[0], SETTING.findall(told[0])) == (False, [])

    async def test_has_no_calls_of_others_where_they_are_counted_for_all_together(self, tmp_path: Path) -> None:
        team = Team(tmp_path, READERS)
        server, ann, bob = (
            team.server(logged(tmp_path / "u.db", "team", "git_log")),
            team.token("ann"),
            team.token("bob"),
        )
        async with web_of(server) as web:
            pages = [(await web.get("/page/prompt", headers=who)).text for who in (ann, bob)]
        assert ["Tokens of results" in page for page in pages] == [True, False]


class TestCalls:
    async def test_tell_how_many_tokens_of_a_result_were_given(self) -> None:
        server = create_mcp_server("notes", environ={"MCP_GRAPH": "off"}, features=[Counted()])
        server.tool(name="read_note")(lambda: "done")
        async with opened(server) as web:
            await call(web, "read_note", {})
            page = (await web.get("/page/calls")).text
            (row,) = (await web.get("/page/calls?format=json")).json()["calls"]
        assert (row["result_tokens"], row["given_tokens"]) == (900, 80)
        assert re.search(r'<td class="number"[^>]*>80 of 900</td>', page)

    async def test_have_as_many_cells_as_headings(self) -> None:
        server = notes()
        async with opened(server) as web:
            await call(web, "read_note", {"name": "x"})
            page = (await web.get("/page/calls")).text
        head, row = re.findall(r"<tr.*?</tr>", page, re.S)[:2]
        assert len(re.findall("<th ", head)) == len(re.findall("<t[hd][ >]", row)) == 12

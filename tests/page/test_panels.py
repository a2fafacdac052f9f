"""What panels show: the decision that a request gets, and nothing that their reader may not know."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import unicodedata
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_utilities import AgentServer
from agent_utilities.page.feature import Seen
from agent_utilities.page.site import _as_csv, _environment
from agent_utilities.seam.panel import Table
from tests.access.team import Team
from tests.every import every
from tests.page.looking import ORIGIN, form_key, logged_in, opened
from tests.page.test_door import TEAM, notes
from tests.server.in_process import listed
from tests.wire.wires import modern_request

pytestmark = pytest.mark.anyio

READERS = (
    TEAM.replace('subject = "bob" }}\nprofile = "all"', 'subject = "bob" }}\nprofile = "no_push"')
    + """
[profiles.no_push]
disabled_tools = ["git_push"]
"""
)


async def tools_of(web: httpx2.AsyncClient, query: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (await web.get(f"/page/surface?format=json&{query}")).json()["tools"]
    return rows


def many(n: int) -> AgentServer:
    server = notes(MCP_DISABLED_TAGS="secret")
    for i in range(n):
        server.tool(name=f"tool_{i}", tags={"secret"} if i % 2 else {"plain"})(lambda: "done")
    return server


class TestSurface:
    @every(
        "query",
        ["", "tools=tool_0", "disabled_tags=plain", "read_only=true", "q=note", "top_k=1&q=tool", "tool_search=on"],
    )
    async def test_lists_what_a_client_is_listed(self, query: str) -> None:
        async with opened(many(6)) as web:
            rows = await tools_of(web, query)
            there = await listed(web, f"/mcp?{query}")
        assert sorted(row["name"] for row in rows if row["verdict"] == "visible") == sorted(there)

    async def test_says_which_rule_denies(self) -> None:
        async with opened(many(2)) as web:
            rows = {row["name"]: row for row in await tools_of(web, "disabled_tools=read_note")}
        assert (rows["tool_1"]["verdict"], rows["read_note"]["verdict"]) == ("denied", "denied")
        assert rows["tool_1"]["reason"] == "denied by tag (env MCP_DISABLED_TAGS)"
        assert "disabled_tools" in rows["read_note"]["reason"]

    async def test_counts_what_is_saved(self) -> None:
        async with opened(many(4)) as web:
            rows, page = await tools_of(web, ""), (await web.get("/page/surface")).text
        saved = sum(row["tokens"] for row in rows if row["verdict"] == "denied")
        assert f'<span class="big">{saved}</span>' in page
        assert saved > 0

    async def test_what_is_copied_asks_for_the_same(self) -> None:
        query = "disabled_tags=plain&q=the+note&top_k=3"
        async with opened(many(4)) as web:
            told = re.findall(
                r'<pre id="copy-\d"[^>]*>(.*?)</pre>', (await web.get(f"/page/surface?{query}")).text, re.S
            )
            url, headers, command, settings = (html.unescape(text) for text in told)
            by_url = await listed(web, url.removeprefix("http://127.0.0.1"))
            by_headers = await listed(web, "/mcp", **dict(line.split(": ") for line in headers.split("\n")))
            shown = [row["name"] for row in await tools_of(web, query) if row["verdict"] == "visible"]
        assert by_url == by_headers == shown
        assert command == "--disabled-tags plain --query 'the note' --top-k 3"
        assert settings == 'disabled_tags = "plain"\nq = "the note"\ntop_k = "3"'

    async def test_a_part_is_the_part_of_the_page(self) -> None:
        async with opened(many(4)) as web:
            part = (await web.get("/page/surface?part=result&tools=tool_0")).text
            whole = (await web.get("/page/surface?tools=tool_0")).text
        assert part.strip() in whole
        assert "<html" not in part

    async def test_claims_are_tried_as_the_rules_have_them(self, tmp_path: Path) -> None:
        team = Team(tmp_path, READERS)
        async with logged_in(team.server(), team.token("ann")["authorization"].split()[1]) as web:
            as_bob = await tools_of(web, 'claims={"iss": "local", "sub": "bob"}')
            bad = await web.get('/page/surface?claims={"iss"')
        assert {row["name"]: row["verdict"] for row in as_bob}["git_push"] == "denied"
        assert bad.status_code == 400
        assert "claims can&#39;t be read" in bad.text

    @every("query", ["top_k=0", "read_only=maybe", "denied_tools=x", "profile=none_such"])
    async def test_what_no_request_may_say_is_told(self, query: str) -> None:
        async with opened(notes()) as web:
            answer = await web.get(f"/page/surface?{query}")
        assert answer.status_code == 400
        assert query.split("=")[0] in answer.text


class TestTool:
    async def test_is_called_as_its_callers_call_it(self) -> None:
        async with opened(notes()) as web:
            key = await form_key(web, "/page/tool?named=read_note")
            given = {"named": "read_note", "argument string name": "x", "form_key": key}
            given["agreed"] = "yes"
            answers = [await web.post("/page/tool", data=given | more, headers=ORIGIN) for more in (
                {}, {"disabled_tools": "read_note"}, {"argument json name": "{"},
            )]  # fmt: skip
        assert "the note x" in answers[0].text
        assert "the note x" not in answers[1].text
        assert (answers[2].status_code, "is no JSON" in answers[2].text) == (400, True)

    async def test_that_is_denied_to_a_reader_is_none_that_ever_was(self, tmp_path: Path) -> None:
        team = Team(tmp_path, READERS)
        async with logged_in(team.server(), team.token("bob")["authorization"].split()[1]) as web:
            answers = [await web.get(f"/page/tool?named={name}") for name in ("git_push", "git_xxxx")]
        told = [without_key(answer.text) for answer in answers]
        assert told[0].replace("git_push", "X") == told[1].replace("git_xxxx", "X")


class TestCalls:
    async def test_are_kept_with_who_what_and_how_long(self) -> None:
        async with opened(notes()) as web:
            await call(web, "read_note", {"name": "x"})
            await call(web, "no_such", {})
            rows = (await web.get("/page/calls?format=json")).json()["calls"]
            failed = (await web.get("/page/calls?format=json&failed=true")).json()["calls"]
        assert [(row["tool"], row["ok"]) for row in rows] == [("no_such", False), ("read_note", True)]
        assert (rows[1]["server"], rows[1]["visible"], rows[1]["permitted"]) == ("notes", 1, 1)
        assert rows[1]["ms"] > 0
        assert [row["tool"] for row in failed] == ["no_such"]

    async def test_say_what_was_listed_under_names_and_leave_out_what_there_is_not(self) -> None:
        async with opened(notes()) as web:
            await call(web, "read_note", {"name": "x"})
            page = (await web.get("/page/calls")).text
            (row,) = (await web.get("/page/calls?format=json")).json()["calls"]
        last = page.split("<tbody")[1].split("</tr>")[0].rpartition("<td")[2]
        told = re.sub(r"\s+", " ", re.sub("<[^>]+>", "", f"<td{last}"))
        assert told.strip() == f"1 of 1 permitted, revision {row['revision']}"
        assert row["revision"]
        assert "trace" not in page.split("<table")[1]

    async def test_have_their_trace_where_there_is_one(self) -> None:
        with_trace = Seen(1, 0.0, ("", ""), "git_log", visible=2, permitted=3, trace="0af7651916cd43dd8448eb211c80319c")
        module: Any = _environment().get_template("call.html").module
        told = re.sub(r"\s+", " ", re.sub("<[^>]+>", "", module.row(with_trace, "").rpartition("<td")[2]))
        assert told.strip().endswith("2 of 3 permitted, trace 0af7651916cd43dd8448eb211c80319c")

    async def test_of_others_are_for_operators_alone(self, tmp_path: Path) -> None:
        team = Team(tmp_path, READERS)
        server, ann, bob = team.server(), team.token("ann"), team.token("bob")
        seen = []
        async with logged_in(server, bob["authorization"].split()[1]) as web:
            for who in (ann, bob):
                await call(web, "git_log", {}, **who)
            seen.append((await web.get("/page/calls?format=json")).json()["calls"])
            seen.append((await web.get("/page/calls?format=json", headers=ann)).json()["calls"])
        assert [[row["caller"] for row in rows] for rows in seen] == [["bob (local)"], ["bob (local)", "ann (local)"]]

    async def test_their_arguments_are_nowhere(self) -> None:
        async with opened(notes()) as web:
            await call(web, "read_note", {"name": "a-secret-name"})
            assert "a-secret-name" not in (await web.get("/page/calls")).text


def formulas(text: str) -> list[str]:
    """Return the cells that a spreadsheet takes for formulas, whatever separator it goes by."""
    cells = (
        cell
        for separator in ",;\t|"
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        for cell in row
    )
    plain = (re.sub('^[\\s\u200b\ufeff"]+', "", cell) for cell in cells if not re.fullmatch('-?[0-9.]+"?', cell))
    return [cell for cell in plain if unicodedata.normalize("NFKC", cell)[:1] in ("=", "+", "-", "@", "\u2212")]


class TestTables:
    async def test_are_no_formulas_to_a_spreadsheet(self) -> None:
        server = notes()
        server.tool(name="=cmd", tags={"@x", "a;=1"})(lambda: "done")
        async with opened(server) as web:
            text = (await web.get("/page/surface?format=csv")).text
        rows = list(csv.reader(text.splitlines()))
        assert rows[0][0] == "name"
        assert {row[0] for row in rows[1:]} == {"read_note", "'=cmd"}
        assert text.startswith('"name","server"')
        assert formulas(text) == []

    @every("separator", [",", ";", "\t", "|"])
    @every("sign", [*"=+-@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\ufe66", "\ufe62", "\u2212", "\tx", "\rx", "\nx"])
    def test_are_none_whatever_a_spreadsheet_takes_for_the_end_of_a_cell(self, sign: str, separator: str) -> None:
        bad = [
            lead + text + "1+1"
            for text in (sign, f"a{separator}{sign}", f'a"{separator}"{sign}', f"a\n{sign}", f"a\r\n{sign}")
            for lead in ("", " ", "\u00a0", "\u200b", "\ufeff")
        ]
        table = Table(("name", "n"), [*((text, -1.5) for text in bad), (bad, 2), ({"a": sign}, None)])
        written = _as_csv({"t": table}, "t").body.decode()
        assert formulas(written) == []
        assert "-1.5" in written

    def test_of_plain_words_are_as_they_were(self) -> None:
        words = ["a-b", "1+1", "a = b", "x@y.example", "", "so, that", 'he said "no"']
        written = _as_csv({"t": Table(("name",), [(each,) for each in words])}, "t").body.decode()
        assert [row[0] for row in csv.reader(io.StringIO(written, newline=""))][1:] == words

    async def test_that_there_are_not_are_told(self) -> None:
        async with opened(notes()) as web:
            assert (await web.get("/page/surface?format=csv&table=nothing")).status_code == 400


class TestTwin:
    """For a reader who may not know of a tool the page is that of a server that never had it."""

    @every(
        "panel",
        [
            "/",
            "/page/surface",
            "/page/surface?tool_search=on",
            "/page/surface?q=push",
            "/page/prompt",
            "/page/calls",
            "/page/surface?format=json",
        ],
    )
    async def test_is_equal_to_the_byte(self, tmp_path_factory: pytest.TempPathFactory, panel: str) -> None:
        told = []
        for has_push in (True, False):
            team = Team(tmp_path_factory.mktemp("team"), READERS)
            server = team.server()
            if not has_push:
                server.local_provider.remove_tool("git_push")
            async with logged_in(server, team.token("bob")["authorization"].split()[1]) as web:
                told.append(without_key((await web.get(panel)).text))
        assert told[0] == told[1]


def without_key(page: str) -> str:
    """Return a page without what differs each time: what is drawn at random, and how long an answer took."""
    return re.sub(r'name="form_key" value="[^"]+"| in [\d.,]+ ms', "", page)


async def call(web: httpx2.AsyncClient, name: str, arguments: dict[str, Any], **headers: str) -> None:
    """Call a tool as a client does."""
    body, routing = modern_request("tools/call", {"name": name, "arguments": arguments})
    answer = await web.post("/mcp", json=body, headers={**dict(routing), **headers})
    assert answer.status_code == 200, json.dumps(answer.text)

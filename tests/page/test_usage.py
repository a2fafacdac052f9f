"""Usage and sessions on the page: a real log, real sessions, and nothing of what its reader may not know."""

from __future__ import annotations

import asyncio
import html
import re
import shlex
import time
from pathlib import Path

import httpx2
import pytest

from agent_utilities.seam.events import PolicyChanged
from agent_utilities.usage.model import DAY_MS, Call, Listed, Search, UsageBounds
from agent_utilities.usage.store import UsageStore
from tests.access.team import Team
from tests.every import every
from tests.page.looking import logged_in, opened
from tests.page.test_door import notes
from tests.page.test_panels import READERS, without_key
from tests.server.in_process import listed, web_of

pytestmark = pytest.mark.anyio
NOW_MS = int(time.time() * 1000)
ENDS = re.compile(r'<pre id="end-\d"[^>]*>(.*?)</pre>', re.S)


def logged(path: Path, server: str, *tools: str) -> None:
    """Write a log: of the tools the first was called, all were listed, and two searches found nothing."""
    store = UsageStore(path, UsageBounds(30, 1000))
    calls = [Call(NOW_MS - day * DAY_MS, server, tools[0], ok=day > 0, ms=10.0 + day) for day in range(3)]
    lists = [Listed(NOW_MS, server, tool, "", 7, 40) for tool in tools]
    store.write([*calls, *lists, Search(NOW_MS, server, 0, request="the moon"), Search(NOW_MS, server, 3)])
    store.close()


class TestUsage:
    async def test_tells_calls_and_what_is_listed_for_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "usage.db"
        logged(path, "notes", "read_note", "write_note")
        server = notes(MCP_USAGE="words", MCP_USAGE_FILE=str(path))
        server.tool(name="write_note")(lambda: "done")
        async with opened(server) as web:
            page = html.unescape((await web.get("/page/usage")).text)
            tables = (await web.get("/page/usage?format=json")).json()
            (row,) = [row for row in (await web.get("/?format=json")).json()["tools"] if row["name"] == "write_note"]
        assert tables["calls"] == [
            {"server": "notes", "tool": "read_note", "calls": 3, "failed": 1, "p50_ms": 11.0, "p95_ms": 12.0}
        ]
        assert tables["never called"] == [
            {"server": "notes", "tool": "write_note", "lists": 7, "tokens": row["tokens"]}
        ]
        assert f'You pay <span class="big">{row["tokens"]}</span> tokens a turn for 1 tool ' in page
        assert 'disabled_tools = ["write_note"]' in page
        assert "MCP_DISABLED_TOOLS=write_note" in page
        assert "2 searches, 1 found nothing" in page
        assert "the moon" in page

    async def test_draws_each_day_in_its_place(self, tmp_path: Path) -> None:
        path = tmp_path / "usage.db"
        store = UsageStore(path, UsageBounds(30, 1000))
        n_days_ago = {0: 4, 1: 1, 7: 2}
        store.write([
            Call(NOW_MS - day * DAY_MS, "notes", "read_note") for day, n in n_days_ago.items() for _ in range(n)
        ])  # fmt: skip
        store.close()
        async with opened(notes(MCP_USAGE="words", MCP_USAGE_FILE=str(path))) as web:
            page = (await web.get("/page/usage?days=10")).text
        plots = re.findall(r'<svg class="plot" width="(\d+)" height="(\d+)"[^>]*>(.*?)</svg>', page)
        assert len(plots) == 3  # of all, of the server and of the tool
        for width, height, plot in plots:
            bars = re.findall(r'x="([\d.]+)" y="[\d.]+" width="[\d.]+" height="([\d.]+)"', plot)
            step, unit = int(width) / 10, int(height) / 4
            drawn = {9 - round(float(x) / step): round(float(tall) / unit) for x, tall in bars}
            assert drawn == n_days_ago

    @every("name", ["*", "read_*", "a,b", "Secret", "secrets", "all"])
    async def test_ends_no_more_than_what_nobody_called(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / "usage.db"
        logged(path, "notes", "read_note", "write; note", name)
        logged(path, "notes", "kept")
        environ = {"MCP_USAGE": "words", "MCP_USAGE_FILE": str(path)}
        file = tmp_path / "settings.toml"

        async def lists(**more: str) -> tuple[list[str], list[str]]:
            server = notes(**environ, **more)
            for each, tags in ((name, set()), ("write; note", set()), ("secret", {"secrets"}), ("kept", {"secrets"})):
                server.tool(name=each, tags=tags)(lambda: "done")
            async with opened(server) as web:
                page = (await web.get("/page/usage")).text
                return sorted(await listed(web, "/mcp")), [html.unescape(text) for text in ENDS.findall(page)]

        before, (_, in_environ) = await lists(MCP_DISABLED_TOOLS="secret")
        ((variable, value),) = (line.split("=", 1) for line in shlex.split(in_environ))
        by_environ, _ = await lists(**{variable: value})
        file.write_text('disabled_tools = "secret"')
        _, (in_file, _) = await lists(MCP_CONFIG_FILE=str(file))
        file.write_text(in_file)
        by_file, _ = await lists(MCP_CONFIG_FILE=str(file))
        assert by_environ == by_file == [each for each in before if each != "write; note"]
        assert "write; note" in before

    async def test_ends_a_tool_of_whatever_letters_by_its_name_as_it_is(self, tmp_path: Path) -> None:
        path, file, name = tmp_path / "usage.db", tmp_path / "settings.toml", "zähle_😀"
        logged(path, "notes", "read_note", name)
        server = notes(MCP_USAGE="words", MCP_USAGE_FILE=str(path))
        server.tool(name=name)(lambda: "done")
        async with opened(server) as web:
            in_file, in_environ = (html.unescape(text) for text in ENDS.findall((await web.get("/page/usage")).text))
        assert (in_file, in_environ) == (f'disabled_tools = ["{name}"]', f"MCP_DISABLED_TOOLS={shlex.quote(name)}")
        file.write_text(in_file)
        server = notes(MCP_CONFIG_FILE=str(file))
        server.tool(name=name)(lambda: "done")
        async with web_of(server) as web:
            assert await listed(web, "/mcp") == ["read_note"]

    async def test_that_is_off_says_what_turns_it_on(self) -> None:
        async with opened(notes(MCP_USAGE="off")) as web:
            assert "MCP_USAGE=counts" in (await web.get("/page/usage")).text

    @every("days", ["0", "366", "many", "-1"])
    async def test_of_days_that_are_none_is_refused(self, days: str) -> None:
        async with opened(notes(MCP_USAGE="counts")) as web:
            answer = await web.get(f"/page/usage?days={days}")
        assert (answer.status_code, "from 1 to 365" in answer.text) == (400, True)

    async def test_is_a_twins_for_who_may_not_know_a_tool(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        told = []
        for tools in (("git_push", "git_log", "git_status"), ("git_log", "git_status")):
            folder = tmp_path_factory.mktemp("team")
            team, path = Team(folder, READERS), folder / "usage.db"
            store = UsageStore(path, UsageBounds(30, 1000))
            store.write([Call(NOW_MS, "team", tool, ms=9.0) for tool in tools if tool != "git_status"])
            store.write([Listed(NOW_MS, "team", tool, "", 7, 40) for tool in tools])
            store.write([Search(NOW_MS, "team", 0, request="push it")] if "git_push" in tools else [])
            store.close()
            server = team.server({"MCP_USAGE": "words", "MCP_USAGE_FILE": str(path)})
            if "git_push" not in tools:
                server.local_provider.remove_tool("git_push")
            async with logged_in(server, team.token("bob")["authorization"].split()[1]) as web:
                told.append(without_key((await web.get("/page/usage")).text))
        assert told[0] == told[1]
        assert "MCP_USAGE_SCOPE=subject" in told[0]

    @every(("scope", "of_bob"), [("subject", 1), ("server", None)])
    async def test_of_who_reads_alone_is_their_own_where_that_is_known_and_else_none(
        self, tmp_path_factory: pytest.TempPathFactory, scope: str, of_bob: int | None
    ) -> None:
        folder = tmp_path_factory.mktemp("team")
        team = Team(folder, READERS)
        ann, bob, eve = (team.token(name) for name in ("ann", "bob", "eve"))
        environ = {"MCP_USAGE": "words", "MCP_USAGE_FILE": str(folder / "u.db"), "MCP_USAGE_SCOPE": scope}
        async with web_of(team.server(environ)) as web:
            for who, n in ((ann, 2), (bob, 1), (eve, 3)):
                for _ in range(n):
                    await called_in_a_session(web, "git_log", who)
        async with web_of(team.server(environ)) as web:
            tables = [(await web.get("/page/usage?format=json", headers=who)).json() for who in (ann, bob)]
            cells = (await web.get("/page/usage?format=csv", headers=bob)).text.splitlines()[1:]
            page = (await web.get("/page/usage", headers=bob)).text
        calls = [[row["calls"] for row in each["calls"]] for each in tables]
        assert calls == [[6], [of_bob] if of_bob else []]
        assert [each["never called"] for each in tables[1:]] == [[]]
        assert len(cells) == len(calls[1])
        assert ("by_day" in page, f'">{of_bob}</span> calls of yours' in page) == (False, of_bob is not None)


class TestSessions:
    async def test_tell_whose_they_are_and_what_is_active(self, tmp_path: Path) -> None:
        team = Team(tmp_path, READERS)
        ann, bob = team.token("ann"), team.token("bob")
        server = team.server({"MCP_TOOL_SEARCH": "on"})
        async with logged_in(server, bob["authorization"].split()[1]) as web:
            await called_in_a_session(web, "git_log", ann)
            of_bob = (await web.get("/page/sessions?format=json")).json()["sessions"]
            of_ann = (await web.get("/page/sessions?format=json", headers=ann)).json()["sessions"]
        assert of_bob == []
        assert [(row["whose"], row["active"]) for row in of_ann] == [("ann (local)", ["git_log"])]
        assert re.fullmatch(r"[0-9a-f]{16}", of_ann[0]["session"])

    async def test_tell_of_their_own_what_is_permitted_by_now(self, tmp_path: Path) -> None:
        team = Team(tmp_path, READERS)
        ann, bob = team.token("ann"), team.token("bob")
        server = team.server({"MCP_TOOL_SEARCH": "on", "MCP_USAGE": "counts", "MCP_USAGE_FILE": str(tmp_path / "u.db")})
        is_taken = asyncio.Event()
        server.features.observe(lambda _: is_taken.set(), PolicyChanged)
        told = []
        async with logged_in(server, bob["authorization"].split()[1]) as web:
            await called_in_a_session(web, "git_status", bob)
            told.append((await web.get("/page/sessions?format=json")).json()["sessions"])
            team.write(READERS.replace('["git_push"]', '["git_push", "git_status"]'))
            await asyncio.wait_for(is_taken.wait(), 30)
            for who in (bob, ann):
                told.append((await web.get("/page/sessions?format=json", headers=who)).json()["sessions"])
        seen = [[(row["whose"], row["active"], row["called"]) for row in rows] for rows in told]
        whole = [("bob (local)", ["git_status"], ["git_status"])]
        assert seen == [whole, [("bob (local)", [], [])], whole]


async def called_in_a_session(web: httpx2.AsyncClient, tool: str, headers: dict[str, str]) -> None:
    """Begin a session, and call a tool in it."""
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    headers = {**headers, "accept": "application/json, text/event-stream"}
    for number, (method, params) in enumerate((
        ("initialize", about), ("notifications/initialized", {}), ("tools/call", {"name": tool, "arguments": {}}),
    )):  # fmt: skip
        body = {"jsonrpc": "2.0", "method": method, "params": params}
        if not method.startswith("notifications"):
            body["id"] = number
        answer = await web.post("/mcp", json=body, headers=headers)
        assert answer.status_code in (200, 202), answer.text
        headers["mcp-session-id"] = answer.headers.get("mcp-session-id", headers.get("mcp-session-id", ""))

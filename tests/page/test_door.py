"""Who gets in to the page, and who presses there."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.access.feature import AccessControl
from agent_utilities.access.token_file import read_tokens, revoke_token
from agent_utilities.seam.host import find
from tests.access.team import Team
from tests.every import every
from tests.page.looking import ORIGIN, form_key, key_of, logged_in, opened
from tests.server.in_process import web_of

pytestmark = pytest.mark.anyio

PANELS = ("/", "/page/prompt", "/page/calls", "/page/tool?named=read_note")
TEAM = """
[auth]
tokens = "{tokens}"

[[access]]
who = {{ subject = "ann" }}
profile = "all"
may = ["page.operate"]

[[access]]
who = {{ subject = "bob" }}
profile = "all"
may = ["page.read"]

[[access]]
who = {{ subject = "eve" }}
profile = "all"
"""


def notes(**environ: str) -> AgentServer:
    server = create_mcp_server("notes", environ={"MCP_GRAPH": "off", **environ})
    server.tool(name="read_note", annotations={"readOnlyHint": True})(lambda name: f"the note {name}")
    return server


def token_of(team: Team, name: str) -> str:
    return team.token(name)["authorization"].split()[1]


async def another_browser(web: httpx2.AsyncClient, token: str) -> dict[str, str]:
    """Log in with a token in another browser, and return its cookies."""
    web.cookies.clear()
    await web.post("/page/login", data={"token": token}, headers=ORIGIN)
    return dict(web.cookies)


async def status_in(web: httpx2.AsyncClient, browser: dict[str, str]) -> int:
    """Return how the page answers a browser."""
    web.cookies.clear()
    web.cookies.update(browser)
    return (await web.get("/")).status_code


class TestLink:
    @every("panel", PANELS)
    async def test_lets_in_whoever_has_it_and_nobody_else(self, panel: str) -> None:
        server = notes()
        async with web_of(server) as web:
            without = [(await web.get(url)).status_code for url in (panel, "/?key=", "/?key=guessed")]
        async with opened(server) as web:
            within = await web.get(panel)
        assert (without, within.status_code) == ([401, 401, 401], 200)

    async def test_is_gone_from_the_address_and_leaves_a_cookie_that_no_script_and_no_other_site_has(self) -> None:
        server = notes()
        async with web_of(server) as web:
            answer = await web.get(f"/?key={key_of(server)}")
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("agent-utilities-page-")
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
        assert key_of(server) not in cookie
        assert "domain" not in cookie.lower()

    async def test_leads_on_by_a_page_of_its_own_from_another_site_whose_redirect_would_bring_no_cookie(self) -> None:
        server = notes()
        async with web_of(server) as web:
            link = f"/?key={key_of(server)}"
            answer = await web.get(link, headers={"sec-fetch-site": "cross-site"})
            next_page = await web.get(answer.headers["location"])
        assert (answer.headers["location"], 'url=../../"' in next_page.text) == ("/page/static/entered.html", True)

    async def test_is_of_one_start_alone(self) -> None:
        before, after = notes(), notes()
        async with web_of(after) as web:
            assert (await web.get(f"/?key={key_of(before)}")).status_code == 401

    async def test_works_wherever_the_application_is_mounted(self) -> None:
        async with opened(notes(), "/notes") as web:
            page = (await web.get("/notes/")).text
            linked = page.split('rel="stylesheet" href="')[1].split('"')[0]
            assert (await web.get(linked)).status_code == 200

    async def test_is_not_for_an_address_that_others_reach(self) -> None:
        server = notes()
        server.address = "0.0.0.0", 80
        async with web_of(server) as web:
            answer = await web.get(f"/?key={key_of(server)}")
        assert answer.status_code == 401
        assert "[auth] tokens" in answer.text

    async def test_its_key_is_in_no_line_of_the_web_servers_log(self) -> None:
        server, lines = notes(), list[str]()
        handler = logging.Handler()
        handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
        access = logging.getLogger("uvicorn.access")
        access.addHandler(handler)
        try:
            async with opened(server):
                asked = f"/?key={key_of(server)}"
                access.critical('%s - "%s %s HTTP/%s" %d', "127.0.0.1:1", "GET", asked, "1.1", 303)
        finally:
            access.removeHandler(handler)
        assert lines == ['127.0.0.1:1 - "GET /?key=... HTTP/1.1" 303']


class TestEveryAnswer:
    @every("path", ["/", "/page/nothing", "/page/static/page.css", "/page/prompt?format=json", "/?key=wrong"])
    async def test_runs_nothing_of_elsewhere_and_is_framed_by_nobody(self, path: str) -> None:
        async with opened(notes()) as web:
            headers = (await web.get(path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        told = [headers[name] for name in ("x-frame-options", "x-content-type-options", "referrer-policy")]
        assert told == ["DENY", "nosniff", "same-origin"]

    async def test_is_kept_by_no_cache_but_for_what_is_everybodys(self) -> None:
        async with opened(notes()) as web:
            told = [
                (await web.get(path)).headers["cache-control"] for path in ("/page/static/page.css", "/", "/page/x")
            ]
        assert told == ["max-age=300", "no-store", "no-store"]

    async def test_loads_nothing_from_elsewhere(self) -> None:
        async with opened(notes()) as web:
            pages = [(await web.get(panel)).text for panel in PANELS]
        for page in pages:
            for name in ("src", "href", "action"):
                targets = [part.split('"')[0] for part in page.split(f' {name}="')[1:]]
                assert all(target.startswith(("/", "#", "?")) for target in targets)


class TestForms:
    async def call(self, web: httpx2.AsyncClient, headers: dict[str, str], **fields: str) -> int:
        given = {"named": "read_note", "argument string name": "x", **fields}
        return (await web.post("/page/tool", data=given, headers=headers)).status_code

    async def test_are_taken_from_the_pages_own_origin_with_its_key_alone(self) -> None:
        async with opened(notes()) as web:
            key = await form_key(web, "/page/tool?named=read_note")
            foreign = ("http://127.0.0.1:9", "http://localhost", "https://127.0.0.1", "null", "http://evil.example")
            refused = [await self.call(web, {"origin": origin}, form_key=key) for origin in foreign]
            without = [await self.call(web, headers, **fields) for headers, fields in (
                ({}, {"form_key": key}), (ORIGIN, {}), (ORIGIN, {"form_key": "1.2"}), (ORIGIN, {"form_key": key + "0"}),
            )]  # fmt: skip
            taken = await self.call(web, ORIGIN, form_key=key)
        assert (refused, without, taken) == ([403] * 5, [403] * 4, 200)

    async def test_of_one_browser_are_not_another_ones(self) -> None:
        server = notes()
        async with opened(server) as one, web_of(server) as other:
            key = await form_key(one, "/page/tool?named=read_note")
            assert await self.call(other, ORIGIN, form_key=key) == 401


class TestTokens:
    async def test_let_in_whom_a_rule_gives_the_right(self, tmp_path: Path) -> None:
        team = Team(tmp_path, TEAM)
        got = []
        for name in ("ann", "bob"):
            async with logged_in(team.server(), token_of(team, name)) as web:
                status, key = (await web.get("/")).status_code, await form_key(web, "/")
                pressed = await web.post("/page/tool", data={"named": "git_log", "form_key": key}, headers=ORIGIN)
                got.append((status, pressed.status_code))
        assert got == [(200, 200), (200, 403)]

    async def test_of_whom_no_rule_gives_it_are_refused_and_nothing_of_them_is_kept(self, tmp_path: Path) -> None:
        team = Team(tmp_path, TEAM)
        eve = token_of(team, "eve")
        async with web_of(team.server()) as web:
            refused = await web.post("/page/login", data={"token": eve}, headers=ORIGIN)
            assert (refused.status_code, "page.read" in refused.text) == (403, True)
            assert not web.cookies.get("agent-utilities-page-http", "").strip('"')
            assert (await web.get("/")).status_code == 401

    async def test_of_one_person_end_nobody_elses_login(self, tmp_path: Path) -> None:
        team, n_logins = Team(tmp_path, TEAM), 1010
        ann, bob, eve = (token_of(team, name) for name in ("ann", "bob", "eve"))
        async with web_of(team.server()) as web:
            anns, bobs = [await another_browser(web, token) for token in (ann, bob)]
            for token in [bob] * 20 + [eve] * n_logins:
                await another_browser(web, token)
            assert [await status_in(web, browser) for browser in (anns, bobs)] == [200, 401]

    async def test_of_one_person_are_kept_in_eight_browsers(self, tmp_path: Path) -> None:
        team = Team(tmp_path, TEAM)
        ann = token_of(team, "ann")
        async with web_of(team.server()) as web:
            browsers = [await another_browser(web, ann) for _ in range(8)]
            assert [await status_in(web, browser) for browser in browsers] == [200] * 8
            await another_browser(web, ann)
            assert sorted([await status_in(web, browser) for browser in browsers]) == [200] * 7 + [401]

    async def test_that_are_none_let_nobody_in(self, tmp_path: Path) -> None:
        server = Team(tmp_path, TEAM).server()
        async with web_of(server) as web:
            guessed = await web.post("/page/login", data={"token": "guessed"}, headers=ORIGIN)
            foreign = await web.post("/page/login", data={"token": "guessed"}, headers={"origin": "http://localhost"})
            by_link = await web.get(f"/?key={key_of(server)}")
        assert [answer.status_code for answer in (guessed, foreign, by_link)] == [401, 403, 401]

    async def test_that_are_revoked_let_nobody_in_any_more(self, tmp_path: Path) -> None:
        team = Team(tmp_path, TEAM)
        token = team.token("ann")["authorization"].split()[1]
        server = team.server()
        async with logged_in(server, token) as web:
            before = (await web.get("/")).status_code
            revoke_token(team.tokens, "ann")
            access = find(server, AccessControl)
            assert access is not None
            assert access.tokens is not None
            access.tokens.file = read_tokens(team.tokens)
            assert (before, (await web.get("/")).status_code) == (200, 401)

    async def test_are_forgotten_by_who_logs_out(self, tmp_path: Path) -> None:
        team = Team(tmp_path, TEAM)
        async with logged_in(team.server(), team.token("ann")["authorization"].split()[1]) as web:
            assert (await web.get("/")).status_code == 200
            await web.post("/page/logout", headers=ORIGIN)
            assert (await web.get("/")).status_code == 401

    async def test_of_programs_do_as_well(self, tmp_path: Path) -> None:
        team = Team(tmp_path, TEAM)
        bob = team.token("bob")
        async with web_of(team.server()) as web:
            answer = await web.get("/?format=json", headers=bob)
        assert [tool["name"] for tool in answer.json()["tools"]] == ["git_log", "git_push", "git_status"]


class TestOff:
    async def test_there_is_no_page(self) -> None:
        server = notes(MCP_PAGE="off")
        async with web_of(server) as web:
            assert [(await web.get(path)).status_code for path in ("/", "/page/static/page.css")] == [404, 404]

    @pytest.mark.outside
    def test_nothing_of_it_is_imported_nor_before_somebody_looks(self) -> None:
        code = """if True:
            import sys
            from agent_utilities import create_mcp_server
            def loaded():
                return sum(name.startswith(("agent_utilities.page.", "jinja2")) for name in sys.modules)
            off = create_mcp_server("x", environ={"MCP_PAGE": "off"}); off.http_app(); n_off = loaded()
            create_mcp_server("x", environ={}).http_app()
            print(n_off, loaded(), "jinja2" in sys.modules)
        """
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["0", "1", "False"]

"""The page's list of calls that wait, and who may answer them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client

from agent_utilities import AgentServer
from agent_utilities.approvals.feature import Approvals
from agent_utilities.seam.caller import Caller
from agent_utilities.seam.panel import PageError, Reader
from tests.access.team import Team
from tests.approvals.asked import called, files, waiting
from tests.every import every
from tests.page.looking import ORIGIN, form_key, logged_in, opened
from tests.page.test_door import TEAM
from tests.parts import part
from tests.server.in_process import web_of
from tests.wire.wires import modern_request

pytestmark = pytest.mark.anyio
NASTY = "x<script>alert(1)</script>\u202egnp.exe\x1b[2J\u200b\n force: false"


async def pressed(web: httpx2.AsyncClient, answer: str, question_id: str) -> httpx2.Response:
    """Answer a question as a browser does."""
    place = f"/page/approvals/{answer}?id={question_id}"
    key = await form_key(web, place)
    return await web.post(place, data={"id": question_id, "form_key": key}, headers=ORIGIN)


async def called_as(web: httpx2.AsyncClient, token: dict[str, str], name: str, **arguments: Any) -> str:
    """Return the text that a call by a person's token is answered by."""
    body, headers = modern_request("tools/call", {"name": name, "arguments": arguments})
    answer = await web.post("/mcp", json=body, headers={**dict(headers), **token})
    return str(answer.json()["result"]["content"][0]["text"])


class TestTheList:
    async def test_shows_who_waits_for_what_and_an_answer_lets_one_call_through(self):
        server, made = files()
        async with opened(server) as web, Client(server) as client:
            await called(client, "remove", path="/a")
            [question] = await waiting(server)
            shown = (await web.get("/page/approvals")).text
            assert all(text in shown for text in ("remove", "files", "path: /a", question.id, question.digest))
            asked = (await web.get(f"/page/approvals/yes?id={question.id}")).text
            assert all(text in asked for text in ("remove of files", "path: /a"))
            done = await pressed(web, "yes", question.id)
            assert (done.status_code, "yes: remove of files" in done.text) == (200, True)
            assert await called(client, "remove", path="/a") == "removed /a"
            assert question.id not in (await web.get("/page/approvals")).text
        assert made == ["remove /a"]

    async def test_a_no_refuses(self):
        server, made = files()
        async with opened(server) as web, Client(server) as client:
            await called(client, "remove", path="/a")
            [question] = await waiting(server)
            await pressed(web, "no", question.id)
            assert "the answer was no" in await called(client, "remove", path="/a")
        assert made == []

    async def test_of_two_who_answer_the_second_is_told_that_it_waits_no_more(self):
        server, _ = files()
        async with opened(server) as web, Client(server) as client:
            await called(client, "remove", path="/a")
            [question] = await waiting(server)
            key = await form_key(web, f"/page/approvals/no?id={question.id}")
            await pressed(web, "yes", question.id)
            late = await web.post("/page/approvals/no", data={"id": question.id, "form_key": key}, headers=ORIGIN)
        assert (late.status_code, "waits no more" in late.text) == (400, True)

    async def test_texts_of_callers_neither_act_nor_hide_there(self):
        server, _ = files()
        async with opened(server) as web, Client(server) as client:
            await called(client, "remove", path=NASTY)
            pages = [(await web.get("/page/approvals")).text]
            [question] = await waiting(server)
            pages.append((await web.get(f"/page/approvals/yes?id={question.id}")).text)
        for page in pages:
            assert ("<script>alert" in page, "&lt;script&gt;" in page) == (False, True)
            assert ("\u202e" in page, "\x1b" in page, "\u200b" in page) == (False, False, False)
            assert all(text in page for text in ("\\u202e", "\\x1b[2J", "\\u200b", "\\n force: false"))

    async def test_a_link_with_other_words_shows_the_question_and_not_the_words(self):
        server, _ = files()
        async with opened(server) as web, Client(server) as client:
            await called(client, "remove", path="/a")
            [question] = await waiting(server)
            page = (await web.get(f"/page/approvals/yes?id={question.id}&tool=harmless")).text
            gone = await web.get("/page/approvals/yes?id=nothing")
        assert ("remove of files" in page, gone.status_code) == (True, 400)

    async def test_is_looked_at_again_by_itself_in_parts(self):
        server, _ = files()
        async with opened(server) as web, Client(server) as client:
            await called(client, "remove", path="/a")
            whole, part_ = (await web.get("/page/approvals")).text, (await web.get("/page/approvals?part=shown")).text
        assert ("data-again" in whole, "<html" in part_, "path: /a" in part_) == (True, False, True)

    async def test_is_not_there_where_nothing_is_asked(self):
        server, _ = files("")
        async with opened(server) as web:
            assert (await web.get("/page/approvals")).status_code == 404

    async def test_a_thousand_waiting_are_shown_a_hundred_at_a_time(self):
        server, _ = files()
        server.complete()
        feature = part(server, Approvals)
        from tests.approvals.test_store import question

        for i in range(1_000):
            await feature.store.put(question(feature.store, str(i), f"caller {i}"))
        async with opened(server) as web:
            page = (await web.get("/page/approvals")).text
        assert ("the first of 1,000" in page, page.count("/page/approvals/yes")) == (True, 100)


class TestWhoAnswers:
    """Ann operates, bob reads, eve has neither right."""

    def server(self, team: Team, approve: str) -> AgentServer:
        team.write(TEAM + approve)
        return team.server()

    async def test_is_who_operates_and_nobody_else(self, tmp_path: Path):
        team = Team(tmp_path, TEAM)
        tokens = {name: team.token(name) for name in ("ann", "bob", "eve")}
        server = self.server(team, '\n[approve]\ntools = ["git_push"]\n')
        async with logged_in(server, tokens["bob"]["authorization"].removeprefix("Bearer ")) as web:
            assert "/page/approvals" in await called_as(web, tokens["eve"], "git_push")
            [question] = await waiting(server)
            page = await web.get("/page/approvals")
            assert (page.status_code, question.id in page.text) == (200, False)
            key = await form_key(web, "/")
            post = {"data": {"id": question.id, "form_key": key}, "headers": ORIGIN}
            assert (await web.post("/page/approvals/yes", **post)).status_code == 403  # type: ignore[arg-type]
            web.cookies.clear()
            assert (await web.get("/page/approvals", headers=tokens["eve"])).status_code == 403
            assert (await web.get("/page/approvals")).status_code == 401
            await web.post("/page/login", data={"token": tokens["ann"]["authorization"].split()[1]}, headers=ORIGIN)
            assert (await pressed(web, "yes", question.id)).status_code == 200
            assert await called_as(web, tokens["bob"], "git_push") != "done"
            assert await called_as(web, tokens["eve"], "git_push") == "done"

    async def test_is_not_the_caller_where_somebody_else_is_to_answer(self, tmp_path: Path):
        team = Team(tmp_path, TEAM)
        tokens = {name: team.token(name) for name in ("ann", "eve")}
        server = self.server(team, '\n[approve]\ntools = ["git_push"]\nby = "other"\n')
        async with logged_in(server, tokens["ann"]["authorization"].removeprefix("Bearer ")) as web:
            assert "somebody else than you" in await called_as(web, tokens["ann"], "git_push")
            [own] = await waiting(server)
            refused = await pressed(web, "yes", own.id)
            assert (refused.status_code, "the call is yours" in refused.text) == (400, True)
            assert await called_as(web, tokens["ann"], "git_push") != "done"
            await called_as(web, tokens["eve"], "git_push")
            theirs = next(each for each in await waiting(server) if each.id != own.id)
            assert (await pressed(web, "yes", theirs.id)).status_code == 200
            assert await called_as(web, tokens["eve"], "git_push") == "done"

    @every("reader", [Caller(), Caller("i", "ann"), Caller("i", "")])
    async def test_is_nobody_that_can_not_be_told_from_a_caller_without_a_login(self, reader: Caller, tmp_path: Path):
        file = tmp_path / "agent-utilities.toml"
        file.write_text('[approve]\ntools = ["remove"]\nby = "other"\n')
        server, made = files("", MCP_CONFIG_FILE=str(file))
        async with Client(server) as client:
            await called(client, "remove", path="/a")
            [question] = await waiting(server)
            from agent_utilities.approvals.panel import panel

            action = panel(part(server, Approvals)).actions["yes"]
            with pytest.raises(PageError, match="not known who you are"):
                await action.do(server, Reader(reader, True), {"id": question.id})
        assert made == []

    async def test_ready_says_nothing_of_it(self):
        server, _ = files()
        async with web_of(server) as web, Client(server) as client:
            await called(client, "remove", path="/very-own")
            answer = (await web.get("/ready")).text
        assert ("very-own" in answer, "remove" in answer) == (False, False)

"""One tool on the page: as its caller gets it, and a form that calls it with what was typed."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import httpx2
import pytest
from fastmcp.tools.base import Tool
from pydantic import Field

from agent_utilities import AgentServer
from tests.access.team import Team
from tests.every import every
from tests.page.looking import ORIGIN, form_key, logged_in, opened
from tests.page.test_door import TEAM, notes

pytestmark = pytest.mark.anyio


def server() -> AgentServer:
    made = notes()

    @made.tool(tags={"b", "a"}, annotations={"readOnlyHint": True})
    def every_kind(
        text: Annotated[str, Field(description="what to say")],
        n: int = 7,
        share: float = 0.5,
        loud: bool = False,
        mode: Literal["a", "b"] = "a",
        many: list[int] | None = None,
    ) -> dict[str, Any]:
        """Say it."""
        return {"text": text, "n": n, "share": share, "loud": loud, "mode": mode, "many": many}

    return made


async def called(web: httpx2.AsyncClient, tool: str = "every_kind", **arguments: str) -> httpx2.Response:
    """Send the form of a tool with arguments, each under its kind and name joined by two underscores."""
    key = await form_key(web, f"/page/tool?named={tool}")
    given = {f"argument {name.replace('__', ' ')}": text for name, text in arguments.items()}
    return await web.post("/page/tool", data={"named": tool, "form_key": key, **given}, headers=ORIGIN)


async def agreed(web: httpx2.AsyncClient, asked: httpx2.Response) -> httpx2.Response:
    """Send the form by which a page asks, as pressing its button does."""
    hidden = re.findall(
        r'<input type="hidden" name="([^"]+)" value="([^"]*)">', asked.text.split('class="question"')[1]
    )
    return await web.post(
        "/page/tool", data={html.unescape(name): html.unescape(value) for name, value in hidden}, headers=ORIGIN
    )


def heading_of(page: str) -> str:
    found = re.search(r"<h1[^>]*>(.*?)</h1>", page, re.S)
    assert found is not None, page
    return re.sub(r"\s+", " ", re.sub("<[^>]+>", "", found[1])).strip()


def answer_in(page: str) -> dict[str, Any]:
    found = re.search(r'aria-label="The whole result in JSON">(.*?)</pre>', page, re.S)
    assert found is not None, page
    told: dict[str, Any] = json.loads(html.unescape(found[1]))
    return told


class TestDefinition:
    async def test_is_that_of_the_list(self) -> None:
        async with opened(server()) as web:
            page = html.unescape((await web.get("/page/tool?named=every_kind")).text)
            table = (await web.get("/page/tool?named=every_kind&format=json")).json()["tool"]
        shown = re.search(r'aria-label="Definition in JSON">(.*?)</pre>', page, re.S)
        assert shown is not None
        definition = json.loads(shown[1])
        assert (definition["name"], definition["description"]) == ("every_kind", "Say it.")
        assert definition["annotations"] == {"readOnlyHint": True}
        assert None not in definition.values()  # what is not said is not there
        assert '<pre class="text" tabindex="0">Say it.</pre>' in page
        assert table == [{"name": "every_kind", "server": "notes", "tokens": table[0]["tokens"]}]
        assert f"{table[0]['tokens']} tokens on every turn" in page

    async def test_costs_on_a_turn_what_its_verdict_has_it_cost(self) -> None:
        told = {}
        async with opened(server()) as web:
            for query in ("", "&tool_search=on", "&disabled_tools=every_kind"):
                page = html.unescape((await web.get(f"/page/tool?named=every_kind{query}")).text)
                (told[query],) = re.findall(r'<p class="facts">(.*?)</p>', page, re.S)
            tokens = (await web.get("/page/tool?named=every_kind&format=json")).json()["tool"][0]["tokens"]
        told = {query: re.sub(r"\s+", " ", re.sub("<[^>]+>", "", text)) for query, text in told.items()}
        assert f"{tokens} tokens on every turn" in told[""]
        deferred = f"no tokens on a turn before it is loaded, then {tokens}; tool_search and call_tool stand for it"
        assert deferred in told["&tool_search=on"]
        assert (
            f"not listed, so that it costs nothing; it would take {tokens} tokens" in told["&disabled_tools=every_kind"]
        )

    async def test_has_a_field_for_each_argument(self) -> None:
        async with opened(server()) as web:
            page = (await web.get("/page/tool?named=every_kind")).text
        fields = re.findall(r'<input name="argument (\w+) (\w+)" placeholder="(.*?)"( required)?', page)
        assert [tuple(map(html.unescape, field)) for field in fields] == [
            ("string", "text", "", " required"),
            ("integer", "n", "7", ""),
            ("number", "share", "0.5", ""),
            ("boolean", "loud", "false", ""),
            ("json", "mode", '"a"', ""),
            ("json", "many", "", ""),
        ]
        assert "string: what to say" in page
        assert "text (required)" in page

    async def test_of_none_has_no_field(self) -> None:
        made = notes()
        made.tool(name="plain")(lambda: "done")
        async with opened(made) as web:
            assert "It takes no arguments." in (await web.get("/page/tool?named=plain")).text

    @every("schema", [{}, {"properties": []}, {"properties": None}, {"properties": {"a": True}}])
    async def test_of_a_schema_that_says_nothing_of_arguments_has_no_field(self, schema: dict[str, Any]) -> None:
        made = notes()
        made.add_tool(Tool(name="odd", parameters={"type": "object", **schema}))
        async with opened(made) as web:
            answer = await web.get("/page/tool?named=odd")
        assert (answer.status_code, "It takes no arguments." in answer.text) == (200, True)

    async def test_leads_back_to_the_selection_it_was_looked_at_by(self) -> None:
        async with opened(server()) as web:
            page = html.unescape((await web.get("/page/tool?named=every_kind&top_k=3")).text)
        assert '<input type="hidden" name="top_k" value="3">' in page
        assert '<a href="/page/surface?top_k=3">All tools</a>' in page

    @every("name", ["", "no_such", "EVERY_KIND"])
    async def test_of_what_there_is_not_is_told(self, name: str) -> None:
        async with opened(server()) as web:
            answer = await web.get("/page/tool", params={"named": name})
        assert (answer.status_code, html.unescape(f"no tool named {name!r}") in html.unescape(answer.text)) == (
            400,
            True,
        )


class TestCall:
    async def test_is_answered_as_a_client_is(self) -> None:
        async with opened(server()) as web:
            answer = await called(web, string__text="7")
        assert answer.status_code == 200
        told = answer_in(answer.text)
        expected = {"text": "7", "n": 7, "share": 0.5, "loud": False, "mode": "a", "many": None}
        assert told["structuredContent"] == expected
        assert told["isError"] is False
        assert [sorted(each) for each in told["content"]] == [["text", "type"]]

    async def test_takes_each_argument_as_its_kind_says_and_leaves_out_what_is_blank(self) -> None:
        async with opened(server()) as web:
            answer = await called(
                web,
                string__text='{"a": 1}',
                integer__n="3",
                boolean__loud="true",
                json__mode=' "b" ',
                json__many="[1, 2]",
                number__share="  ",
            )
        told = answer_in(answer.text)["structuredContent"]
        assert told == {"text": '{"a": 1}', "n": 3, "share": 0.5, "loud": True, "mode": "b", "many": [1, 2]}

    @every(
        ("kind", "text"),
        [("integer__n", "three"), ("json__many", "[1"), ("boolean__loud", "yes"), ("json__many", "[" * 9_999)],
    )
    async def test_with_what_is_no_json_is_refused_with_which_argument(self, kind: str, text: str) -> None:
        async with opened(server()) as web:
            answer = await called(web, string__text="x", **{kind: text})
        name = kind.partition("__")[2]
        assert answer.status_code == 400
        assert f"{name} can't be read: {text[:100]!r} is no JSON" in html.unescape(answer.text)

    async def test_is_made_with_the_readers_own_token(self, tmp_path: Path) -> None:
        team = Team(tmp_path, TEAM)
        async with logged_in(team.server(), team.token("ann")["authorization"].split()[1]) as web:
            answer = await called(web, "git_log")
            calls = (await web.get("/page/calls?format=json")).json()["calls"]
        assert answer_in(answer.text)["content"][0]["text"] == "done"
        assert [(row["tool"], row["caller"]) for row in calls] == [("git_log", "ann (local)")]


class TestAsks:
    """What may write is called once its reader has seen the tool and its arguments, and pressed a second time."""

    @staticmethod
    def writing() -> tuple[AgentServer, list[str]]:
        made, written = notes(), list[str]()

        @made.tool
        def write_note(text: str) -> str:
            written.append(text)
            return f"wrote {text}"

        return made, written

    async def test_before_what_may_write_is_called(self) -> None:
        made, written = self.writing()
        async with opened(made) as web:
            asked = await called(web, "write_note", string__text="<b>all</b> of it")
            assert (asked.status_code, written) == (200, [])
            page = html.unescape(asked.text)
            assert "write_note" in page.split('class="question"')[1]
            assert '"text": "<b>all</b> of it"' in page
            answer = await agreed(web, asked)
        assert written == ["<b>all</b> of it"]
        assert heading_of(answer.text) == "Done: write_note"

    async def test_with_the_selection_that_it_was_looked_at_by(self) -> None:
        made, written = self.writing()
        async with opened(made) as web:
            key = await form_key(web, "/page/tool?named=write_note")
            form = {"named": "write_note", "argument string text": "x", "read_only": "true", "form_key": key}
            asked = await web.post("/page/tool", data=form, headers=ORIGIN)
            answer = await agreed(web, asked)
        assert written == []
        assert heading_of(answer.text) == "Failed: write_note"

    async def test_nothing_of_what_only_reads(self) -> None:
        async with opened(server()) as web:
            assert heading_of((await called(web, string__text="7")).text) == "Done: every_kind"

    async def test_before_a_tool_that_calls_others(self) -> None:
        made, written = self.writing()
        async with opened(made) as web:
            key = await form_key(web, "/page/tool?named=write_note")
            form = {"named": "call_tool", "tool_search": "on", "form_key": key}
            form["argument json arguments"] = '{"text": "x"}'
            asked = await web.post("/page/tool", data={**form, "argument string name": "write_note"}, headers=ORIGIN)
        assert (written, 'class="question"' in asked.text) == ([], True)

    async def test_nothing_where_an_argument_can_not_be_read(self) -> None:
        made, _ = self.writing()
        async with opened(made) as web:
            answer = await called(web, "write_note", json__text="{")
        assert (answer.status_code, "is no JSON" in answer.text) == (400, True)


class TestFailure:
    async def test_is_headed_so_with_the_error_first(self) -> None:
        made = notes()

        @made.tool(annotations={"readOnlyHint": True})
        def break_down() -> str:
            raise ValueError("the <disk> is full")

        async with opened(made) as web:
            page = (await called(web, "break_down")).text
        assert heading_of(page) == "Failed: break_down"
        told = re.search(r'<pre class="told bad"[^>]*>(.*?)</pre>', page, re.S)
        assert told is not None
        assert "the <disk> is full" in html.unescape(told[1])
        assert 'class="outcome failed"' in page
        assert answer_in(page)["isError"] is True

"""The surface: each tool with what it costs and why it is listed or not, and what asks for the same elsewhere."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_utilities import AgentServer
from agent_utilities.page.surface import spellings
from tests.access.team import Team
from tests.every import every
from tests.page.looking import logged_in, opened
from tests.page.test_door import notes
from tests.page.test_panels import READERS

pytestmark = pytest.mark.anyio
URL = "http://127.0.0.1/mcp"


def server(**environ: str) -> AgentServer:
    made = notes(**environ)
    made.tool(name="write_note", tags={"z", "a"}, description="Write a note. " * 20)(lambda text: text)
    made.tool(name="secret_note", tags={"secret"})(lambda: "done")
    return made


async def tools_of(web: httpx2.AsyncClient, query: str = "") -> dict[str, dict[str, Any]]:
    rows = (await web.get(f"/page/surface?format=json&{query}")).json()["tools"]
    return {row["name"]: row for row in rows}


class TestTools:
    async def test_are_told_with_all_that_is_known_of_them(self) -> None:
        async with opened(server(MCP_DISABLED_TAGS="secret")) as web:
            tools = await tools_of(web)
        assert list(tools) == ["read_note", "write_note", "secret_note"]
        reason = "denied by tag (env MCP_DISABLED_TAGS)"
        told = {name: {key: row[key] for key in row if key not in ("name", "tokens")} for name, row in tools.items()}
        of_notes = {"server": "notes", "tags": [], "read_only": False, "verdict": "visible", "reason": ""}
        assert told == {
            "read_note": {**of_notes, "read_only": True, "reason": told["read_note"]["reason"]},
            "write_note": {**of_notes, "tags": ["a", "z"], "reason": told["write_note"]["reason"]},
            "secret_note": {**of_notes, "tags": ["secret"], "verdict": "denied", "reason": reason},
        }
        assert tools["write_note"]["tokens"] > tools["read_note"]["tokens"] > 0

    async def test_by_which_others_are_reached_stand_first_and_count_as_listed_alone(self) -> None:
        async with opened(server(MCP_TOOL_SEARCH="on")) as web:
            tools, page = await tools_of(web), html.unescape((await web.get("/page/surface")).text)
        own = [name for name in tools if name not in ("read_note", "write_note", "secret_note")]
        assert own == list(tools)[: len(own)] == ["tool_search", "call_tool"]
        assert {tools[name]["verdict"] for name in own} == {"visible"}
        assert all(tools[name]["read_only"] and tools[name]["reason"] for name in own)
        shown = sum(tools[name]["tokens"] for name in own)
        total = sum(row["tokens"] for name, row in tools.items() if name not in own)
        told = re.sub(r"\s+", " ", page)
        assert (
            f"tokens saved on every turn: {shown:,} of {total:,} are listed. 0 tools visible, 3 deferred, 0 den" in told
        )
        assert f'<span class="big">{total - shown:,}</span>' in told
        # What is an entry tool has no page of its own to lead to.
        assert 'href="/page/tool?named=tool_search' not in page
        assert 'href="/page/tool?named=read_note' in page

    async def test_have_bars_by_the_dearest(self) -> None:
        async with opened(server()) as web:
            tools, page = await tools_of(web), (await web.get("/page/surface")).text
        widths = [float(each) for each in re.findall(r'<rect class="bar visible"[^>]*width="([\d.]+)"', page)]
        most = max(row["tokens"] for row in tools.values())
        assert [round(each / max(widths), 2) for each in widths] == [
            pytest.approx(row["tokens"] / most, abs=0.02) for row in tools.values()
        ]

    async def test_are_known_to_a_reader_as_they_are_permitted_to_them(self, tmp_path: Path) -> None:
        team = Team(tmp_path, READERS)
        async with logged_in(team.server(), team.token("bob")["authorization"].split()[1]) as web:
            assert list(await tools_of(web)) == ["git_log", "git_status"]
            # Claims are tried by operators alone.
            assert list(await tools_of(web, 'claims={"iss": "local", "sub": "ann"}')) == ["git_log", "git_status"]
            page = (await web.get('/page/surface?claims={"iss": "local", "sub": "ann"}')).text
        assert 'name="claims"' not in page


class TestFields:
    async def test_hold_what_was_asked_and_stay_open_where_that_is_needed(self) -> None:
        async with opened(notes()) as web:
            pages = [
                (await web.get(f"/page/surface?{query}")).text
                for query in ("", "tools=a%26b", "tool_search=on", "claims={}")
            ]
        assert [re.search(r"<details( open)?>\s*<summary>More", page)[1] for page in pages] == [  # type: ignore[index]
            None, None, " open", " open",
        ]  # fmt: skip
        assert 'name="tools" value="a&amp;b"' in pages[1]
        assert 'name="tool_search" value="on"' in pages[2]
        assert 'name="claims" value="{}"' in pages[3]

    async def test_of_flags_are_boxes(self) -> None:
        async with opened(notes()) as web:
            pages = [(await web.get(f"/page/surface?{query}")).text for query in ("", "read_only=true")]
        boxes = [re.findall(r'<input type="checkbox" name="read_only" value="true"( checked)?', page) for page in pages]
        assert boxes == [[""], [" checked"]]


def said_at(page: str, field: str) -> str:
    """Return what stands at a field of its names that fit nothing."""
    found = re.search(rf'<span class="bad" id="wrong-{field}">(.*?)</span>', page, re.S)
    assert found is not None, page
    return html.unescape(found[1]).strip()


class TestNames:
    """What the command line refuses of names, and calls the nearest, the field says too."""

    @every(
        ("query", "field", "told"),
        [
            ("disabled_tools=read_nots", "disabled_tools", "'read_nots' fits nothing: did you mean read_note?"),
            ("disabled_tools=read_note,WRITE_NOT", "disabled_tools",
             "'write_not' fits nothing: did you mean write_note?"),
            ("tools=read_nots", "tools", "'read_nots' fits nothing: did you mean read_note?"),
            ("tools=secret", "tools", "'secret' fits nothing: did you mean tags=secret?"),
            ("disabled_tags=sekret", "disabled_tags", "'sekret' fits nothing: did you mean secret?"),
            ("tags=qqqqqq", "tags", "'qqqqqq' fits nothing that there is"),
            ("toolsets=zz*&tools=read_note", "tools", "'zz*' fits nothing that there is"),
        ],
    )  # fmt: skip
    async def test_that_fit_nothing_are_told_at_the_field(self, query: str, field: str, told: str) -> None:
        async with opened(server()) as web:
            answer = await web.get(f"/page/surface?{query}")
        assert (answer.status_code, said_at(answer.text, field)) == (200, told)
        assert re.search(rf'<input name="{field}"[^>]* aria-invalid="true"', answer.text)
        assert len(re.findall('aria-invalid="true"', answer.text)) == 1
        assert f"{field}: <span>{told}</span>" in html.unescape(answer.text.split('id="result"')[1])

    @every("query", ["disabled_tools=read_nots", "disabled_tags=sekret", "tools=read_nots"])
    async def test_that_fit_nothing_are_in_no_line_to_copy(self, query: str) -> None:
        async with opened(server()) as web:
            page = (await web.get(f"/page/surface?{query}")).text
        assert "copy-1" not in page
        assert "--" not in re.sub("<!--.*?-->", "", page.split('id="result"')[1])

    @every(
        "query", ["", "disabled_tools=read_note", "tools=READ_*", "disabled_tools=a_prompt", "disabled_toolsets=secret"]
    )
    async def test_that_fit_are_told_of_nothing(self, query: str) -> None:
        made = server()
        made.prompt(name="a_prompt")(lambda: "words")
        async with opened(made) as web:
            page = (await web.get(f"/page/surface?{query}")).text
        assert "fits nothing" not in page
        assert "copy-1" in page
        assert 'aria-invalid="true"' not in page

    async def test_of_what_a_reader_may_not_know_are_nearest_to_nothing(self, tmp_path: Path) -> None:
        team = Team(tmp_path, READERS)
        async with logged_in(team.server(), team.token("bob")["authorization"].split()[1]) as web:
            told = [
                said_at((await web.get(f"/page/surface?tools={name}")).text, "tools")
                for name in ("git_pus", "git_push")
            ]
            there = said_at((await web.get("/page/surface?tools=git_logg")).text, "tools")
        assert [text.replace("git_push", "").count("push") for text in told] == [0, 0]
        assert told[0] == "'git_pus' fits nothing: did you mean git_status?"
        assert told[1].startswith("'git_push' fits nothing")
        assert there == "'git_logg' fits nothing: did you mean git_log?"


class TestClaims:
    @every("claims", ['{"iss"', "7", "[]", "null", '"ann"', "[" * 10_000])
    async def test_that_are_no_object_are_told(self, claims: str) -> None:
        async with opened(notes()) as web:
            answer = await web.get("/page/surface", params={"claims": claims})
        assert (answer.status_code, "claims can&#39;t be read" in answer.text) == (400, True)

    @every(
        ("claims", "names"),
        [
            ({"iss": "local", "sub": "bob"}, {"git_push"}),
            ({"iss": "local", "sub": "ann"}, set()),
            ({"iss": "local", "sub": "nobody"}, {"git_log", "git_push", "git_status"}),
            ({"iss": "local", "sub": 7}, {"git_log", "git_push", "git_status"}),
            ({}, {"git_log", "git_push", "git_status"}),
        ],
    )
    async def test_are_judged_by_the_rules(
        self, claims: dict[str, Any], names: set[str], tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        team = Team(tmp_path_factory.mktemp("team"), READERS)
        async with logged_in(team.server(), team.token("ann")["authorization"].split()[1]) as web:
            tools = await tools_of(web, str(httpx2.QueryParams({"claims": json.dumps(claims)})))
        assert {name for name, row in tools.items() if row["verdict"] == "denied"} == names


class TestWhatIsCopied:
    def test_of_nothing_is_the_address_alone(self) -> None:
        assert spellings([], URL) == spellings([("tools", " "), ("format", "json")], URL) == {"URL": URL}

    def test_is_spelled_as_each_channel_has_it(self) -> None:
        items = [("tools", " git_*,read file "), ("read_only", "true"), ("q", "the ünï's note"), ("part", "result")]
        assert spellings(items, URL) == {
            "URL": f"{URL}?tools=git_*,read+file&read_only=true&q=the+%C3%BCn%C3%AF%27s+note",
            "headers": "x-mcp-enabled-tools: git_*,read file\nx-mcp-read-only: true\n"
            + spellings([("q", "the ünï's note")], URL)["headers"],
            "command line": "--tools 'git_*,read file' --read-only --query 'the ünï'\"'\"'s note'",
            "settings": 'tools = "git_*,read file"\nread_only = true\nq = "the ünï\'s note"',
        }

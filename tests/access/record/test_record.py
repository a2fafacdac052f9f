"""What a server's record says of its calls, by whoever they are made and however they end."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client
from fastmcp.exceptions import ToolError
from mcp.shared.exceptions import MCPError

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.access.record.log import AuditLog, all_files
from agent_utilities.access.refusals import UNKNOWN
from agent_utilities.seam.feature import Feature, Refusal
from agent_utilities.seam.request import RESULT_TOKENS, Call, Request
from tests.access.record.records import fill, of_file
from tests.access.team import Team
from tests.every import every
from tests.server.in_process import ask, web_of
from tests.server.spans import span_exporter
from tests.wire.wires import modern_request

pytestmark = pytest.mark.anyio
SECRET = "sk-live-abcdef0123456789"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def server(path: Path, mode: str = "best effort", **options: Any) -> AgentServer:
    """A server of three tools, one of them denied, that keeps a record."""
    environ = {
        "MCP_GRAPH": "off",
        "MCP_DISABLED_TOOLS": "git_push",
        "MCP_AUDIT_FILE": str(path),
        "MCP_AUDIT_MODE": mode,
    }
    mcp = create_mcp_server("team", environ=environ | options.pop("environ", {}), **options)

    @mcp.tool
    def git_log(text: str = "", password: str = "", n: int = 0) -> str:
        """Say it again."""
        return f"log {text}é"

    @mcp.tool
    def git_fail() -> str:
        """Fail."""
        raise ValueError("it is broken")

    mcp.tool(name="git_push")(lambda: "pushed")
    return mcp


def lines(path: Path, *events: str) -> list[dict[str, Any]]:
    """Return the lines of a record, of some events alone where any are named."""
    texts = [text for file in all_files(path) for text in file.read_text().splitlines()]
    return [line for line in map(json.loads, texts) if not events or line["event"] in events]


def text_of(path: Path) -> str:
    return path.read_text()


def write_text(path: Path, text: str) -> None:
    path.write_text(text)


def said(line: Mapping[str, Any], *names: str) -> list[Any]:
    return [line.get(name) for name in names]


async def called(mcp: AgentServer, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> str:
    """Call a tool, and return its text, or that of the error."""
    async with Client(mcp) as client:
        try:
            return str((await client.call_tool(name, dict(arguments or {}), **options)).content[0].text)
        except (ToolError, MCPError) as error:
            return str(error)


@pytest.fixture
def disk(tmp_path: Path) -> Any:
    """Return a disk of 64 KiB, which only root can make."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small disk can't be mounted: needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


class TestCalls:
    async def test_have_a_line_before_and_one_after(self, path: Path) -> None:
        assert await called(server(path), "git_log", {"text": "x"}) == "log xé"
        before, after = lines(path, "call", "result")
        assert said(before, "event", "tool", "verdict", "outcome") == ["call", "git_log", "permitted", None]
        assert said(after, "event", "tool", "verdict", "outcome") == ["result", "git_log", "permitted", "ok"]
        assert before["call"] == after["call"]
        assert len(before["revision"]) == len(after["revision"]) == 12
        assert after["ms"] > 0

    async def test_tell_the_bytes_of_their_results_wherever_in_them(self, path: Path) -> None:
        for text in ("", "é" * 10):  # which is in the content, and in the structured content
            await called(server(path), "git_log", {"text": text})
        short, long = (line["bytes"] for line in lines(path, "result"))
        assert long - short == 2 * len(("é" * 10).encode())

    async def test_tell_the_tokens_of_their_results_where_these_are_counted(self, path: Path) -> None:
        class Counted(Feature):
            name = "counted"
            after = ("results",)

            async def after_request(
                self, request: Request, result: dict[str, Any], call: Call | None
            ) -> dict[str, Any]:
                request.values.pop(RESULT_TOKENS, None)
                if call is not None and call.arguments:
                    request.values[RESULT_TOKENS] = 900, 80
                return result

        mcp = server(path, features=[Counted()])
        for arguments in ({"text": "x"}, {}):
            await called(mcp, "git_log", arguments)
        told = [said(line, "result_tokens", "given_tokens") for line in lines(path, "call", "result")]
        assert told == [[None, None], [900, 80], [None, None], [None, None]]

    async def test_are_between_the_lines_of_start_and_end(self, path: Path) -> None:
        await called(server(path), "git_log")
        assert [line["event"] for line in lines(path)] == ["opened", "call", "result", "closed"]
        assert of_file(path).tampering == []

    async def test_have_their_line_before_the_tool_runs_where_it_is_required(self, path: Path) -> None:
        mcp = server(path, "required")
        mcp.tool(name="look")(lambda: str([line["tool"] for line in lines(path, "call")]))
        assert await called(mcp, "look") == "['look']"

    async def test_that_fail_say_so_without_the_tools_words(self, path: Path) -> None:
        await called(server(path), "git_fail")
        assert lines(path, "result")[0]["outcome"] == "error"
        assert "broken" not in text_of(path)

    async def test_through_call_tool_are_those_of_the_tool(self, path: Path) -> None:
        mcp = server(path, environ={"MCP_TOOL_SEARCH": "on"})
        await called(mcp, "call_tool", {"name": "git_log", "arguments": {"text": "x"}})
        await called(mcp, "tool_search", {"query": "log"})
        assert [said(line, "tool", "verdict") for line in lines(path, "call")] == [
            ["git_log", "permitted"],
            ["tool_search", "permitted"],
        ]

    async def test_bear_the_id_of_their_trace_and_their_spans_the_records_head(self, path: Path) -> None:
        spans = span_exporter()
        spans.clear()
        mcp = server(path, "required")
        async with Client(mcp) as client:
            for _ in range(2):
                await client.call_tool("git_log")
        found = [span for span in spans.get_finished_spans() if "agent_utilities.audit_head" in (span.attributes or {})]
        assert [f"{span.context.trace_id:032x}" for span in found] == [line["trace"] for line in lines(path, "call")]
        chain, number, head = str(found[-1].attributes["agent_utilities.audit_head"]).split(":")
        assert (lines(path)[int(number)]["chain"], lines(path)[int(number)]["hash"]) == (chain, head)

    async def test_of_a_server_that_is_started_again_are_in_another_chain(self, path: Path) -> None:
        mcp = server(path, "required")
        assert [await called(mcp, "git_log") for _ in range(2)] == ["log é"] * 2
        assert len(of_file(path).chains) == 2


class Quota(Feature):
    name = "quota"

    async def admit(self, request: Request, call: Call) -> None:
        raise Refusal("too many calls: try again in 7 s")


class TestRefused:
    @every(
        ("name", "expected"),
        [
            ("git_push", ["git_push", "denied", "denied by name (env MCP_DISABLED_TOOLS)"]),
            ("git_pull", ["git_pull", "unknown", None]),
        ],
    )
    @every("mode", ["best effort", "required"])
    async def test_a_name_has_one_line(self, tmp_path: Path, name: str, expected: list[Any], mode: str) -> None:
        path = tmp_path / "audit.jsonl"
        assert await called(server(path, mode), name) == f"Unknown tool: {name!r}"
        (line,) = lines(path, "call", "result", "refused")
        assert said(line, "tool", "verdict", "reason") == expected

    async def test_a_quota_has_one_line(self, path: Path) -> None:
        assert await called(server(path, features=[Quota()]), "git_log") == "too many calls: try again in 7 s"
        (line,) = lines(path, "call", "result", "refused")
        assert said(line, "event", "tool", "reason") == ["refused", "git_log", "too many calls: try again in 7 s"]

    async def test_a_malformed_selection_has_one_line(self, path: Path) -> None:
        meta = {"agent-utilities/selection": {"top_k": "x"}}
        await called(server(path), "git_log", meta=meta)
        (line,) = lines(path, "call", "result", "refused")
        assert line["event"] == "refused"
        assert line["reason"].startswith("not a positive integer")

    async def test_a_malformed_request_over_http_has_one_line(self, path: Path) -> None:
        body, routing = modern_request("tools/call", {"name": "git_log", "arguments": {}})
        async with web_of(server(path)) as web:
            answer = await web.post("/mcp?top_k=x", json=body, headers=dict(routing))
            assert answer.status_code == 400
            answer = await web.post("/mcp", json=body, headers={**dict(routing), "mcp-name": "git_push"})
            assert answer.status_code == 400
        first, second = lines(path, "call", "result", "refused")
        assert said(first, "event", "status", "path") == ["refused", 400, "/mcp"]
        assert "not a positive integer" in first["reason"]
        assert said(second, "event", "status", "path") == ["refused", 400, "/mcp"]

    async def test_wrong_arguments_are_an_error_of_a_permitted_call(self, path: Path) -> None:
        await called(server(path), "git_log", {"n": "seven"})
        assert [said(line, "event", "outcome") for line in lines(path, "call", "result")] == [
            ["call", None],
            ["result", "error"],
        ]

    async def test_a_name_that_looks_like_a_secret_is_not_written(self, path: Path) -> None:
        await called(server(path), SECRET)
        assert SECRET not in text_of(path)
        assert lines(path, "refused")[0]["tool"] == "…"


class TestArguments:
    async def test_are_written_of_the_tools_that_are_named(self, path: Path) -> None:
        mcp = server(path, environ={"MCP_AUDIT_ARGUMENTS": "git_l*, other"})
        await called(mcp, "git_log", {"text": "the harvest", "n": 7})
        await called(mcp, "git_fail", {"x": "a field"})
        assert [line.get("arguments") for line in lines(path, "call")] == [{"text": "the harvest", "n": 7}, None]

    async def test_are_written_of_no_tool_where_none_is_named(self, path: Path) -> None:
        await called(server(path), "git_log", {"text": "the harvest"})
        assert "harvest" not in text_of(path)

    @every(
        ("given", "written"),
        [
            ({"text": f"use {SECRET} for it"}, {"text": "use for it …"}),
            ({"password": "correct horse battery"}, {"password": "…"}),
            ({"dbPassword": "a b", "api_key": ["c", {"d": "e"}]}, {"dbPassword": "…", "api_key": "…"}),
            ({"text": {"deep": [{"token": "a b"}, SECRET]}}, {"text": {"deep": [{"token": "…"}, "…"]}}),
            ({SECRET: 1, "n": 4_111_111_111_111_111}, {"…": "…", "n": "…"}),
            ({"text": ["word " * 600] * 3}, {"text": [("word " * 100).strip() + " …", "…"]}),
        ],
    )
    async def test_are_written_without_what_looks_like_a_secret(
        self, tmp_path: Path, given: dict[str, Any], written: dict[str, Any]
    ) -> None:
        path = tmp_path / "audit.jsonl"
        mcp = server(path, environ={"MCP_AUDIT_ARGUMENTS": "*"})
        await called(mcp, "git_log", given)
        assert lines(path, "call")[0]["arguments"] == written

    @every(
        "value",
        [
            {f"{number:05}" + "k y " * 120: "" for number in range(7_500)},
            [""] * 900_000,
            "x" * 3_700_000,
            ["a@b"] * 600_000,
        ],
        ids=["names", "empty texts", "a text", "secrets"],
    )
    async def test_of_one_call_hold_up_nobody_elses(self, tmp_path: Path, value: Any) -> None:
        path = tmp_path / "audit.jsonl"
        mcp = server(path, "required", environ={"MCP_AUDIT_ARGUMENTS": "*"})
        mcp.tool(name="take")(lambda value: "taken")
        async with Client(mcp) as eve, Client(mcp) as bob:
            assert (await eve.call_tool("take", {"value": value})).content[0].text == "taken"
            assert (await bob.call_tool("git_log", {"text": "x"})).content[0].text == "log xé"
        assert [line["tool"] for line in lines(path, "call")] == ["take", "git_log"]
        assert max(map(len, text_of(path).splitlines())) < 12_000
        assert of_file(path).tampering == []

    async def test_leave_no_part_of_a_secret_where_they_are_cut(self, path: Path) -> None:
        mcp = server(path, environ={"MCP_AUDIT_ARGUMENTS": "*"})
        async with Client(mcp) as client:
            for n in (*range(480, 501, 4), *range(980, 1_002, 4), *range(3_960, 4_000, 8)):
                given = "\u200b" * (n - 5) + "word " + SECRET
                await client.call_tool_mcp("git_log", {"text": given})
                await client.call_tool_mcp("git_log", {"x" * n: given})
                await client.call_tool_mcp(given, {})
        assert not any(SECRET[:n] in text_of(path) for n in range(4, len(SECRET)))


@asynccontextmanager
async def web_of_team(team: Team, path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with team.web({"MCP_AUDIT_FILE": str(path)}) as web:
        yield web


async def call(web: httpx2.AsyncClient, name: str, who: Mapping[str, str]) -> None:
    body, routing = modern_request("tools/call", {"name": name, "arguments": {}})
    assert (await web.post("/mcp", json=body, headers={**dict(routing), **who})).status_code == 200


class TestWho:
    async def test_is_in_every_line_with_their_rule(self, tmp_path: Path, path: Path) -> None:
        team = Team(tmp_path)
        ann, bob = team.token("ann"), team.token("bob")
        async with web_of_team(team, path) as web:
            await call(web, "git_push", ann)
            await call(web, "git_push", bob)
        names = ("event", "issuer", "subject", "client", "rule", "tool", "verdict")
        assert [said(line, *names) for line in lines(path, "call", "result", "refused")] == [
            ["call", "local", "ann", None, 1, "git_push", "permitted"],
            ["result", "local", "ann", None, 1, "git_push", "permitted"],
            ["refused", "local", "bob", None, 2, "git_push", "denied"],
        ]
        assert "rule" in lines(path, "refused")[0]["reason"]

    async def test_logs_in_once(self, tmp_path: Path, path: Path) -> None:
        team = Team(tmp_path)
        ann, bob = team.token("ann"), team.token("bob")
        async with web_of_team(team, path) as web:
            for who in (ann, ann, bob, ann):
                await ask(web, "/mcp", **who)
        assert [line["subject"] for line in lines(path, "login")] == ["ann", "bob"]

    async def test_with_a_refused_token_has_a_line_and_who_asks_without_one_has_none(
        self, tmp_path: Path, path: Path
    ) -> None:
        team = Team(tmp_path)
        team.token("ann")
        async with web_of_team(team, path) as web:
            assert (await ask(web, "/mcp")).status_code == 401
            answer = await ask(web, "/mcp", authorization="Bearer au_" + "x" * 43)
            assert answer.status_code == 401
        (line,) = lines(path, "refused")
        assert said(line, "status", "path") == [401, "/mcp"]
        why = re.search('error_description="([^"]*)"', answer.headers["www-authenticate"])
        assert why is not None
        assert line["reason"] == why[1] == UNKNOWN.text

    async def test_with_refused_tokens_without_end_has_so_many_lines_and_one_that_counts_the_rest(
        self, tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("agent_utilities.access.record.feature._REFUSED_A_MINUTE", 3)
        team = Team(tmp_path)
        team.token("ann")
        async with web_of_team(team, path) as web:
            for _ in range(8):
                await ask(web, "/mcp", authorization="Bearer au_" + "x" * 43)
        assert [said(line, "status", "n_more") for line in lines(path, "refused")] == [[401, None]] * 3 + [[None, 5]]

    async def test_with_refused_tokens_has_lines_again_after_a_minute(
        self, tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("agent_utilities.access.record.feature._REFUSED_A_MINUTE", 1)
        monkeypatch.setattr("agent_utilities.access.record.feature._MINUTE_S", 0.0)
        team = Team(tmp_path)
        team.token("ann")
        async with web_of_team(team, path) as web:
            for _ in range(3):
                await ask(web, "/mcp", authorization="Bearer au_" + "x" * 43)
                await asyncio.sleep(0.01)
        assert [said(line, "status", "n_more") for line in lines(path, "refused")] == [[401, None]] * 3

    async def test_is_never_told_by_a_token(self, tmp_path: Path, path: Path) -> None:
        team = Team(tmp_path)
        ann = team.token("ann")
        async with web_of_team(team, path) as web:
            await call(web, "git_push", ann)
            await ask(web, "/mcp", authorization=ann["authorization"] + "x")
        assert len(lines(path, "refused")) == 1
        assert ann["authorization"].removeprefix("Bearer ") not in text_of(path)


class TestChanges:
    async def test_of_tokens_have_a_line(self, tmp_path: Path, path: Path) -> None:
        team = Team(tmp_path)
        ann = team.token("ann")
        async with web_of_team(team, path) as web:
            team.tokens.write_text(team.tokens.read_text().replace("ann", "anna"))
            while (await ask(web, "/mcp", **ann)).json()["result"]["tools"]:
                pass
        (line,) = lines(path, "changed")
        assert line["what"] == "tokens"
        assert "revoked: ann" in line["reason"]


@pytest.mark.outside
class TestFullDisk:
    async def test_refuses_calls_where_the_record_is_required(self, disk: Path) -> None:
        mcp = server(disk / "audit.jsonl", "required")
        ran: list[int] = []
        mcp.tool(name="work")(lambda: ran.append(1))
        async with Client(mcp) as client:
            await client.call_tool("work")
            filler = fill(disk)
            texts = set()
            for _ in range(30):  # what is left of a page is still written
                try:
                    await client.call_tool("work")
                except ToolError as error:
                    texts.add(str(error))
            n_ran = len(ran)
            assert 0 < n_ran < 31
            assert texts == {"not called: it can't be written to the audit record: No space left on device; try later"}
            filler.unlink()
            await client.call_tool("work")
        recorded = lines(disk / "audit.jsonl")
        assert sum(line["event"] == "call" for line in recorded) == len(ran) == n_ran + 1
        assert sum(line["event"] == "result" for line in recorded) == len(ran)
        assert sum(line["event"] == "refused" for line in recorded) == 31 - n_ran
        assert of_file(disk / "audit.jsonl").tampering == []

    async def test_refuses_no_call_where_it_is_not(self, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(AuditLog, "most_lines", 20)
        mcp = server(disk / "audit.jsonl")
        async with Client(mcp) as client:
            filler = fill(disk)
            for _ in range(60):
                assert (await client.call_tool("git_log")).data == "log é"
            health = mcp.health()["audit"]
            assert (health["state"], health["cause"]) == ("failing", "No space left on device")
            assert health["n_lost"] > 0
            filler.unlink()
        lost = sum(line["n_lines"] for line in lines(disk / "audit.jsonl", "lost"))
        assert lost == health["n_lost"]
        assert len(lines(disk / "audit.jsonl", "call", "result")) == 120 - lost

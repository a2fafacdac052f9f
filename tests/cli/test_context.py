"""Asking a running server what of it is in an agent's prompt, over a real socket."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import FastMCP
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from starlette.responses import JSONResponse
from tokenizers import Tokenizer, models, pre_tokenizers

from agent_utilities.cli.app import main
from tests.command_line import Done, run_command
from tests.every import every
from tests.server.servers import log_server, running

pytestmark = pytest.mark.outside

COMMAND = Path(sys.executable).parent / "agent-utilities"


def hub(**options):
    server = log_server(instructions="Ask before you delete.", **options)
    kid: FastMCP = FastMCP("a-mounted-server")
    kid.tool(lambda path: "", name="play", description="Play [red]it[/] back, slowly, from the start. " * 20)
    server.mount(kid, namespace="kid")
    return server


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with running(hub()) as url:
        yield url


@pytest.fixture
def context(capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    def asked(*arguments: str, **environ: str) -> Done:
        env = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", **environ}
        return run_command(main, ["agent-utilities", "context", *arguments], env, capfd)

    return asked


@pytest.fixture
def report(context: Callable[..., Done]) -> Callable[..., Any]:
    return lambda *arguments: json.loads(context("--json", *arguments).stdout)


class TestJson:
    def test_is_what_the_route_answers_whatever_url_is_given(self, base, report):
        for path in ["", "/", "/mcp", "/sse", "/tools", "/context"]:
            assert report(f"{base}{path}") == httpx2.get(f"{base}/context").json()

    def test_is_of_the_selection_in_url_and_options(self, base, report):
        assert report(f"{base}/mcp/x/read")["n_permitted"] == 2
        assert report(base, "--query", "tools=play,tail_log", "--header", "x-mcp-read-only=1")["n_permitted"] == 1

    def test_is_of_the_user_whose_token_is_sent(self, context, report):
        auth = StaticTokenVerifier({"good": {"client_id": "c", "scopes": []}})
        with running(log_server(auth=auth)) as url:
            assert report(url, "--header", "authorization=Bearer good")["n_permitted"] == 4
            assert "send --header authorization=…" in context(url).stderr

    def test_says_why_a_token_is_refused(self, context, tmp_path):
        with running(log_server(environ={"MCP_AUTH_TOKENS": str(tmp_path / "tokens.json")})) as url:
            done = context(url, "--header", "authorization=Bearer au_wrong")
        assert (done.returncode, "the token is not known here: mistyped, expired or revoked" in done.stderr) == (
            1,
            True,
        )


class TestModel:
    def test_counts_with_its_tokenizer(self, base, tmp_path, report):
        words = Tokenizer(models.WordLevel({"[?]": 0}, unk_token="[?]"))
        words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        words.save(str(tmp_path / "tokenizer.json"))
        told = report(base, "--model", str(tmp_path))
        assert told["tokenizer"] == f"tokenizers, {tmp_path / 'tokenizer.json'}"
        assert [row["tokens"] for row in told["rows"] if row["section"] == "instructions"] == [4]
        assert told["total"] == sum(row["tokens"] for row in told["rows"])

    def test_that_nothing_can_count_for_is_estimated_and_said(self, base, report):
        told = report(base, "--model", "no-such-model")
        assert told["total"] == report(base)["total"]
        assert told["tokenizer"].startswith("an estimate: bytes of compact JSON / 3.8 (tiktoken ")


class TestWhileDeferring:
    def test_a_recount_tells_the_same_as_the_server(self, report):
        with running(hub(environ={"MCP_TOOL_SEARCH": "on"})) as url:
            told, recounted = report(url), report(url, "--model", "no-such-model")
        assert {**recounted, "tokenizer": ""} == {**told, "tokenizer": ""}

    def test_the_table_names_what_is_active_and_what_was_saved(self, context):
        with running(hub(environ={"MCP_TOOL_SEARCH": "on"})) as url:
            text = context(url, "--header", "x-mcp-active=tail_log,kid_play").stdout
        assert "0 of 5 attached, 2 of 24 active\nMCP active: 2/24 (tail_log, kid_play)\n" in text
        assert [line.split()[0] for line in text.splitlines() if " logs " in line] == [
            "entry",
            "logs",
            "instructions",
            "deferred",
        ]


class TestTable:
    def test_tells_sections_servers_and_the_total(self, base, context, report):
        lines = context(base).stdout.splitlines()
        words = [line.split() for line in lines]
        told = report(base)
        tokens = {row["server"]: f"{row['tokens']:,}" for row in told["rows"] if row["section"] == "listed"}
        assert ["listed", "a-mounted-server", "1", tokens["a-mounted-server"]] in [each[:4] for each in words]
        assert ["logs", "4", tokens["logs"]] in [each[:3] for each in words]
        assert ["in", "the", "prompt", "5", f"{told['total']:,}"] in words
        assert lines[-3:] == [
            "5 of 5 listed",
            f"{told['total']:,} tokens on every turn",
            "counted by an estimate: bytes of compact JSON / 3.8",
        ]

    def test_draws_bars_on_one_scale(self, base, context, report):
        by_server = {
            words[-4]: words[-1]
            for line in context(base).stdout.splitlines()
            if (words := line.split()) and "█" in words[-1]
        }
        long, short = len(by_server["a-mounted-server"]), len(by_server["logs"])
        told = {row["server"]: row["tokens"] for row in report(base)["rows"] if row["section"] == "listed"}
        assert abs(short / long - told["logs"] / told["a-mounted-server"]) < 0.1

    def test_tells_what_deferring_saves(self, base, context, report):
        text = context(base, "--query", "tools=all", "--query", "top_k=1").stdout
        told = report(base, "--query", "top_k=1")
        fewer = round(100 * (1 - told["total"] / told["undeferred_tokens"]))
        assert f"{told['total']:,} tokens on every turn, {fewer} % fewer than the" in text
        assert "deferred" in text

    def test_fits_its_terminal(self, base, context):
        for columns in [50, 80, 120]:
            lines = context(base, COLUMNS=str(columns)).stdout.splitlines()
            assert max(map(len, lines)) <= columns
            assert not any("…" in line for line in lines)

    def test_is_plain_where_the_terminal_is(self, base):
        environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
        assert subprocess.run([COMMAND, "context", base], env=environ, capture_output=True, check=True).stdout.isascii()


class TestRefused:
    def test_with_one_line_and_a_code(self, base, context):
        for arguments, code, message in [
            (["not-a-url"], 2, "not an HTTP URL"),
            (["http://127.0.0.1:1"], 1, "is the server running?"),
            (["{base}", "--header", "novalue"], 2, "write it as name=value"),
            (["{base}", "--query", "top_k=0"], 2, "not a positive integer"),
            (["{base}/mcp/x/writ"], 2, "did you mean 'write'?"),
            (["{base}/elsewhere"], 1, "without a context report; is it one of ours?"),
            (["{base}", "--model", "none.json"], 2, "no such file: 'none.json' (from option --model)"),
        ]:
            done = context(*(argument.format(base=base) for argument in arguments))
            assert (done.returncode, done.stderr.count("\n")) == (code, 1)
            assert message in done.stderr

    @every("status", [400, 401])
    def test_by_a_stranger_whose_words_are_shown_and_do_nothing(self, context, status):
        server, words = log_server(), "\x1b[2J\u202eno"

        @server.custom_route("/context", methods=["GET"])
        async def mine(request):
            problem = dict.fromkeys(("what", "value", "source", "hint"), words)
            answer = {"error": problem} if status == 400 else {"error_description": words}
            return JSONResponse(answer, status_code=status)

        with running(server) as url:
            told = context(url).stderr
        assert (r"\x1b[2J\u202eno" in told, told.rstrip("\n").isprintable()) == (True, True)

    def test_where_a_route_of_the_authors_answers_with_something_else(self, context):
        server = log_server()

        @server.custom_route("/context", methods=["GET"])
        async def mine(request):
            return JSONResponse({"server": "logs", "rows": [1]})

        with running(server) as url:
            done = context(url)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert "answered with no context report of ours" in done.stderr

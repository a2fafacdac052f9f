"""`agent-utilities eval`: measures, files, a live server, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_utilities.catalog.document import ToolDocument
from agent_utilities.cli.app import main
from agent_utilities.cli.asking import mcp_url
from agent_utilities.cli.evaluation.data import Request, Tool
from agent_utilities.cli.evaluation.report import RankedRequest, auroc, measure, rejected_at, tokens_saved

TOOLS = [
    {"id": "g/status", "server": "g", "name": "git_status", "description": "Show changes", "tags": ["git"]},
    {
        "id": "g/log",
        "server": "g",
        "name": "git_log",
        "description": "List them",
        "input_schema": {"properties": {"n": {"description": "how many of the newest commits"}}},
    },
    {"id": "f/read", "server": "f", "name": "read_file", "description": "Return a text", "input_schema": None},
]
QUERIES = [
    {"id": "1", "query": "which commits are newest", "relevant": ["g/log"]},
    {"id": "2", "query": "read a text and show the changes", "relevant": ["f/read", "g/status"]},
    {"id": "3", "query": "newest commits", "relevant": ["g/log", "g/status"], "groups": [["g/log", "g/status"]]},
]
NEGATIVES = [{"id": "n", "query": "why is the sky blue", "relevant": []}]


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def files(tmp_path):
    return [
        "--tools",
        str(lines(tmp_path / "tools.jsonl", TOOLS)),
        "--queries",
        str(lines(tmp_path / "queries.jsonl", QUERIES)),
        "--ranker",
        "lexical",
    ]


@pytest.fixture
def run(monkeypatch, capsys):
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["agent-utilities", "eval", *arguments])
        with pytest.raises(SystemExit) as exited:
            main()
        out, err = capsys.readouterr()
        return int(exited.value.code or 0), out, err

    return run


class TestCommand:
    def test_json_gives_every_measure(self, run, files, tmp_path):
        negatives = lines(tmp_path / "n.jsonl", NEGATIVES)
        code, out, _ = run(*files, "--negatives", str(negatives), "--json")
        measures = json.loads(out)
        assert code == 0
        assert (measures["ranker"], measures["hit@1"], measures["recall@5"]) == ("lexical", 1, 1)
        assert measures["rejected"] == 1
        assert {"recall@1", "recall@3", "recall@10", "mrr@10", "all@10", "tokens saved", "ms p50"} <= set(measures)

    def test_tools_are_taken_as_a_servers_list_prints_them(self, run, tmp_path):
        command = [str(Path(sys.executable).parent / "logs-agent-mcp"), "--list", "--json"]
        bounds = ["--tool-search", "on", "--disabled-tags", "delete"]
        listed = subprocess.run([*command, *bounds], capture_output=True, text=True, check=True).stdout
        (tmp_path / "listed.json").write_text(listed, encoding="utf-8")
        asked = [{"id": "1", "query": "summarize the errors of a log", "relevant": ["summarize_errors"]}]
        files = ["--tools", str(tmp_path / "listed.json"), "--queries", str(lines(tmp_path / "asked.jsonl", asked))]
        code, out, _ = run(*files, "--ranker", "lexical", "--json")
        components = json.loads(listed)["components"]
        own = [row for row in components if row["kind"] == "tool" and not row.get("entry_tool")]
        n_permitted = sum(row["verdict"] != "denied" for row in own)
        assert len(own) > n_permitted > 0
        assert len(components) > len(own)
        assert (code, json.loads(out)["tools"], json.loads(out)["hit@1"]) == (0, n_permitted, 1)

    def test_the_table_names_set_and_measures(self, run, files):
        code, out, _ = run(*files)
        assert (code, "hit@1" in out, "lexical on" in out) == (0, True, True)

    def test_ranks_are_written_a_line_for_each_request(self, run, files, tmp_path):
        ranks, negatives = tmp_path / "ranks.jsonl", lines(tmp_path / "n.jsonl", NEGATIVES)
        run(*files, "--negatives", str(negatives), "--ranks-out", str(ranks))
        rows = [json.loads(line) for line in ranks.read_text(encoding="utf-8").splitlines()]
        assert [row["id"] for row in rows] == ["1", "2", "3", "n"]
        assert rows[0]["ranked"][0] == "g/log"
        assert all(set(row) == {"id", "ranked", "scores", "abstained", "ms"} for row in rows)
        assert [row["abstained"] for row in rows] == [False, False, False, True]

    def test_usage_teaches(self, run, files, tmp_path):
        asked = lines(tmp_path / "asked.jsonl", [{"id": "1", "query": "zap the frobnicator", "relevant": ["f/read"]}])
        usage = lines(tmp_path / "usage.jsonl", [{"id": "u", "query": "frobnicator zapping", "relevant": ["f/read"]}])
        arguments = [*files[:2], "--queries", str(asked), "--ranker", "lexical", "--json"]
        before = json.loads(run(*arguments)[1])["hit@1"]
        after = json.loads(run(*arguments, "--usage", str(usage))[1])["hit@1"]
        assert (before, after) == (0, 1)

    def test_vectors_that_cannot_be_had_leave_the_words(self, run, files):
        code, out, err = run(*files[:4], "--provider", "http://127.0.0.1:9/v1#tiny", "--json")
        assert (code, json.loads(out)["ranker"]) == (0, "lexical")
        assert "ranked by words alone" in " ".join(err.split())


class TestRefusals:
    def test_a_line_that_cannot_be_read_is_named(self, run, files, tmp_path):
        for content, message in [
            ('{"id": "1"}', "query can't be read"),
            ("[]", "the line can't be read: '[]'"),
            ("{", "invalid json"),
            ('{"id": "1", "query": "q", "relevant": ["x/y"]}', "no tool has this id"),
            ('{"id": "1", "query": "q", "groups": [3]}', "groups.0 can't be read"),
        ]:
            bad = tmp_path / "bad.jsonl"
            bad.write_text(content, encoding="utf-8")
            code, _, err = run(*files[:2], "--queries", str(bad), "--ranker", "lexical")
            assert (code, message in err, "bad.jsonl line 1" in err) == (2, True, True)

    def test_a_file_that_is_absent_is_named(self, run, files, tmp_path):
        code, _, err = run(*files[:2], "--queries", str(tmp_path / "none.jsonl"))
        assert (code, "none.jsonl" in err) == (2, True)

    def test_what_cannot_be_meant_is_refused(self, run, files):
        for arguments in [[], ["--ranker", "best"], ["--provider", "bert"]]:
            command = [*files[:4], *arguments] if arguments else files[2:4]
            assert run(*command)[0] == 2

    def test_a_server_that_is_down_is_said(self, run, files):
        code, _, err = run(*files[2:], "--server", "http://127.0.0.1:9/mcp")
        assert (code, "can't list the tools" in err) == (1, True)


@pytest.fixture
def server(tmp_path) -> Iterator[str]:
    import uvicorn

    from agent_utilities import create_mcp_server

    environ = {"MCP_RANKER": "lexical", "MCP_GRAPH_FOLDER": str(tmp_path), "MCP_GRAPH_DEADLINE_MS": "60000"}
    mcp = create_mcp_server("travelNotes", environ=environ)

    @mcp.tool
    def git_log() -> str:
        """List the newest commits."""
        return ""

    @mcp.tool
    def read_file(path: str) -> str:
        """Return the text of a file."""
        return path

    @mcp.tool
    def analyzeEvidence() -> str:
        """Say what became of it."""
        return ""

    config = uvicorn.Config(mcp.http_app(), host="127.0.0.1", port=0, log_level="error", ws="none")
    host = uvicorn.Server(config)
    started = threading.Event()
    monitor = host.startup

    async def startup(*args: Any, **kwargs: Any) -> None:
        await monitor(*args, **kwargs)
        started.set()

    host.startup = startup  # type: ignore[method-assign]
    thread = threading.Thread(target=host.run)
    thread.start()
    assert started.wait(60)
    yield f"http://127.0.0.1:{host.servers[0].sockets[0].getsockname()[1]}/mcp"
    host.should_exit = True
    thread.join()


class TestServer:
    def test_a_client_connects_at_the_urls_that_the_routes_are_asked_by(self):
        for path in ["/mcp", "", "/", "/tools", "/mcp/readonly?q=x", "/context/x/git_log?top_k=3"]:
            place = mcp_url(f"http://127.0.0.1:8001{path}")
            expected = {
                "/mcp/readonly?q=x": "/mcp/readonly?q=x",
                "/context/x/git_log?top_k=3": "/mcp/x/git_log?top_k=3",
            }
            assert place == "http://127.0.0.1:8001" + expected.get(path, "/mcp")

    def test_a_foreign_servers_url_is_left_as_it_is(self):
        assert mcp_url("https://tools.example/v1/agent?key=a%2Fb") == "https://tools.example/v1/agent?key=a%2Fb"

    def test_a_running_servers_tools_are_ranked(self, run, server, tmp_path):
        for path in ["/mcp", ""]:
            server = server.removesuffix("/mcp") + path
            asked = lines(tmp_path / "asked.jsonl", [{"id": "1", "query": "newest commits", "relevant": ["git_log"]}])
            code, out, err = run("--server", server, "--queries", str(asked), "--ranker", "lexical", "--json")
            assert (code, err) == (0, "")
            assert (json.loads(out)["tools"], json.loads(out)["hit@1"]) == (3, 1)

    def test_it_is_measured_what_is_served(self, run, server, tmp_path):
        queries = ["newest commits", "analyze the evidence of my travel", "text of the notes file", "travel"]
        asked = [{"id": query, "query": query, "relevant": ["read_file"]} for query in queries]
        ranks, given = tmp_path / "ranks.jsonl", str(lines(tmp_path / "asked.jsonl", asked))
        code, _, _ = run("--server", server, "--queries", given, "--ranker", "lexical", "--ranks-out", str(ranks))
        measured = {}
        for row in map(json.loads, ranks.read_text(encoding="utf-8").splitlines()):
            measured[row["id"]] = dict(zip(row["ranked"], row["scores"], strict=True))
        assert (code, set(measured)) == (0, set(queries))
        with httpx2.Client(base_url=server.removesuffix("/mcp"), trust_env=False, timeout=30) as client:
            client.get("/tools", params={"q": "wake up"})
            while client.get("/ready").json()["ranker"]["status"] != "ready":
                pass
            for query in queries:
                shown = client.get("/tools", params={"q": query}).json()
                scores = {tool["name"]: tool["score"] for tool in shown["tools"] if tool.get("score") is not None}
                assert scores, shown["selection"]
                assert scores == {name: measured[query][name] for name in scores}


def ranked_request(ranked: str, wanted: list[str], score: float = 1.0, abstained: bool = False) -> RankedRequest:
    groups = tuple(frozenset(group) for group in wanted)
    return RankedRequest(Request("q", "q", groups), tuple(ranked), (score,), abstained, 1.0, len(ranked))


class TestMeasures:
    CATALOG = tuple(Tool(name, ToolDocument(name), 10) for name in "abcde")

    def test_a_group_is_satisfied_by_any_member(self):
        assert ranked_request("abc", ["cx", "ay"]).recall(3) == 1
        assert ranked_request("abc", ["cx", "ay"]).recall(2) == 0.5

    def test_measures_of_two_requests(self):
        measures = measure([ranked_request("abc", ["b"]), ranked_request("abc", ["a", "e"])], [], self.CATALOG, 2)
        expected = {"hit@1": 0.5, "recall@1": 0.25, "recall@3": 0.75, "mrr@10": 0.75, "all@10": 0.5}
        assert {name: measures[name] for name in expected} == expected

    def test_what_is_claimed_is_measured_up_to_top_k(self):
        requests = [
            replace(ranked_request("abc", ["b", "c"]), n_claimed=2),
            replace(ranked_request("abc", ["a"]), n_claimed=3),
            replace(ranked_request("abc", ["a"], abstained=True), n_claimed=0),
        ]
        measures = measure(requests, [], self.CATALOG, 2)
        assert (measures["recall@top_k"], measures["recall claimed"], measures["claimed"]) == (0.75, 0.75, 2)
        assert measure(requests, [], self.CATALOG, 3)["claimed"] == 2.5
        assert tokens_saved(requests[:1], self.CATALOG, 5) == pytest.approx(0.6)

    def test_tokens_are_saved_unless_nothing_is_claimed(self):
        assert tokens_saved([ranked_request("ab", ["a"])], self.CATALOG, 1) == pytest.approx(0.8)
        assert tokens_saved([ranked_request("ab", ["a"], abstained=True)], self.CATALOG, 1) == 0

    def test_requests_that_no_tool_need_answer_save_no_tokens(self):
        answerable, unanswerable = [ranked_request("ab", ["a"])], [ranked_request("abcde", [])]
        assert measure(answerable, unanswerable, self.CATALOG, 1)["tokens saved"] == pytest.approx(0.8)
        assert measure(answerable, unanswerable, self.CATALOG, 5)["tokens saved"] == pytest.approx(0.6)

    def test_rejected_at_a_share_kept(self):
        answerable = [ranked_request("a", ["a"], score) for score in range(20)]
        unanswerable = [ranked_request("a", [], score) for score in (-1, 0, 1, 5)]
        assert rejected_at(answerable, unanswerable) == 0.5

    def test_auroc_counts_ties_half(self):
        assert (
            auroc([ranked_request("a", ["a"], 2), ranked_request("a", ["a"], 1)], [ranked_request("a", [], 1)]) == 0.75
        )

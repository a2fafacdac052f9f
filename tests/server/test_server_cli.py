"""The command line of every server, as an operator's shell sees it."""

from __future__ import annotations

import json
import os
import re
import runpy
import socket
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import httpx2
import pytest

from agent_utilities import create_mcp_server
from agent_utilities.selection.channels import FIELDS, spellings
from agent_utilities.selection.merge import SEARCHING
from agent_utilities.server.http.http import at_an_address
from tests.command_line import Done, run_command
from tests.every import every
from tests.query.graph.agents import PATIENT
from tests.wire.processes import HttpProcess

SERVER = """
from agent_utilities import create_mcp_server
mcp = create_mcp_server("ten-lines", instructions="Counts.")

@mcp.tool(tags={"count", "read"}, annotations={"readOnlyHint": True})
def total(numbers: list[int]) -> int: return sum(numbers)

@mcp.tool(tags={"count", "write"})
def reset() -> str: return "reset"

main = mcp.cli
main()
"""

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "0"},
    },
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = tmp_path_factory.mktemp("server") / "ten_lines.py"
    path.write_text(SERVER)
    return path


@pytest.fixture
def shell(server):
    def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "COLUMNS": "200", **environ}
        command = [sys.executable, str(server), *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)

    return run


@pytest.fixture
def command(server, capfd):
    """Run the command line in this process."""

    def run(*arguments: str, **environ: str) -> Done:
        environ = {**os.environ, "COLUMNS": "200", **environ}
        main = partial(runpy.run_path, str(server), run_name="__main__")
        return run_command(main, [str(server), *arguments], environ, capfd)

    return run


class TestRefused:
    def test_a_process_ends_with_code_2_and_one_line_on_stderr(self, shell):
        done = shell("--tool", "total")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)

    def test_with_code_2_and_one_line_on_stderr(self, command):
        for arguments, environ, hint in [
            (["--tool", "total"], {}, "--tools"),
            (["--top-k", "0"], {}, "use a whole number from 1 up"),
            (["--tools", ","], {}, "give names"),
            (["--denied-tools", "total"], {}, "did you mean --disabled-tools?"),
            ([], {"mcp_exclude_tags": "write"}, "did you mean MCP_DISABLED_TAGS?"),
            (["-t", "carrier-pigeon"], {}, "stdio"),
            (["--selection-policy", "wide"], {}, "narrow"),
            (["-p", "70000"], {}, "65535"),
            (["stray"], {}, "unexpected"),
            ([], {"MCP_READ_ONLY": "perhaps"}, "use true or false"),
            ([], {"MCP_DISABLED_TAG": "write"}, "did you mean MCP_DISABLED_TAGS?"),
            ([], {"MCP_SELECTION_POLICY": "wide"}, "narrow"),
            ([], {"MCP_LIST_TTL_MS": "soon"}, "MCP_LIST_TTL_MS"),
            (["--allowed-hosts", "http://a.example"], {}, "use a host such as agent.example"),
            ([], {"MCP_ALLOWED_ORIGINS": "app.example"}, "https://app.example"),
            (["--disabled-tags", "writ"], {}, "'writ' (from option --disabled-tags); did you mean write?"),
            (["-t", "http", "-p", "0", "--disabled-tools", "rest"], {}, "did you mean reset?"),
            ([], {"MCP_DISABLED_TAGS": "writ", "MCP_STRICT": "1"}, "(from env MCP_DISABLED_TAGS)"),
            ([], {"MCP_EMBEDDINGS": "gpt"}, "env MCP_EMBEDDINGS"),
            ([], {"NEO4J_URI": "ftp://host"}, "bolt://127.0.0.1:7687"),
            (["-t", "http"], {"MCP_GRAPH": "neo4j"}, "env NEO4J_URI"),
            (["--profile", "review"], {}, "define it under [profiles.review] in a file"),
            ([], {"MCP_CONFIG_FILE": "gone.toml"}, "(from env MCP_CONFIG_FILE)"),
            (["--tool-search", "maybe"], {}, "use off, on, auto, or auto:N"),
            ([], {"MCP_TOOL_SEARCH": "auto:0"}, "(from env MCP_TOOL_SEARCH)"),
            (["--tool-serch", "on"], {}, "did you mean --tool-search?"),
            (["--pin", ","], {}, "(from option --pin)"),
            (["--initial-k", "0"], {}, "use a whole number from 1 up"),
            (["--search-k", "few"], {}, "(from option --search-k)"),
            (["--search-turns=-1"], {}, "use one from 0 up"),
            (["--max-active", "1.5"], {}, "use one from 0 up"),
            (["--max-tools", "0"], {}, "use a whole number from 1 up"),
            (["--active", "total"], {}, "callers send x-mcp-active or ?active=; use --pin here"),
            ([], {"MCP_ACTIVE": "total"}, "use MCP_PINNED_TOOLS here"),
        ]:
            done = command(*arguments, **environ)
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
            assert done.stderr.startswith("error: ")
            assert hint in done.stderr


class TestAnOptionInPlaceOfAValue:
    @every("option", ["--query", "--tools", "--host", "-p", "--log-level", "-t"])
    def test_is_refused_and_not_eaten(self, command, option):
        done = command(option, "--list")
        assert (done.returncode, done.stdout) == (2, "")
        assert f"has no value before --list; write {option}=--list if that is meant" in done.stderr

    def test_is_taken_where_it_is_written_as_one(self, command):
        assert "ten-lines: what a caller sees" in command("--query=--list", "--list").stdout


class TestList:
    def test_shows_verdicts_reasons_and_cost(self, shell):
        out = shell("--list", "--disabled-tags", "write").stdout
        assert "denied by tag (option --disabled-tags)" in out
        assert "1 of 2 tools visible, 1 permitted; about" in out

    def test_prints_json_for_machines(self, command):
        listed = json.loads(command("--list", "--json", "--read-only", "--tools", "total,totl").stdout)
        assert [(row["name"], row["verdict"]) for row in listed["components"]] == [
            ("total", "visible"),
            ("reset", "denied"),
        ]
        assert listed["unknown"] == {"totl": "total"}
        assert listed["totals"]["visible_tokens"] < listed["totals"]["tokens"]

    def test_the_command_line_replaces_the_environment(self, command):
        listed = json.loads(command("--list", "--json", "--tools", "reset", MCP_ENABLED_TOOLS="total").stdout)
        assert [row["verdict"] for row in listed["components"]] == ["denied", "visible"]

    def test_a_tool_past_top_k_is_deferred(self, command):
        listed = json.loads(command("--list", "--json", "--top-k", "1").stdout)
        assert [row["verdict"] for row in listed["components"]] == ["visible", "deferred"]

    def test_a_query_is_answered_as_a_running_server_would(self, command, tmp_path):
        environ = {"MCP_GRAPH_FOLDER": str(tmp_path), **PATIENT}
        listed = json.loads(command("--list", "--json", "--query", "total", **environ).stdout)
        shown = [(row["verdict"], row["reason"][:6]) for row in listed["components"]]
        assert (shown, listed["query"]) == ([("visible", "rank 1"), ("deferred", "permit")], "fresh")

    def test_a_query_that_the_graph_can_not_answer_is_ranked_and_says_why(self, command):
        environ = {"NEO4J_URI": "bolt://127.0.0.1:9", **PATIENT}
        listed = json.loads(command("--list", "--json", "--query", "total", **environ).stdout)
        assert (listed["query"], listed["totals"]["visible"]) == ("ranked, graph unreachable", 1)


class TestHelp:
    def test_is_one_screen_on_which_nothing_is_cut_off(self):
        for command in [["git-agent-mcp"], ["agent-utilities", "gateway", "serve"]]:
            program, *arguments = command
            done = subprocess.run(
                [Path(sys.executable).parent / program, *arguments, "--help"],
                env={**os.environ, "COLUMNS": "100"},
                capture_output=True,
                text=True,
                check=True,
            )
            assert len(done.stdout.splitlines()) <= 60
            assert all(
                option in done.stdout for option in ("--tools ", "--disabled-tools ", "--read-only ", "--help-all ")
            )
            assert [text for text in ("MCP_", "Same as", "--initial-k", "[profiles.NAME]") if text in done.stdout] == [
                "[profiles.NAME]"
            ]
            assert not any("…" in line for line in done.stdout.splitlines() if line.startswith("│"))

    def test_of_all_names_every_flag_of_the_table(self, shell):
        out = shell("--help-all").stdout
        assert [flag for flag, _ in spellings("cli") if flag not in out] == []

    def test_of_all_has_a_panel_for_tool_search_in_which_nothing_is_cut_off(self, command):
        _, _, panel = command("--help-all", COLUMNS="80").stdout.partition("─ What is listed for them ─")
        panel, _, _ = panel.partition("╰")
        options = [row.name for row in FIELDS if "cli" in row.channels and row.name in (*SEARCHING, "pins")]
        told = [(row.spellings("cli")[0], row.spellings("env")[0]) for row in FIELDS if row.name in options]
        assert all(option in panel and f"{variable}]" in panel for option, variable in told)
        assert "…" not in panel

    def test_a_server_without_an_installed_package_has_no_version(self, command):
        assert command("--version").stdout == "ten-lines (no version)\n"

    def test_shells_complete_both_kinds_of_command(self):
        for command in ["agent-utilities", "logs-agent-mcp"]:
            program = str(Path(sys.executable).parent / command)
            # The shell is found out by the parents of the process, which are none where tests run in the background.
            environ = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
            show = [program, "--show-completion", "bash"]
            script = subprocess.run(show, env=environ, capture_output=True, text=True, check=True)
            assert f"complete -o default -F _{command.replace('-', '_')}_completion {command}" in script.stdout
            variable = f"_{command.replace('-', '_').upper()}_COMPLETE"
            environ = {**os.environ, variable: "complete_bash", "COMP_WORDS": f"{command} --vers", "COMP_CWORD": "1"}
            done = subprocess.run([program], env=environ, capture_output=True, text=True, check=True)
            assert done.stdout.split() == ["--version"]


class TestGoneReader:
    def test_ends_a_command_and_a_server_without_a_traceback(self):
        for command in [
            ["agent-utilities", "capabilities", "list", "starter", "--json"],
            ["agent-utilities", "usage"],
            ["git-agent-mcp", "--list", "--json"],
            ["git-agent-mcp"],
        ]:
            program, *arguments = command
            reading, writing = os.pipe()
            os.close(reading)
            with open(writing, "wb") as gone:
                done = subprocess.run(
                    [Path(sys.executable).parent / program, *arguments],
                    input=json.dumps(INITIALIZE) + "\n",
                    stdout=gone,
                    stderr=subprocess.PIPE,
                    text=True,
                    check=False,
                    timeout=60,
                )
            assert (done.returncode, "Error" in done.stderr) == (1, False), done.stderr


class TestOpenAddress:
    def test_a_public_address_without_auth_is_warned_of(self, server):
        command = [sys.executable, str(server), "-t", "http", "--host", "192.0.2.1", "-p", "0"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert "WARNING: ten_lines.py binds 192.0.2.1:0 without auth" in done.stderr


class TestFastMCPsOwnVariables:
    """What `FastMCP.run` reads of the environment, `cli` reads too, under its own options."""

    @every("transport", ["http", "streamable-http", "sse"])
    def test_say_transport_host_and_port(self, server, transport):
        environ = {**os.environ, "FASTMCP_TRANSPORT": transport, "FASTMCP_HOST": "127.0.0.2", "fastmcp_port": "0"}
        process = HttpProcess([sys.executable, str(server)], environ)
        try:
            port = process.wait_for(re.compile(r"Uvicorn running on http://127.0.0.2:(\d+)"))[1]
            assert httpx2.get(f"http://127.0.0.2:{port}/health").status_code == 200
        finally:
            process.stop()

    def test_hold_where_no_option_is_given(self, server):
        environ = {**os.environ, "FASTMCP_HOST": "192.0.2.1", "FASTMCP_PORT": "1", "FASTMCP_TRANSPORT": "sse"}
        options = ["--host", "127.0.0.2", "-p", "0", "-t", "http"]
        process = HttpProcess([sys.executable, str(server), *options], environ)
        try:
            assert process.wait_for(re.compile(r"Uvicorn running on http://127.0.0.2:(\d+)"))[1] != "1"
        finally:
            process.stop()

    def test_a_level_of_theirs_leaves_our_lines_out(self, shell):
        assert "permitted" not in shell(FASTMCP_LOG_LEVEL="ERROR").stderr
        assert "permitted" in shell("--log-level", "info", FASTMCP_LOG_LEVEL="ERROR").stderr

    def test_a_port_that_is_none_is_refused(self, shell):
        done = shell("-t", "http", FASTMCP_PORT="65536")
        told = "error: no port: '65536' (from env FASTMCP_PORT); give one of 0 to 65535\n"
        assert (done.returncode, done.stderr) == (2, told)


class TestAnAddressWithoutAPort:
    """`-p 0`: what is chosen is what everything that is told of it names."""

    @every("options", [("-t", "http"), ("-t", "sse"), ("-t", "http", "--host", "localhost")])
    def test_is_told_with_the_one_that_was_chosen(self, server, tmp_path, options):
        environ = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
        process = HttpProcess([sys.executable, str(server), *options, "-p", "0"], environ)
        try:
            link = process.wait_for(re.compile(r"page: http://[a-z0-9.]+:(\d+)/"))[1]
            served = process.wait_for(re.compile(r"Uvicorn running on http://[a-z0-9.]+:(\d+) "))[1]
            kept = [file.stem for file in tmp_path.rglob("*.html")]
            assert (served, kept) == (link, [link])
            address = "localhost" if "localhost" in options else "127.0.0.1"
            assert httpx2.get(f"http://{address}:{link}/health").status_code == 200
        finally:
            process.stop()

    def test_is_warned_of_with_it_where_it_is_public(self, server):
        process = HttpProcess([sys.executable, str(server), "-t", "http", "--host", "0.0.0.0", "-p", "0"], os.environ)
        try:
            served = process.wait_for(re.compile(r"Uvicorn running on http://0.0.0.0:(\d+)"))[1]
            process.wait_for(re.compile(f"binds 0.0.0.0:{served} without auth"))
        finally:
            process.stop()

    def test_of_a_socket_that_is_given_is_that_ones(self):
        with socket.create_server(("127.0.0.1", 0)) as bound:
            mcp = create_mcp_server("own")
            given = {"sockets": [bound], "host": "127.0.0.1"}
            with at_an_address(mcp, given):
                assert mcp.address[1] == bound.getsockname()[1]


def at_end_of_input(command: list[str], environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a server over stdio to the end of its input, which is empty."""
    return subprocess.run(command, env=environ, input="", capture_output=True, text=True, check=False, timeout=60)


class TestStart:
    def test_what_holds_is_said_once_it_is_bound_and_all_else_in_one_format(self, server, tmp_path):
        environ = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "MCP_GRAPH": "off"}
        process = HttpProcess([sys.executable, str(server), "-t", "http", "-p", "0", "--read-only"], environ)
        try:
            process.wait_for(re.compile(r"page: http"))
        finally:
            process.stop()
        first, *lines = process.log.splitlines()
        assert re.fullmatch(r"ten-lines: Uvicorn running on http://127.0.0.1:\d+ \(MCP at /mcp\)", first)
        assert lines[0].startswith("page: http")
        assert lines[1] == "ten-lines: 1 of 2 tools permitted; --read-only (cli)"
        assert re.fullmatch(r"ten-lines: 1 listed, about \d+ tokens on every turn, of 2 with \d+", lines[2])
        assert [line for line in lines[3:] if not re.match(r"\d{4}-\d\d-\d\d [\d:,]+ [A-Z]+ [\w.]+: ", line)] == []

    @every("how", ["run()", "run(transport='http', port=0)", "cli()"])
    def test_however_it_is_run_it_says_the_same_and_no_banner_is_in_the_way(self, how, server, tmp_path):
        text = server.read_text()
        assert text.count("main()") == 1, "it is run by its command line"
        file = tmp_path / "server.py"
        file.write_text(text.replace("main()", f"mcp.{how}"))
        environ = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "MCP_GRAPH": "off", "FASTMCP_PORT": "0"}
        command = [sys.executable, str(file)]
        if "port" in how:
            process = HttpProcess(command, environ)
            try:
                process.wait_for(re.compile(r"on every turn"))
            finally:
                process.stop()
            lines = process.log.partition("Traceback")[0].splitlines()
            assert re.fullmatch(r"ten-lines: Uvicorn running on http://127.0.0.1:\d+ \(MCP at /mcp\)", lines.pop(0))
            assert lines.pop(0).startswith("page: http")
        else:
            done = at_end_of_input(command, environ)
            lines = done.stderr.splitlines()
            assert done.stdout == ""
        assert lines[0] == "ten-lines: 2 of 2 tools permitted; no bounds"
        assert re.fullmatch(r"ten-lines: 2 listed, about \d+ tokens on every turn", lines[1])
        assert [line for line in lines[2:] if not re.match(r"\d{4}-\d\d-\d\d [\d:,]+ [A-Z]+ [\w.]+: ", line)] == []

    def test_an_authors_own_logging_is_left_as_it_is(self, server, tmp_path):
        file, text = tmp_path / "server.py", server.read_text()
        own = "import logging\nlogging.basicConfig(format='mine %(message)s', level='INFO')\n"
        file.write_text(own + text.replace("main()", "logging.getLogger('agent_utilities').info('heard'); mcp.run()"))
        assert "mine heard" in at_end_of_input([sys.executable, str(file)], os.environ).stderr

    def test_what_is_wrong_is_in_the_block_whatever_the_level(self, server):
        environ = {**os.environ, "MCP_DISABLED_TOOLS": "no_such", "MCP_GRAPH": "off"}
        command = [sys.executable, str(server), "--log-level", "error"]
        done = at_end_of_input(command, environ)
        told = "WARNING: a deny that fits nothing: 'no_such' (from env MCP_DISABLED_TOOLS); --list shows what there is"
        assert [line.partition("; MCP")[0] for line in done.stderr.splitlines()] == [told]

    @every(("name", "value"), [("FASTMCP_PORT", "abc"), ("FASTMCP_LOG_LEVEL", "loud"), ("FASTMCP_TRANSPORT", "pigeon")])
    def test_a_variable_of_fastmcps_that_can_not_be_read_is_told_in_one_line(self, name, value, server, tmp_path):
        environ = {**os.environ, name: value}
        config = tmp_path / "mcp.json"
        config.write_text('{"mcpServers": {}}')
        gateway = [str(Path(sys.executable).with_name("agent-utilities")), "gateway", str(config)]
        done = at_end_of_input(gateway, environ)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert done.stderr.startswith(f"error: not as FastMCP reads it: {value!r} (from env {name})")
        of_author = [sys.executable, str(server), "-t", "http"]
        done = at_end_of_input(of_author, environ)
        assert f"not as FastMCP reads it: {value!r} (from env {name})" in done.stderr.splitlines()[-1]

    def test_nothing_is_said_to_be_served_where_the_port_is_taken(self, server):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            command = [sys.executable, str(server), "-t", "http", "-p", str(taken.getsockname()[1])]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert ("running" in done.stderr, "complete" in done.stderr.partition("address already in use")[0]) == (
            False,
            False,
        )
        assert (done.returncode != 0, "address already in use" in done.stderr) == (True, True)


class TestStdio:
    def test_only_the_protocol_is_on_stdout(self, server):
        done = subprocess.run(
            [sys.executable, str(server), "--log-level", "debug", "--disabled-tags", "write"],
            input=json.dumps(INITIALIZE) + "\n",
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        (line,) = done.stdout.splitlines()
        assert json.loads(line)["result"]["serverInfo"] == {"name": "ten-lines", "version": "unknown"}
        assert "ten-lines: 1 of 2 tools permitted; --disabled-tags write (cli)\n" in done.stderr

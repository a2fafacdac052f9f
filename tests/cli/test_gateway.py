"""`agent-utilities gateway`, as its user's shell runs it: real servers of a real mcp.json."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from agent_utilities.cli.app import main
from tests.command_line import Done, run_command
from tests.gateway.upstreams.supervised import FAULTY, PATIENCE_S
from tests.wire.processes import HttpProcess

pytestmark = pytest.mark.outside

COMMAND = str(Path(sys.executable).parent / "agent-utilities")


def entry(*faults: str, **keys: Any) -> dict[str, Any]:
    """Return the entry of a server that misbehaves as it is told."""
    return {"command": sys.executable, "args": ["-I", "-S", str(FAULTY), *faults], **keys}


class Shell:
    """A user's shell in a folder of his own, with an mcp.json in it."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "servers.json"
        self.environ = {**os.environ, "MCP_GATEWAY_FOLDER": str(folder / "kept"), "MCP_GRAPH": "off", "COLUMNS": "200"}

    def write(self, **servers: dict[str, Any]) -> None:
        """Write the config whole, as editors do."""
        new = self.config.with_suffix(".new")
        new.write_text(json.dumps({"mcpServers": servers}))
        new.rename(self.config)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command to its end, in a process of its own."""
        command = [COMMAND, "gateway", *arguments]
        return subprocess.run(
            command, env=self.environ, capture_output=True, text=True, check=False, timeout=2 * PATIENCE_S
        )


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(tmp_path_factory.mktemp("shell"))


Command = Callable[..., Done]


@pytest.fixture
def command(shell: Shell, capfd: pytest.CaptureFixture[str]) -> Command:
    """Run the command in this process."""
    return lambda *arguments: run_command(main, [COMMAND, "gateway", *arguments], shell.environ, capfd)


class TestCheck:
    def test_tells_what_each_server_costs_and_what_is_wrong(self, shell: Shell) -> None:
        shell.write(well=entry(), dead=entry("exits=3", "stderr=no such port"), gone={"command": "no-such-program"})
        done = shell.run("check", str(shell.config))
        assert done.returncode == 1
        assert re.search(r"well +stdio +(ready|idle) +20 ", done.stdout), done.stdout
        assert "dead: did not start: it exited with status 3" in done.stdout
        assert "no such port" in done.stdout
        assert "gone: not found: no command 'no-such-program'; looked in " in done.stdout
        assert "what would mend it: install it, or give its whole path as `command`" in done.stdout
        assert "1 of 3 servers answered: 20 tools" in done.stdout
        assert sorted(line.partition("] ")[2] for line in done.stderr.splitlines()) == [
            "dead: failing",
            "gone: failing",
            f"well: {'ready' if 'ready' in done.stdout else 'idle'}",
        ]

    def test_json_has_a_row_for_each_and_the_code_tells_that_all_is_well(self, shell: Shell, command: Command) -> None:
        shell.write(well=entry(), off=entry(disabled=True))
        done = command("check", str(shell.config), "--json")
        told = json.loads(done.stdout)
        rows = [(row["server"], row["state"], row["tools"], row["wrong"]) for row in told["upstreams"]]
        assert (done.returncode, rows[1]) == (0, ("off", "off", 0, ""))
        assert (rows[0][0], *rows[0][2:]) == ("well", 20, "")

    def test_a_server_that_cannot_be_taken_costs_none_of_the_others(self, shell: Shell, command: Command) -> None:
        shell.write(well=entry(), odd={"command": 7})
        done = command("check", str(shell.config))
        assert done.returncode == 1
        assert "1 of 1 servers answered: 20 tools" in done.stdout
        assert f"left out: {shell.config}: mcpServers.odd.command: " in done.stdout.replace("\n", " ")

    def test_a_name_that_looks_like_markup_costs_none_of_the_others(self, shell: Shell, command: Command) -> None:
        shell.write(**{"a[/]b": entry(), "well": entry()})
        done = command("check", str(shell.config))
        assert "2 of 2 servers answered: 40 tools" in done.stdout
        assert re.search(r"a\[/\]b +stdio +(ready|idle) ", done.stdout), done.stdout


class TestList:
    def test_sees_servers_that_were_never_reached_and_says_where_a_tool_is_denied(
        self, shell: Shell, command: Command
    ) -> None:
        shell.write(fresh=entry("wait-for=/dev/null", excludeTools=["ad*"]))
        done = command(str(shell.config), "--list", "--json")
        reasons = {row["name"]: row["reason"] for row in json.loads(done.stdout)["components"]}
        assert reasons["fresh_add"] == f"denied in its configuration ({shell.config}: mcpServers.fresh.excludeTools)"
        assert "fresh_echo" in reasons

    def test_says_which_were_not_reached(self, shell: Shell, command: Command) -> None:
        shell.write(gone={"command": "no-such-program"})
        done = shell.run(str(shell.config), "--list")
        assert "not listed, since never reached: gone" in done.stdout
        assert "asking what was never listed yet: gone" in done.stderr
        assert json.loads(command(str(shell.config), "--list", "--json").stdout)["absent"] == ["gone"]

    def test_shows_what_servers_say_as_it_is_and_lets_none_of_it_act_on_the_terminal(
        self, shell: Shell, command: Command
    ) -> None:
        shell.write(loud=entry("tag=[/]\x1b[2J"), well=entry())
        done = command(str(shell.config), "--list")
        assert re.search(r"loud_tagged +tool +visible +\[/\]\\x1b\[2J, loud ", done.stdout), done.stdout
        assert "well_echo" in done.stdout
        assert "\x1b[2J" not in done.stdout


class TestLogs:
    def test_show_what_a_server_said(self, shell: Shell, command: Command) -> None:
        shell.write(chatty=entry("stderr=I am here"))
        command("check", str(shell.config))
        assert "I am here" in command("logs", "chatty").stdout

    def test_of_a_name_that_is_none_name_those_that_are(self, command: Command) -> None:
        done = command("logs", "chaty")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("error: no log of that server: 'chaty' (from argument NAME); there are: ")


class TestLogin:
    def test_at_a_stdio_server_says_that_it_has_none(self, shell: Shell, command: Command) -> None:
        shell.write(well=entry())
        done = command("login", "well", str(shell.config))
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert "a stdio server has no login: 'well'" in done.stderr

    def test_that_fails_is_told_in_one_line(self, shell: Shell) -> None:
        class Refusing(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                self.send_response(401)
                self.send_header("content-length", "0")
                self.end_headers()

            do_POST = do_GET

        with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            shell.write(remote={"url": f"http://127.0.0.1:{server.server_port}/mcp", "auth": "oauth"})
            done = shell.run("login", "remote", str(shell.config))
            server.shutdown()
        opening, error = done.stderr.splitlines()
        assert (done.returncode, opening[:17], error.startswith("error: ")) == (1, "opening a browser", True)


class TestRefused:
    def test_in_one_line(self, shell: Shell, command: Command) -> None:
        for arguments, hint in [
            (["no-such.json"], "no-such.json"),
            (["{config}", "--tool", "x"], "--tools"),
        ]:
            shell.write(well=entry(disabled=True))
            done = command(*(each.format(config=shell.config) for each in arguments), "--list")
            assert (done.returncode, done.stderr.count("\n")) == (2, 1)
            assert hint in done.stderr


@pytest.fixture
def served(shell: Shell) -> Iterator[HttpProcess]:
    shell.write(first=entry())
    process = HttpProcess([COMMAND, "gateway", str(shell.config), "-t", "http", "-p", "0"], shell.environ)
    try:
        process.wait()
        yield process
    finally:
        process.stop()


class Listener:
    """A client of the older protocol, which is told when lists change."""

    def __init__(self, url: str) -> None:
        self._news = asyncio.Event()
        self.client = Client(f"{url}/mcp", mode="legacy", message_handler=self._heard)

    async def _heard(self, message: Any) -> None:
        self._news.set()

    async def until_listed(self, tool: str) -> None:
        """Return once a tool is listed; asked again with each message."""
        async with asyncio.timeout(PATIENCE_S):
            while tool not in {each.name for each in await self.client.list_tools()}:
                await self._news.wait()
                self._news.clear()

    async def call(self, tool: str, **arguments: Any) -> str:
        """Return the text that a tool gives."""
        return str((await self.client.call_tool(tool, arguments)).content[0].text)  # type: ignore[union-attr]


@pytest.mark.anyio
class TestServing:
    async def test_over_stdio_lists_and_calls(self, shell: Shell) -> None:
        shell.write(first=entry())
        shell.run("check", str(shell.config))
        transport = StdioTransport(COMMAND, ["gateway", str(shell.config)], env=shell.environ, keep_alive=False)
        async with Client(transport) as client:
            assert "first_echo" in {tool.name for tool in await client.list_tools()}
            result = await client.call_tool("first_echo", {"text": "hello"})
            assert result.content[0].text == "hello"  # type: ignore[union-attr]

    async def test_an_edit_is_taken_whole_or_not_at_all_and_sessions_stay(
        self, shell: Shell, served: HttpProcess
    ) -> None:
        listener = Listener(served.url)
        async with listener.client:
            await listener.until_listed("first_pid")
            pid = await listener.call("first_pid")
            shell.config.write_text('{"mcpServers": {"second": ')
            served.wait_for(re.compile(r"the configuration is kept as it was: "))
            shell.write(first=entry(), second=entry())
            await listener.until_listed("second_echo")
            assert await listener.call("first_pid") == pid
            assert await listener.call("second_echo", text="x") == "x"

    async def test_killed_it_leaves_no_server_behind(self, served: HttpProcess) -> None:
        listener = Listener(served.url)
        async with listener.client:
            await listener.until_listed("first_pid")
            upstream = psutil.Process(json.loads(await listener.call("first_pid"))["pid"])
        assert upstream.is_running()
        os.kill(served.process.pid, signal.SIGKILL)
        await asyncio.to_thread(upstream.wait, PATIENCE_S)
        assert not upstream.is_running()


class TestCheckOfWhatIsPermitted:
    def test_a_config_without_servers_ends_with_1(self, command: Callable[..., Done], tmp_path: Path) -> None:
        empty = tmp_path / "empty.json"
        empty.write_text('{"mcpServers": {}}')
        done = command("check", str(empty))
        assert (done.returncode, "0 of 0 servers" in done.stdout) == (1, True)

    def test_tools_that_the_config_denies_cost_nothing(self, command: Callable[..., Done], tmp_path: Path) -> None:
        file = tmp_path / "denying.json"
        file.write_text(json.dumps({"mcpServers": {"one": entry(disabledTools=["*"])}}))
        (row,) = json.loads(command("check", str(file), "--json").stdout)["upstreams"]
        assert (row["tools"] > 0, row["permitted"], row["tokens"]) == (True, 0, 0)

    def test_says_what_the_lock_withholds(self, command: Callable[..., Done], tmp_path: Path) -> None:
        file = tmp_path / "locked.json"
        file.write_text(json.dumps({"mcpServers": {"one": entry()}}))
        assert command("lock", str(file)).returncode == 0
        (lock,) = [each for each in tmp_path.iterdir() if "lock" in each.name and each != file]
        content = json.loads(lock.read_text())
        content["upstreams"]["one"]["tools"].popitem()
        lock.write_text(json.dumps(content))
        done = command("check", str(file))
        assert (done.returncode, "the lock withholds 1" in done.stdout) == (1, True)

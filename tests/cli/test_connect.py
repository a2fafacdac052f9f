"""`agent-utilities connect`: a client is told of a server, and loses nothing of what it had."""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import anyio
import fastmcp
import mcp_types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.cli.app import main
from agent_utilities.cli.connect import Client, Entry, _tell, add_entry, config_path
from agent_utilities.errors import InputError
from agent_utilities.gateway.upstreams.configuration.config_files import read_config
from agent_utilities.gateway.upstreams.configuration.config_text import parsed
from agent_utilities.gateway.upstreams.configuration.host_files import HOSTS
from tests.command_line import Done, run_command
from tests.every import every

COMMAND = Path(sys.executable).parent / "agent-utilities"
PLAIN_SERVER = Path(__file__).parents[1] / "gateway" / "upstreams" / "plain_server.py"
ENTRY = {"command": "/bin/logs-agent-mcp", "args": []}


@pytest.fixture
def connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, **more: str) -> Done:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MCP_", "XDG_"))}
        env = {**kept, "HOME": str(tmp_path), **more}
        return run_command(main, ["agent-utilities", "connect", *arguments], env, capfd)

    return run


def add(path: Path, *, replace: bool = False) -> Path | None:
    return add_entry(path, HOSTS["cursor"], "logs-agent", ENTRY, replace=replace)


class TestFile:
    def test_is_the_one_that_the_client_reads_on_each_system(self, tmp_path, monkeypatch):
        for client, platform, path in [
            ("claude-desktop", "darwin", "Library/Application Support/Claude/claude_desktop_config.json"),
            ("claude-desktop", "linux", ".config/Claude/claude_desktop_config.json"),
            ("claude-desktop", "win32", "Roaming/Claude/claude_desktop_config.json"),
            ("vscode", "darwin", "Library/Application Support/Code/User/mcp.json"),
            ("vscode", "linux", ".config/Code/User/mcp.json"),
            ("vscode", "win32", "Roaming/Code/User/mcp.json"),
            ("cursor", "win32", ".cursor/mcp.json"),
            ("gemini", "linux", ".gemini/settings.json"),
            ("windsurf", "darwin", ".codeium/windsurf/mcp_config.json"),
            ("codex", "linux", ".codex/config.toml"),
            ("zed", "darwin", ".config/zed/settings.json"),
            ("zed", "win32", "Roaming/Zed/settings.json"),
            ("opencode", "win32", ".config/opencode/opencode.json"),
            ("cline", "linux", ".cline/data/settings/cline_mcp_settings.json"),
            ("goose", "darwin", ".config/goose/config.yaml"),
            ("goose", "win32", "Roaming/Block/goose/config/config.yaml"),
            ("continue", "linux", ".continue/config.yaml"),
        ]:
            monkeypatch.setattr(Path, "home", lambda: tmp_path)
            environ = {"APPDATA": str(tmp_path / "Roaming")}
            assert config_path(client, None, environ, platform) == tmp_path / path

    def test_of_a_project_is_in_its_folder(self, tmp_path):
        for client, path in [
            ("claude-code", ".mcp.json"),
            ("cursor", ".cursor/mcp.json"),
            ("vscode", ".vscode/mcp.json"),
            ("gemini", ".gemini/settings.json"),
            ("codex", ".codex/config.toml"),
            ("zed", ".zed/settings.json"),
            ("opencode", "opencode.json"),
            ("roo", ".roo/mcp.json"),
            ("continue", ".continue/mcpServers/mcp.json"),
            ("librechat", "librechat.yaml"),
        ]:
            assert config_path(client, tmp_path, {}) == tmp_path / path


class TestKept:
    @given(
        before=st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
            max_leaves=10,
        )
    )
    def test_law_all_else_is_as_it_was(self, tmp_path_factory: Any, before: Any) -> None:
        path = tmp_path_factory.mktemp("kept") / "mcp.json"
        old = {"theme": before, "mcpServers": {"other": before}}
        path.write_text(json.dumps(old))
        copy = add(path)
        assert json.loads(path.read_bytes()) == {"theme": before, "mcpServers": {"other": before, "logs-agent": ENTRY}}
        assert copy is not None
        assert json.loads(copy.read_bytes()) == old

    def test_a_link_mode_and_indent_stay_and_no_copy_is_overwritten(self, tmp_path: Path) -> None:
        real, link = tmp_path / "dotfiles.json", tmp_path / "mcp.json"
        real.write_text('{\n    "mcpServers": {}\n}\n')
        real.chmod(0o640)
        link.symlink_to(real)
        (tmp_path / "dotfiles.json.bak").write_text("older")
        assert add(link) == tmp_path / "dotfiles.json.bak1"
        assert (link.is_symlink(), stat.S_IMODE(real.stat().st_mode)) == (True, 0o640)
        assert real.read_text().startswith('{\n    "mcpServers": {\n        "logs-agent"')
        assert (tmp_path / "dotfiles.json.bak").read_text() == "older"

    def test_what_is_there_already_is_not_written_again(self, tmp_path: Path) -> None:
        path = tmp_path / "deep" / "mcp.json"
        assert add(path) is None
        written = path.stat().st_mtime_ns
        assert add(path) is None
        assert (path.stat().st_mtime_ns, os.listdir(path.parent)) == (written, ["mcp.json"])

    def test_a_write_that_fails_leaves_the_file_whole(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: Any) -> None:
            raise OSError(28, "no space left on device")

        path = tmp_path / "mcp.json"
        path.write_text('{"mcpServers": {}}')
        monkeypatch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="no space"):
            add(path)
        assert path.read_text() == '{"mcpServers": {}}'
        assert sorted(os.listdir(tmp_path)) == ["mcp.json", "mcp.json.bak"]


class TestOtherForms:
    """TOML and YAML, in which what was there stays to the letter, comments too."""

    def add(self, client: Client, path: Path, name: str = "logs", **env: str) -> str:
        entry = Entry(name, "/bin/logs-mcp", ("-t", "stdio"), env).written_for(HOSTS[client])
        add_entry(path, HOSTS[client], name, entry, replace=False)
        return path.read_text()

    def test_an_entry_is_put_in_and_all_else_stays(self, tmp_path: Path) -> None:
        for client, name, before in [
            ("codex", "config.toml", 'model = "x" # mine\n\n[mcp_servers.a]\ncommand = "a"\n\n[tui]\nnotify = true\n'),
            (
                "goose",
                "config.yaml",
                "extensions: # mine\n    # first\n    a: {type: stdio, cmd: a}\n\nMODE: auto # too\n",
            ),
            ("goose", "empty.yaml", "MODE: auto\nextensions: {}\nX: 1\n"),
            ("goose", "none.yaml", "# none yet\nMODE: auto\n"),
            ("continue", "config.yaml", "models: [] # mine\nmcpServers:\n  - name: a\n    command: a\nx: 1\n"),
            ("continue", "flat.yaml", "mcpServers:\n- name: a\n  command: a\n"),
            ("continue", "none.yaml", "models: []\n"),
            ("librechat", "librechat.yaml", "version: 1\nmcpServers:\n  a:\n    command: a # mine\n"),
        ]:
            path = tmp_path / name
            path.write_text(before)
            after = self.add(client, path, "my logs", KEY='a "b" \\ ä', YES="yes")
            assert [line for line in before.splitlines() if line not in after.splitlines()] in ([], ["extensions: {}"])
            config = read_config([path], {})
            others = {"a"} if name.startswith(("config", "flat", "librechat")) else set()
            assert {upstream.name for upstream in config.upstreams} == {"my logs", *others}
            (logs,) = (upstream for upstream in config.upstreams if upstream.name == "my logs")
            assert (logs.command, len(logs.args)) == ("/bin/logs-mcp", 2)
            assert {key: value.get_secret_value() for key, value in logs.env.items()} == {
                "KEY": 'a "b" \\ ä',
                "YES": "yes",
            }
            assert self.add(client, path, "my logs", KEY='a "b" \\ ä', YES="yes") == after

    def test_a_new_file_says_what_its_host_needs(self, tmp_path: Path) -> None:
        self.add("continue", tmp_path / "config.yaml")
        told = parsed((tmp_path / "config.yaml").read_bytes(), tmp_path / "config.yaml")
        assert told == {
            "name": "Local",
            "version": "0.0.1",
            "schema": "v1",
            "mcpServers": [{"name": "logs", "command": "/bin/logs-mcp", "args": ["-t", "stdio"]}],
        }

    def test_what_an_entry_can_not_be_put_into_is_left_as_it_is(self, tmp_path: Path) -> None:
        for client, name, before, why in [
            ("codex", "config.toml", 'mcp_servers = { a = { command = "a" } }\n', "can't be put in"),
            ("codex", "other.toml", '[mcp_servers.logs]\ncommand = "a"\n', "another 'logs' is there"),
            ("goose", "config.yaml", "extensions: {a: {type: stdio, cmd: a}}\n", "can't be put in"),
            ("goose", "broken.yaml", "extensions: [\n", "not YAML"),
            ("goose", "list.yaml", "extensions: [1]\n", "'extensions' is no object"),
        ]:
            path = tmp_path / name
            path.write_text(before)
            with pytest.raises(InputError, match=why):
                self.add(client, path)
            assert path.read_text() == before
        assert not list(tmp_path.glob("*.bak*"))

    def test_is_printed_as_the_client_has_it(self, connect):
        for client, begins in [
            ("codex", "[mcp_servers.logs-agent]\ncommand = "),
            ("zed", '{\n  "context_servers": {\n    "logs-agent": {\n      "command": '),
            ("opencode", '{\n  "mcp": {\n    "logs-agent": {\n      "type": "local",\n      "command": ['),
            (
                "goose",
                "extensions:\n  logs-agent:\n    type: stdio\n    name: logs-agent\n    enabled: true\n    cmd: ",
            ),
            ("continue", "mcpServers:\n- name: logs-agent\n  command: "),
            ("librechat", "mcpServers:\n  logs-agent:\n    command: "),
        ]:
            assert connect(client, "logs-agent").stdout.startswith(begins)


class TestRefused:
    def test_what_could_not_be_kept_is_left_as_it_is(self, tmp_path: Path) -> None:
        for text, why in [
            ('{\n  // mine\n  "mcpServers": {}\n}', "not plain JSON (Expecting property name"),
            ('{"mcpServers": {},}', "comments or trailing commas could not be kept"),
            ("[]", "no JSON object"),
            ('{"mcpServers": []}', "'mcpServers' is no object"),
            ('{"a": 1, "a": 2}', "'a' stands twice"),
            ('{"a": NaN}', "a number is none, or too large"),
            ('{"a": 1e999}', "a number is none, or too large"),
            ('{"mcpServers": {"logs-agent": {"command": "mine"}}}', "another 'logs-agent' is there"),
        ]:
            path = tmp_path / "mcp.json"
            path.write_text(text)
            with pytest.raises(InputError) as caught:
                add(path)
            assert why in str(caught.value)
            assert (path.read_text(), os.listdir(tmp_path)) == (text, ["mcp.json"])

    def test_another_entry_gives_way_where_it_is_asked_to(self, tmp_path: Path) -> None:
        path = tmp_path / "mcp.json"
        path.write_text('{"mcpServers": {"logs-agent": {"command": "mine"}}}')
        add(path, replace=True)
        assert json.loads(path.read_text()) == {"mcpServers": {"logs-agent": ENTRY}}


class TestCommand:
    def test_what_is_written_starts_the_server_for_a_client(self, connect, tmp_path):
        options = ["--write", "--env", f"LOGS_AGENT_ROOTS={tmp_path}", "--", "--tools", "tail_log"]
        done = connect("claude-desktop", "logs-agent", *options)
        assert (done.returncode, done.stderr) == (0, "restart claude-desktop to have it started\n")
        path = config_path("claude-desktop", None, {"XDG_CONFIG_HOME": str(tmp_path / ".config")}, "linux")

        async def tools() -> list[str]:
            async with fastmcp.Client(json.loads(path.read_text())) as client:
                return [tool.name for tool in await client.list_tools()]

        assert anyio.run(tools) == ["tail_log"]

    def test_a_file_is_served_by_fastmcp(self, connect, tmp_path):
        for file in ["server.py", "server.py:mine"]:
            name = file.partition(":")[2] or "mcp"
            text = f"from fastmcp import FastMCP\n{name} = FastMCP('s')\n@{name}.tool\ndef total() -> int: return 1\n"
            (tmp_path / "server.py").write_text(text)
            done = connect("claude-desktop", file)
            config = json.loads(done.stdout)
            (entry,) = config["mcpServers"].items()
            assert (entry[0], entry[1]["args"][:2]) == ("server", ["run", str(tmp_path / file)])

            async def tools(config=config) -> list[str]:
                async with fastmcp.Client(config) as client:
                    return [tool.name for tool in await client.list_tools()]

            assert anyio.run(tools) == ["total"]

    def test_a_file_is_given_no_options_for_none_would_hold(self, connect, tmp_path):
        (tmp_path / "server.py").touch()
        done = connect("cursor", "server.py", "--", "--read-only")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert "a file has no options: '--read-only'" in done.stderr

    def test_it_prints_what_it_would_write_and_names_what_is_not_passed_on(self, connect, tmp_path):
        done = connect("vscode", "git-agent-mcp", "--project", ".", GIT_AGENT_ROOTS="/srv", MCP_READ_ONLY="true")
        command = str(COMMAND.with_name("git-agent-mcp"))
        assert json.loads(done.stdout) == {
            "servers": {"git-agent": {"type": "stdio", "command": command, "args": ["-t", "stdio"]}}
        }
        assert "not passed on: GIT_AGENT_ROOTS, MCP_READ_ONLY." in done.stderr
        assert list(tmp_path.iterdir()) == []

    def test_claude_code_is_told_the_command_for_all_projects_too(self):
        entry = Entry("logs-agent", "/a b/logs-agent-mcp", ("-t", "stdio"), {"A": "1 2"})
        words = shlex.split(entry.claude_mcp_add())
        assert words[:-1] == ["claude", "mcp", "add-json", "--scope", "user", "logs-agent"]
        assert json.loads(words[-1]) == entry.written_for(HOSTS["claude-code"])

    @every(
        ("arguments", "environ", "by_default", "is_kept"),
        [
            ((), {}, "auto", True),
            ((), {}, "off", False),
            (("--tool-search", "off"), {}, "auto", False),
            (("--tool-search=off",), {}, "auto", False),
            (("--tool-search", "on"), {}, "off", True),
            (("--tool-search=auto:9", "--read-only"), {}, "off", True),
            ((), {"MCP_TOOL_SEARCH": "off"}, "auto", False),
            ((), {"MCP_TOOL_SEARCH": "on"}, "off", True),
        ],
    )
    def test_claude_code_keeps_the_tools_of_a_server_that_defers_itself(
        self, arguments: tuple[str, ...], environ: dict[str, str], by_default: str, is_kept: bool
    ) -> None:
        entry = Entry("gateway", "/bin/agent-utilities", arguments, environ, by_default)
        assert entry.written_for(HOSTS["claude-code"]).get("alwaysLoad", False) is is_kept
        assert "alwaysLoad" not in entry.written_for(HOSTS["cursor"])

    def test_a_mistake_is_told_in_one_line(self, connect):
        for arguments, message in [
            (["cursor", "git-agnt"], "no such server is installed: 'git-agnt'"),
            (["cursor", "git-agent", "--env", "NOT_SET_HERE"], "no variable: 'NOT_SET_HERE'"),
            (["claude-desktop", "git-agent", "--project", "."], "no configuration of a project"),
            (["emacs", "git-agent"], "claude-desktop"),
            (["cursor"], "no server is named"),
            (["cursor", "server.py"], "no such file: 'server.py'"),
            (["cursor", "--gateway", "none.json"], "no such file"),
            (["claude-code", "--gateway", ".mcp.json"], "the client's own file"),
        ]:
            done = connect(*arguments)
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
            assert message in done.stderr


class TestGateway:
    @pytest.fixture
    def servers(self, tmp_path: Path) -> Path:
        path = tmp_path / "servers.json"
        server = {"command": "x", "env": {"KEY": "${API_KEY}", "HOME_OF": "${HOME}"}}
        path.write_text(json.dumps({"mcpServers": {"x": server, "bad": {"command": 5}}}))
        return path

    def test_is_written_with_the_whole_path_of_its_file(self, connect, tmp_path, servers):
        for client in get_args(Client):
            done = connect(client, "--gateway", "servers.json", "--write", "--env", "API_KEY=k", "--", "--read-only")
            assert done.returncode == 0
            path = Path(done.stdout.partition(" has ")[0])
            (upstream,) = read_config([path], {"HOME": str(tmp_path)}).upstreams
            arguments = ["gateway", str(servers), "-t", "stdio", "--read-only"]
            assert (upstream.name, upstream.command) == ("gateway", str(COMMAND))
            assert [arg.get_secret_value() for arg in upstream.args] == arguments
            assert {name: value.get_secret_value() for name, value in upstream.env.items()} == {"API_KEY": "k"}

    def test_tells_what_is_left_out_and_which_variables_its_servers_take(self, connect, servers):
        done = connect("cursor", "tools", "--gateway", "servers.json", API_KEY="s3cret", OTHER="1")
        assert list(json.loads(done.stdout)["mcpServers"]) == ["tools"]
        assert "left out: servers.json: mcpServers.bad.command: is a number" in done.stderr
        assert "not passed on: API_KEY." in done.stderr
        assert "s3cret" not in done.stderr + done.stdout

    @pytest.mark.outside
    def test_that_is_written_is_started_by_a_client_and_has_the_servers_tools(self, connect, tmp_path):
        server = {"command": sys.executable, "args": [str(PLAIN_SERVER)], "onlyAllow": ["ec*"]}
        (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"plain": server}}))
        env = [option for name in ("HOME", "MCP_GATEWAY_FOLDER") for option in ("--env", f"{name}={tmp_path}")]
        done = connect("cursor", "--gateway", "servers.json", "--write", "--env", "MCP_GRAPH=off", *env)
        assert done.returncode == 0
        config = json.loads((tmp_path / ".cursor" / "mcp.json").read_text())

        async def tools() -> list[str]:
            changed = anyio.Event()

            async def on_message(message: Any) -> None:
                if isinstance(message, mcp_types.ToolListChangedNotification):
                    changed.set()

            async with fastmcp.Client(config, mode="legacy", message_handler=on_message) as client:
                if not (listed := await client.list_tools()):  # the first start ever: the server is still being asked
                    with anyio.fail_after(60):
                        await changed.wait()
                    listed = await client.list_tools()
                return [tool.name for tool in listed]

        assert anyio.run(tools) == ["read_result", "plain_echo"]


@every(
    ("folder", "goes"),
    [
        ("/h/.cache/uv/archive-v0/r9GFuc8Pz5iQ/bin", True),
        ("/h/.cache/uv/environments-v2/server-1f/bin", True),
        ("/h/.local/share/pipx/.cache/5b1/bin", True),
        (r"C:\Users\me\AppData\Local\uv\cache\archive-v0\r9\Scripts", True),
        ("/h/.local/share/uv/tools/agent-utilities/bin", False),
        ("/h/.cache/pypoetry/virtualenvs/x-py3.11/bin", False),
    ],
)
def test_a_program_that_its_cache_may_lose_is_told_of(
    folder: str, goes: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    _tell(Entry("gateway", f"{folder}/agent-utilities", (), {}), [], [])
    assert ("install it, as by `uv tool install .`" in capsys.readouterr().err) is goes

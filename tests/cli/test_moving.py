"""`agent-utilities connect --move`: a host's servers go to a gateway's file and back, and none is lost on the way."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_utilities.cli.app import main
from agent_utilities.cli.connect import Client, config_path
from agent_utilities.cli.moving import move_servers, undo_move
from agent_utilities.errors import InputError
from agent_utilities.gateway.upstreams.configuration.config_files import read_config
from agent_utilities.gateway.upstreams.configuration.host_files import HOSTS
from tests.command_line import Done, run_command
from tests.every import every

SERVERS = {
    "git": {"command": "uvx", "args": ["mcp-server-git"], "env": {"TOKEN": "s3cret", "KEY": "${API_KEY:-none}"}},
    "web": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer x"}},
}
GATEWAY = {"command": "/bin/agent-utilities", "args": ["gateway", "servers.json"]}


@pytest.fixture
def connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Done:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MCP_", "XDG_"))}
        return run_command(main, ["agent-utilities", "connect", *arguments], kept | {"HOME": str(Path.cwd())}, capfd)

    return run


def written(client: Client, home: Path, servers: dict[str, Any], mode: int = 0o644) -> Path:
    path = config_path(client, None, {"XDG_CONFIG_HOME": str(home / ".config")}, "linux")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"theme": "dark", HOSTS[client].key: servers}, indent=4))
    path.chmod(mode)
    return path


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def move(place: Path, file: Path) -> tuple[list[str], dict[str, str]]:
    return move_servers(place, file, HOSTS["cursor"], "gateway", GATEWAY, replace=False)[:2]


class TestMove:
    @every("client", ["claude-desktop", "cursor", "vscode", "windsurf"])
    def test_the_gateway_reads_what_the_host_did_and_the_host_has_the_gateway_alone(
        self, client: Client, connect: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        place = written(client, tmp_path, SERVERS)
        before = {each.name: each for each in read_config([place], os.environ).upstreams}
        done = connect("--gateway", "deep/servers.json", "--move", client)
        assert done.returncode == 0, done.stderr
        told = json.loads(place.read_text())
        assert told["theme"] == "dark"
        assert list(told[HOSTS[client].key]) == ["gateway"]
        after = {each.name: each for each in read_config([tmp_path / "deep" / "servers.json"], os.environ).upstreams}
        for name, was in before.items():
            assert after[name].model_copy(update={"source": was.source, "keys": was.keys}) == was
        assert after.keys() == before.keys() == SERVERS.keys()

    @every("client", ["claude-desktop", "cursor", "vscode", "zed"])
    def test_undo_puts_back_every_byte_and_leaves_nothing_behind(
        self, client: Client, connect: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        place = written(client, tmp_path, SERVERS, 0o640)
        (tmp_path / "servers.json").write_text('{"mcpServers":{"old":{"command":"x"}}}')
        there = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        assert connect(client, "--gateway", "servers.json", "--move").returncode == 0
        assert [*json.loads((tmp_path / "servers.json").read_text())["mcpServers"]] == ["old", *SERVERS]
        done = connect(client, "--undo")
        assert (done.returncode, mode_of(place)) == (0, 0o640), done.stderr
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == there

    def test_each_move_is_taken_back_by_itself(self, tmp_path: Path) -> None:
        place, file = tmp_path / "mcp.json", tmp_path / "servers.json"
        place.write_text(json.dumps({"mcpServers": {"git": SERVERS["git"]}}))
        move(place, file)
        place.write_text(json.dumps({"mcpServers": {"web": SERVERS["web"], "gateway": GATEWAY}}))
        between = place.read_text()
        assert move(place, file)[0] == ["web"]
        undo_move(place)
        assert (place.read_text(), [*json.loads(file.read_text())["mcpServers"]]) == (between, ["git"])
        with pytest.raises(InputError, match="the file was changed since"):
            undo_move(place)

    def test_secrets_go_to_no_file_that_more_people_can_read(self, tmp_path: Path) -> None:
        for of_host, of_gateway, after in [(0o600, 0o644, 0o600), (0o644, None, 0o600), (0o640, 0o644, 0o640)]:
            folder = tmp_path / f"{of_host}-{of_gateway}"
            folder.mkdir()
            place, file = folder / "mcp.json", folder / "servers.json"
            place.write_text(json.dumps({"mcpServers": SERVERS}))
            place.chmod(of_host)
            if of_gateway:
                file.write_text("{}")
                file.chmod(of_gateway)
            move(place, file)
            assert (mode_of(file), mode_of(place), mode_of(folder / "mcp.json.bak")) == (after, of_host, of_host)

    def test_what_a_gateway_would_read_otherwise_stays_and_is_told_of(self, tmp_path: Path) -> None:
        place, file = tmp_path / "a" / "mcp.json", tmp_path / "servers.json"
        place.parent.mkdir()
        kept = {
            "asks": {"command": "x", "env": {"KEY": "${input:key}"}},
            "relative": {"command": "x", "envFile": "secrets.env"},
            "taken": {"command": "x"},
            "broken": {"command": 5},
        }
        (tmp_path / "a" / "secrets.env").write_text("A=1")
        (tmp_path / "secrets.env").write_text("A=2")
        place.write_text(json.dumps({"mcpServers": kept | SERVERS}))
        file.write_text(json.dumps({"mcpServers": {"taken": {"command": "another"}}}))
        moved, stays = move(place, file)
        assert (moved, [*stays]) == ([*SERVERS], [*kept])
        assert json.loads(place.read_text())["mcpServers"] == kept | {"gateway": GATEWAY}
        assert json.loads(file.read_text())["mcpServers"]["taken"] == {"command": "another"}

    def test_a_place_that_only_the_host_knows_is_written_in_full(self, tmp_path: Path) -> None:
        place, file = tmp_path / "project" / ".cursor" / "mcp.json", tmp_path / "servers.json"
        place.parent.mkdir(parents=True)
        place.write_text(json.dumps({"mcpServers": {"a": {"command": "${workspaceFolder}/a", "args": ["${env:B}"]}}}))
        move(place, file)
        folder = str(tmp_path / "project")
        assert json.loads(file.read_text())["mcpServers"]["a"] == {
            "cwd": folder,
            "command": f"{folder}/a",
            "args": ["${B}"],
        }


GEMINI = {
    "theme": "dark",
    "mcp": {"allowed": ["keyed", " FAR "]},
    "mcpServers": {
        "keyed": {
            "command": "x",
            "env": {"A": "$A_KEY", "B": "${A_KEY}", "C": "costs $5"},
            "timeout": 30000,
            "trust": True,
        },
        "far": {"httpUrl": "https://example.com/mcp?key=$A_KEY", "headers": {"Authorization": "Bearer $A_KEY"}},
        "barred": {"command": "y", "env": {"A": "$A_KEY"}},
    },
}
OPENCODE = {
    "$schema": "https://opencode.ai/config.json",
    "mcp": {
        "local": {
            "type": "local",
            "command": ["x", "{env:A_KEY}"],
            "environment": {"A": "{env:A_KEY}"},
            "timeout": 5000,
        },
        "far": {"type": "remote", "url": "https://example.com/mcp?key={env:A_KEY}", "oauth": False},
        "filed": {"type": "local", "command": ["x"], "environment": {"A": "{file:./key.txt}"}},
        "off": {"type": "local", "command": ["x", "{env:A_KEY}"], "enabled": False},
    },
    "tools": {"far_*": False, "farther": False},
}


class TestOtherHosts:
    """Gemini and OpenCode write variables, times and what is off in ways of their own."""

    @every("client", ["gemini", "opencode"])
    @every("is_set", [True, False])
    def test_the_gateway_reads_what_the_host_did_and_undo_gives_back_every_byte(
        self,
        client: Client,
        is_set: bool,
        connect: Callable[..., Done],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        place, key = written(client, tmp_path, {}), HOSTS[client].key
        place.write_text(json.dumps(GEMINI if client == "gemini" else OPENCODE))
        (place.parent / "key.txt").write_text("of a file")
        there = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        if is_set:
            monkeypatch.setenv("A_KEY", "k3y")
        environ = {**os.environ, "A_KEY": "k3y"}
        before = {each.name: each for each in read_config([place], environ).upstreams}
        done = connect("--gateway", "deep/servers.json", "--move", client)
        assert done.returncode == 0, done.stderr
        assert [*json.loads(place.read_text())[key]] == ["gateway"]
        after = {each.name: each for each in read_config([tmp_path / "deep" / "servers.json"], environ).upstreams}
        assert after.keys() == before.keys()
        for name, was in before.items():
            not_filled = {} if was.enabled else {"env": was.env, "args": was.args}
            update = {"source": was.source, "keys": was.keys, **not_filled}
            assert after[name].model_copy(update=update) == was
        assert "k3y" not in (tmp_path / "deep" / "servers.json").read_text()
        assert connect(client, "--undo").returncode == 0
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == there

    def test_gemini_starts_the_gateway_where_it_allows_some_servers_alone(
        self, connect: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        place = written("gemini", tmp_path, {})
        place.write_text(json.dumps(GEMINI))
        assert connect("gemini", "--gateway", "servers.json", "--move").returncode == 0
        assert json.loads(place.read_text())["mcp"]["allowed"] == ["keyed", " FAR ", "gateway"]
        place.write_text(json.dumps(GEMINI | {"mcp": {"excluded": ["Gateway"]}}))
        done = connect("gemini", "--gateway", "others.json", "--move")
        assert (done.returncode, "mcp.excluded keeps 'gateway' off" in done.stderr) == (2, True)

    @every(
        ("client", "said", "told"),
        [
            ("gemini", GEMINI, ["of keyed: trust;"]),
            ("opencode", OPENCODE, ["of far: tools.far_*;"]),
            (
                "opencode",
                {**OPENCODE, "agent": {"build": {"tools": {"local_*": True}}}, "permission": {"mcp__off": "ask"}},
                ["of far: tools.far_*;", "of local: agent.build.tools.local_*;", "of off: permission.mcp__off;"],
            ),
            (
                "cursor",
                {"mcpServers": {"a": {"command": "x", "autoApprove": ["b"], "unheard": 1}}},
                ["a: autoApprove, unheard;"],
            ),
        ],
    )
    def test_what_a_gateway_can_not_do_is_told(
        self,
        client: Client,
        said: dict[str, Any],
        told: list[str],
        connect: Callable[..., Done],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        place = written(client, tmp_path, {})
        place.write_text(json.dumps(said))
        done = connect(client, "--gateway", "servers.json", "--move")
        assert done.returncode == 0, done.stderr
        lines = [line for line in done.stderr.splitlines() if "no gateway does" in line]
        assert [one for one in told if not any(one in line for line in lines)] == []
        assert len(lines) == len(told)


class TestEndedBetween:
    @every("nth", [1, 2, 3])
    def test_each_server_is_in_a_file_and_the_move_can_be_finished_or_taken_back(
        self, nth: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place, file = tmp_path / "mcp.json", tmp_path / "servers.json"
        place.write_text(json.dumps({"mcpServers": SERVERS}))
        file.write_text('{"mcpServers": {"old": {"command": "x"}}}')
        was, n_swaps, replace = (place.read_text(), file.read_text()), 0, os.replace

        def ends(*paths: Any) -> None:
            nonlocal n_swaps
            n_swaps += 1
            if n_swaps == nth:
                raise KeyboardInterrupt
            replace(*paths)

        with monkeypatch.context() as patched:
            patched.setattr(os, "replace", ends)
            with pytest.raises(KeyboardInterrupt):
                move(place, file)
        there = {name for path in (place, file) for name in json.loads(path.read_text())["mcpServers"]}
        assert there >= {"old", *SERVERS}
        assert move(place, file)[0] == [*SERVERS]
        undo_move(place)
        if nth > 1:
            undo_move(place)
        assert (place.read_text(), file.read_text()) == was


class TestRefused:
    def test_nothing_is_touched_and_what_would_do_is_said(self, tmp_path: Path) -> None:
        for name, text, own, why in [
            ("config.toml", '[mcp_servers.a]\ncommand = "a"\n', None, "TOML can't be written back as it was"),
            ("config.yaml", "mcpServers:\n  a:\n    command: a\n", None, "YAML can't be written back as it was"),
            ("a.json", '{"mcpServers": {"a": {"command": "a"}} // mine\n}', None, "comments or trailing commas"),
            ("b.json", '{"mcpServers": {}}', None, "it has no server to move"),
            ("c.json", '{"mcpServers": {"a": {"command": 5}}}', None, "'a' stays: it can't be read"),
            ("d.json", '{"mcpServers": {"a": {"command": "a"}}}', '{"b": {"command": "b"}}', "under no key"),
            ("e.json", '{"mcpServers": {"a": {"command": "a"}}}', "[]", "no JSON object"),
            ("f.json", '{"mcpServers": {"a": {"command": "a"}, "gateway": {"command": 5}}}', None, "add --replace"),
        ]:
            place, file = tmp_path / name, tmp_path / "servers.json"
            place.write_text(text)
            file.unlink(missing_ok=True)
            if own:
                file.write_text(own)
            before = {path: path.read_bytes() for path in tmp_path.iterdir()}
            with pytest.raises(InputError) as caught:
                move(place, file)
            assert why in str(caught.value)
            assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before

    def test_undo_is_where_a_file_was_changed_since(self, tmp_path: Path) -> None:
        for changed in ("mcp.json", "servers.json"):
            folder = tmp_path / changed
            folder.mkdir()
            place = folder / "mcp.json"
            place.write_text(json.dumps({"mcpServers": SERVERS}))
            move(place, folder / "servers.json")
            (folder / changed).write_text('{"mcpServers": {}}')
            before = {path: path.read_bytes() for path in folder.iterdir()}
            with pytest.raises(InputError, match="the file was changed since"):
                undo_move(place)
            assert {path: path.read_bytes() for path in folder.iterdir()} == before

    def test_a_mistake_is_told_in_one_line(self, connect: Callable[..., Done]) -> None:
        for arguments, message in [
            (["cursor", "--undo"], "none of its servers were moved"),
            (["cursor", "--move"], "as --move needs"),
            (["cursor", "git-agent", "--move"], "as --move needs"),
            (["codex", "--gateway", "servers.json", "--move"], "TOML can't be written back as it was"),
        ]:
            done = connect(*arguments)
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
            assert message in done.stderr

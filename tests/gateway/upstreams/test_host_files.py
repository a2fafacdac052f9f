"""Files as their hosts' documentation has them, read as each host reads its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_utilities.gateway.upstreams.config import GatewayConfig, UpstreamConfig
from agent_utilities.gateway.upstreams.configuration.config_files import read_config
from agent_utilities.gateway.upstreams.errors import ConfigError


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """Return what writes a file and reads it; no variable is set but those that are given."""

    def reading(name: str, told: object, **environ: str) -> GatewayConfig:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(told if isinstance(told, str) else json.dumps(told))
        return read_config([path], {"HOME": "/home/ada", **environ})

    return reading


def only(config: GatewayConfig) -> UpstreamConfig:
    assert config.problems == ()
    (upstream,) = config.upstreams
    return upstream


def words(upstream: UpstreamConfig) -> list[str]:
    return [upstream.command, *(arg.get_secret_value() for arg in upstream.args)]


def env(upstream: UpstreamConfig) -> dict[str, str]:
    return {name: value.get_secret_value() for name, value in upstream.env.items()}


def headers(upstream: UpstreamConfig) -> dict[str, str]:
    return {name: value.get_secret_value() for name, value in upstream.headers.items()}


class TestOpenCode:
    def test_has_commands_as_lists_under_mcp(self, read):
        local = {
            "type": "local",
            "command": ["bun", "x", "notes-mcp"],
            "environment": {"KEY": "a {env:KEY}", "NONE": "{env:NONE}", "DOLLAR": "${KEY}"},
            "timeout": 5000,
        }
        config = read("opencode.jsonc", {"mcp": {"notes": local}, "tools": {}}, KEY="k")
        upstream = only(config)
        assert words(upstream) == ["bun", "x", "notes-mcp"]
        assert env(upstream) == {"KEY": "a k", "NONE": "", "DOLLAR": "${KEY}"}
        assert (upstream.list_timeout_s, upstream.timeout_s) == (5, 300)
        assert "notes.environment: the variable NONE is not set, and taken as empty" in config.notices[0]

    def test_has_remote_servers_and_files_with_keys(self, read, tmp_path):
        (tmp_path / "key.txt").write_text("s3cret\n")
        remote = {
            "type": "remote",
            "url": "https://issues.example/mcp",
            "headers": {"Authorization": "Bearer {file:./key.txt}"},
            "oauth": False,
        }
        upstream = only(read("opencode.json", {"mcp": {"issues": remote}}))
        assert (upstream.transport, headers(upstream)) == ("http", {"Authorization": "Bearer s3cret"})

    def test_says_which_file_is_not_there(self, read):
        server = {"type": "local", "command": ["x"], "environment": {"KEY": "{file:~/none}"}}
        (problem,) = read("opencode.json", {"mcp": {"a": server}}).problems
        assert "a.environment: no such file: '/home/ada/none'; name a file that has the value" in problem

    def test_has_servers_a_floor_deeper_in_its_second_version(self, read):
        server = {"type": "local", "command": ["x"], "environment": {"A": "{env:A}"}, "disabled": True}
        upstream = only(read("opencode.json", {"mcp": {"servers": {"a": server}}}))
        assert (upstream.name, upstream.enabled, env(upstream)) == ("a", False, {"A": "${A:-}"})

    def test_is_known_by_what_it_says_too(self, read):
        told = {"$schema": "https://opencode.ai/config.json", "mcp": {"a": {"type": "local", "command": ["{env:A}"]}}}
        assert only(read("other.json", told, A="x")).command == "x"


class TestVSCode:
    def test_settings_have_inputs_beside_servers(self, read):
        asked = [{"id": "key", "type": "promptString", "default": "first"}]
        told = {"mcp": {"inputs": asked, "servers": {"a": {"command": "x", "env": {"KEY": "${input:key}"}}}}}
        assert env(only(read(".vscode/settings.json", told))) == {"KEY": "first"}
        assert env(only(read(".vscode/settings.json", told, MCP_INPUT_KEY="given"))) == {"KEY": "given"}

    def test_a_variable_that_is_not_set_is_empty(self, read):
        told = {"servers": {"a": {"command": "x", "args": ["${env:NONE}"], "env": {"A": "a${env:NONE}"}}}}
        for name in (".vscode/mcp.json", "Code/User/mcp.json", "Code/User/profiles/work/mcp.json", "mcp.json"):
            config = read(name, told)
            assert (words(only(config)), env(only(config))) == (["x", ""], {"A": "a"})
            assert all("the variable NONE is not set, and taken as empty" in notice for notice in config.notices)
            assert len(config.notices) == 2

    def test_is_the_only_one_that_is_so_lenient(self, read):
        told = {"mcpServers": {"a": {"command": "x", "env": {"A": "${env:NONE}"}}}}
        for name in (".mcp.json", ".cursor/mcp.json", "mcp_config.json", "claude_desktop_config.json"):
            assert "the variable NONE is not set; set it" in read(name, told).problems[0]


class TestGemini:
    def test_takes_one_way_to_reach_a_server(self, read):
        for told, transport in [
            ({"httpUrl": "https://x/mcp", "url": "https://x/sse", "command": "x"}, "http"),
            ({"httpUrl": "https://x/sse", "type": "sse"}, "http"),
            ({"url": "https://x/sse", "command": "x"}, "sse"),
            ({"url": "https://x/mcp", "type": "sse"}, "sse"),
            ({"command": "x"}, "stdio"),
        ]:
            for name in (".gemini/settings.json", ".qwen/settings.json", "gemini-extension.json"):
                assert only(read(name, {"mcpServers": {"a": told}})).transport == transport

    def test_leaves_a_variable_that_is_not_set_as_it_stands(self, read):
        told = {"mcpServers": {"a": {"command": "x", "env": {"A": "$NONE ${NONE}"}}}}
        config = read(".gemini/settings.json", told)
        assert env(only(config)) == {"A": "$NONE ${NONE}"}
        assert "the variable NONE is not set, and taken as it is written" in config.notices[0]


class TestWindsurf:
    def test_fills_in_files(self, read, tmp_path):
        (tmp_path / "token").write_text(" t0ken\n")
        server = {"serverUrl": "https://x/mcp", "headers": {"A": "Bearer ${file:TOKEN}", "B": "${env:B}"}}
        told = json.dumps({"mcpServers": {"a": server}}).replace("TOKEN", str(tmp_path / "token"))
        assert headers(only(read(".codeium/windsurf/mcp_config.json", told, B="b"))) == {"A": "Bearer t0ken", "B": "b"}

    def test_tells_of_a_file_that_is_none(self, read, tmp_path):
        for path, told in [("none", "no such file"), (".", "can't read the file"), ("utf16", "has a character")]:
            (tmp_path / "utf16").write_bytes(b"\0\0\0")
            server = {"serverUrl": "https://x/mcp", "headers": {"A": f"${{file:{tmp_path / path}}}"}}
            (problem,) = read("mcp_config.json", {"mcpServers": {"a": server}}).problems
            assert told in problem


class TestZed:
    def test_runs_servers_in_the_projects_folder(self, read, tmp_path):
        told = {"context_servers": {"a": {"source": "custom", "command": "uvx", "args": ["x"], "env": {}}}}
        upstream = only(read(".zed/settings.json", f"// mine\n{json.dumps(told)}"))
        assert (upstream.cwd, words(upstream)) == (str(tmp_path), ["uvx", "x"])

    def test_had_commands_as_objects(self, read):
        command = {"path": "npx", "args": ["-y", "x"], "env": {"A": "1"}}
        upstream = only(read("settings.json", {"context_servers": {"a": {"command": command, "settings": {}}}}))
        assert (words(upstream), env(upstream)) == (["npx", "-y", "x"], {"A": "1"})

    def test_an_object_without_a_program_is_told(self, read):
        (problem,) = read("settings.json", {"context_servers": {"a": {"command": {"args": ["x"]}}}}).problems
        assert "a: has neither a command nor a url" in problem


class TestCodex:
    def test_a_variable_that_is_not_set_is_named_with_its_key(self, read):
        for name in ("GH_TOKEN", "gh_token"):
            told = f'[mcp_servers.gh]\nurl = "https://x/mcp"\nbearer_token_env_var = "{name}"\n'
            (problem,) = read("config.toml", told).problems
            assert f"gh.bearer_token_env_var: names the variable {name}, which is not set; set it" in problem

    def test_what_may_be_a_token_in_place_of_a_name_is_not_told(self, read):
        for token in ("ghp_16C7e42F292c6912E7", "sk-abc", "hunter2"):
            told = f'[mcp_servers.gh]\nurl = "https://x/mcp"\nbearer_token_env_var = "{token}"\n'
            (problem,) = read(".codex/config.toml", told).problems
            assert token not in problem

    def test_a_header_whose_variable_is_not_set_is_left_out(self, read):
        told = '[mcp_servers.gh]\nurl = "https://x/mcp"\nenv_http_headers = { "X-Org" = "ORG", "X-Not" = "NOT_SET" }\n'
        config = read("config.toml", told, ORG="o")
        assert headers(only(config)) == {"X-Org": "o"}
        assert "X-Not is left out: it names the variable NOT_SET, which is not set" in config.notices[0]

    def test_a_variable_may_say_where_it_is_from(self, read):
        told = '[mcp_servers.a]\ncommand = "x"\nenv_vars = ["A", { name = "B", source = "local" }, "C"]\n'
        assert env(only(read("config.toml", told, A="1", B="2"))) == {"A": "1", "B": "2"}


class TestClineAndRoo:
    def test_roo_leaves_a_variable_that_is_not_set_as_it_stands(self, read):
        told = {"mcpServers": {"a": {"command": "x", "args": ["${env:NONE}"], "alwaysAllow": [], "timeout": 60}}}
        for name in (".roo/mcp.json", "rooveterinaryinc.roo-cline/settings/mcp_settings.json"):
            upstream = only(read(name, told))
            assert (words(upstream), upstream.timeout_s) == (["x", "${env:NONE}"], 60)

    def test_cline_has_its_words(self, read):
        server = {"type": "streamableHttp", "url": "https://x/mcp", "disabled": False, "timeout": 3600}
        upstream = only(read(".cline/data/settings/cline_mcp_settings.json", {"mcpServers": {"a": server}}))
        assert (upstream.transport, upstream.timeout_s) == ("http", 3600)


GOOSE = """
GOOSE_MODE: smart_approve
extensions:
  developer: {bundled: true, enabled: true, name: developer, timeout: 300, type: builtin}
  computercontroller:
    type: platform
    name: computercontroller
    display_name: Computer Controller
  files:
    type: stdio
    name: files
    enabled: true
    cmd: npx
    args: [-y, server-filesystem, /tmp]
    envs: {DEBUG: no, PORT: 8080}
    env_keys: [KEY]
    timeout: 1200
    available_tools: []
  remote:
    type: streamable_http
    enabled: false
    uri: https://x.example/mcp
    headers: {Authorization: Bearer $KEY}
    available_tools: [search]
"""


class TestGoose:
    def test_has_extensions(self, read):
        config = read("goose/config.yaml", GOOSE, KEY="k")
        files, remote = config.upstreams
        assert (words(files), files.timeout_s, files.allow) == (["npx", "-y", "server-filesystem", "/tmp"], 1200, None)
        assert env(files) == {"DEBUG": "no", "PORT": "8080", "KEY": "k"}
        assert (remote.transport, remote.enabled, remote.allow) == ("http", False, {"search"})
        assert [notice.partition(": ")[2] for notice in config.notices] == [
            "extensions.developer: is a part of Goose and no server, and left out",
            "extensions.computercontroller: is a part of Goose and no server, and left out",
        ]
        assert config.problems == ()

    def test_names_a_key_that_is_in_its_keyring_alone(self, read):
        (problem,) = read("config.yaml", GOOSE).problems
        assert "files.env_keys: names the variable KEY, which is not set; set it" in problem

    def test_what_other_hosts_call_extensions_are_no_servers(self, read):
        told = {"extensions": {"disabled": ["x"]}, "mcpServers": {"a": {"command": "x"}}}
        assert only(read(".gemini/settings.json", told)).name == "a"


class TestContinue:
    def test_has_a_list(self, read, tmp_path):
        told = """
            name: Browser
            version: 0.0.1
            schema: v1
            mcpServers:
              - name: Browser search
                command: npx
                args: ["@playwright/mcp@latest", --token, "${{ secrets.TOKEN }}"]
                env: {TOKEN: "${{ inputs.TOKEN }}"}
                connectionTimeout: 20000
              - name: Remote
                type: streamable-http
                url: https://x.example/mcp
                requestOptions: {headers: {X-Key: "${{secrets.TOKEN}}"}}
        """
        config = read(".continue/mcpServers/browser.yaml", told, TOKEN="t")
        browser, remote = config.upstreams
        assert (browser.name, browser.cwd, browser.start_timeout_s) == ("Browser search", str(tmp_path), 20)
        assert words(browser) == ["npx", "@playwright/mcp@latest", "--token", "t"]
        assert (env(browser), headers(remote), remote.transport) == ({"TOKEN": "t"}, {"X-Key": "t"}, "http")
        assert (config.problems, config.notices) == ((), ())

    def test_names_a_secret_that_is_not_set(self, read):
        told = 'mcpServers:\n  - {name: a, command: x, env: {A: "${{ secrets.TOKEN }}"}}\n'
        (problem,) = read(".continue/config.yaml", told).problems
        assert "mcpServers.a.env: the variable TOKEN is not set" in problem

    def test_a_server_without_a_name_has_its_number(self, read):
        config = read("config.yaml", "mcpServers:\n  - command: x\n  - name: b\n")
        assert only(GatewayConfig(upstreams=config.upstreams)).name == "#1"
        assert "mcpServers.b: has neither a command nor a url" in config.problems[0]


LIBRECHAT = """
version: 1.2.1
mcpServers:
  everything:
    url: http://localhost:3001/sse
  sheets:
    type: sse
    url: https://x.example/endpoint
    requiresOAuth: true
    headers:
      X-User-ID: '{{LIBRECHAT_USER_ID}}'
      X-API-Key: '${SOME_KEY}'
    serverInstructions: true
  files:
    command: npx
    args: [-y, server-filesystem, /home/user]
    iconPath: /logo.svg
    chatMenu: false
    timeout: 60000
    initTimeout: 15000
  mine:
    type: streamable-http
    url: https://x.example/api/
    headers: {X-Auth-Token: '{{MY_KEY}}'}
    customUserVars: {MY_KEY: {title: My key, description: Ask for it}}
"""


class TestLibreChat:
    def test_has_servers_in_yaml(self, read, tmp_path):
        config = read("librechat.yaml", LIBRECHAT, SOME_KEY="s", MY_KEY="m")
        everything, sheets, files, mine = config.upstreams
        assert (everything.transport, sheets.transport, mine.transport) == ("sse", "sse", "http")
        assert headers(sheets) == {"X-User-ID": "", "X-API-Key": "s"}
        assert sheets.auth is not None
        assert sheets.auth.get_secret_value() == "oauth"
        assert (files.timeout_s, files.start_timeout_s, files.cwd) == (60, 15, str(tmp_path))
        assert headers(mine) == {"X-Auth-Token": "m"}
        assert config.problems == ()
        assert [notice.partition(": ")[2] for notice in config.notices] == [
            "mcpServers.sheets.headers: the variable LIBRECHAT_USER_ID is not set, and taken as empty"
        ]


class TestYaml:
    def test_is_that_of_hosts_in_which_few_words_are_no_texts(self, read):
        told = """
            x-base: &base {command: docker, env: {A: 1}}
            mcpServers:
              a:
                <<: *base
                args: [run, -p, 22:30, yes, off, 012, 1_000, 2026-01-02, 0x10, 7, 1.5, '8', true]
        """
        config = read("a.yaml", told)
        assert "mcpServers.a.args: has a switch" in config.problems[0]
        upstream = only(read("a.yml", told.replace(", true]", "]")))
        assert words(upstream)[3:] == ["22:30", "yes", "off", "012", "1_000", "2026-01-02", "0x10", "7", "1.5", "8"]
        assert env(upstream) == {"A": "1"}

    def test_keys_are_texts_as_they_are_written(self, read):
        config = read("a.yaml", "mcpServers:\n  1: {command: x, env: {on: 1, 2: null}}\n  ~: {command: x}\n")
        assert [upstream.name for upstream in config.upstreams] == ["1", "~"]
        assert env(config.upstreams[0]) == {"on": "1"}

    def test_that_is_none_is_refused_with_the_place(self, read):
        bomb = "a0: &a0 {k: 1}\n" + "".join(
            f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 12)
        )
        for told, why in [
            ("", "the file is empty"),
            ("- a", "no YAML object"),
            ("text", "no YAML object"),
            ("a: [1", "not YAML: expected ',' or ']'"),
            ("a:\n\t- b", "line 2 column 1"),
            ("a: *none", "found undefined alias"),
            ("a: !!python/object/apply:os.system [x]", "could not determine a constructor"),
            ("? [a]\n: b", "expected a scalar node"),
            ("a: \x01", "not YAML: "),
            ("[" * 5_000, "nested too deep"),
            ("a: '" + "x" * 300_000 + "'", "not YAML: 300005 characters, 262144 are the most"),
            (bomb, "not YAML: more keys in one object than are read"),
        ]:
            with pytest.raises(ConfigError) as caught:
                read("a.yaml", told)
            assert why in str(caught.value)
            assert str(caught.value).isprintable()

    def test_with_itself_within_is_read(self, read):
        config = read("a.yaml", "mcpServers:\n  a: &a {command: x, env: {A: *a}, args: &b [*b]}\n  b: {command: x}\n")
        assert [upstream.name for upstream in config.upstreams] == ["b"]
        assert len(config.problems) == 2


def test_a_number_that_is_none_is_told_in_every_form(read):
    for name, told in [
        ("a.json", '{"mcpServers": {"a": {"command": "x", "timeout": NaN, "idleSeconds": NaN}}}'),
        ("a.yaml", "mcpServers: {a: {command: x, timeout: 1.0e+999, idleSeconds: 1e999}}"),
        ("config.toml", '[mcp_servers.a]\ncommand = "x"\ntimeout = nan\nidleSeconds = inf\n'),
    ]:
        keys = {problem.partition("s.a.")[2].partition(":")[0] for problem in read(name, told).problems}
        assert keys == {"timeout", "idleSeconds"}

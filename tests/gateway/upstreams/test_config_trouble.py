"""What is wrong with a config file, or a server in it: told with file, server, key and what would do; others served."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.gateway.upstreams.config import GatewayConfig
from agent_utilities.gateway.upstreams.configuration.config_files import MAX_SERVERS, read_config
from agent_utilities.gateway.upstreams.configuration.config_text import MAX_BYTES
from agent_utilities.gateway.upstreams.configuration.server_entry import KEYS
from agent_utilities.gateway.upstreams.errors import ConfigError

GOOD = {"command": "git-mcp"}


def servers(tmp_path: Path, told: object, **environ: str) -> GatewayConfig:
    """Write servers to a file, beside a good one, and read it."""
    path = tmp_path / ".mcp.json"
    path.write_text(json.dumps({"mcpServers": {"good": GOOD, **told}} if isinstance(told, dict) else told))
    return read_config([path], {"HOME": "/home/ada", **environ})


def problem(tmp_path: Path, server: object, **environ: str) -> str:
    """Return the one problem that a server makes, without the file; its good neighbour must be there."""
    config = servers(tmp_path, {"bad": server}, **environ)
    assert [upstream.name for upstream in config.upstreams] == ["good"]
    (told,) = config.problems
    return told.removeprefix(f"{tmp_path}/.mcp.json: mcpServers.")


class TestProblem:
    def test_names_the_key_and_what_would_do(self, tmp_path: Path) -> None:
        for server, told in [
            ("npx foo", 'bad: is a text; write an object, such as {"command": "npx"}'),
            ({}, "bad: has neither a command nor a url; write the one or the other"),
            ({"command": ["", "x"]}, "bad.command: is empty; write a program"),
            ({"command": 5}, "bad.command: is a number; write a program"),
            ({"command": "x", "args": "-y"}, "bad.args: is a text; write a list of texts"),
            ({"command": "x", "args": [True]}, "bad.args: has a switch; write a list of texts"),
            ({"command": "x", "env": ["A=1"]}, "bad.env: is a list; write an object of texts"),
            ({"command": "x", "env": {"A": {"B": 1}}}, "bad.env: has an object under 'A'; write an object of texts"),
            ({"command": "x", "env": {"A=B": "1"}}, "bad.env: 'A=B' can't be a name; write an object of texts"),
            ({"command": "x", "env": {"A": "\0"}}, "bad.env: has a character that no program or address can take"),
            ({"command": "x", "args": ["\ud800"]}, "bad.args: has a character that no program or address can take"),
            ({"command": "x", "type": "htttp"}, 'bad.type: is \'htttp\'; write "stdio", "http" or "sse"'),
            ({"command": "x", "type": "http"}, "bad: is of type http, and has no url; write the url, or another type"),
            ({"url": "http://x/", "type": "stdio"}, "bad: is of type stdio, and has no command"),
            ({"command": "x", "url": "http://x/"}, "bad: has a command and a url; leave one out"),
            ({"url": "example.com/mcp"}, "bad.url: is no http:// or https:// address; write an address"),
            ({"url": "file:///etc/passwd"}, "bad.url: is no http:// or https:// address"),
            ({"url": "http://[::1"}, "bad.url: is no http:// or https:// address"),
            ({"url": "http://x/", "headers": {"A b": "1"}}, "bad.headers: 'A b' can't be a name; write an object"),
            ({"url": "http://x/", "headers": {"A": "1\r\nB: 2"}}, "bad.headers: A has a line break"),
            ({"url": "http://x/", "forwardHeaders": ["*"]}, "bad.forwardHeaders: has '*'; write a list of names"),
            ({"command": "x", "forwardMeta": ["*"]}, "bad.forwardMeta: has '*'; write a list of names"),
            ({"command": "x", "forwardMeta": ["progressToken"]}, "bad.forwardMeta: has 'progressToken'; write"),
            (
                {"command": "x", "forwardMeta": ["io.modelcontextprotocol/x"]},
                "bad.forwardMeta: has 'io.modelcontextprotocol/x'; write a list of names",
            ),
            ({"url": "http://x/", "auth": ""}, "bad.auth: is no token; write"),
            ({"url": "http://x/", "credentials": "mine"}, "bad.credentials: is 'mine'; write \"caller\""),
            ({"command": "x", "credentials": "caller"}, "bad: is a command, which callers can't log in at; leave"),
            (
                {"url": "http://x/", "credentials": "caller", "auth": "t0ken"},
                "bad: has callers' own logins, and a token for all; leave out the token, or `credentials`",
            ),
            (
                {"url": "http://x/", "credentials": "caller", "headers": {"Authorization": "Basic x"}},
                "bad: has callers' own logins, and a token for all",
            ),
            (
                {"url": "http://x/", "oauth": {"callbackPort": 0}},
                "bad.oauth: has a number under 'callback_port'",
            ),
            ({"command": "x", "timeout": "30"}, "bad.timeout: is '30'; write a number above 0"),
            ({"command": "x", "timeout": 0}, "bad.timeout: is 0; write a number above 0"),
            ({"command": "x", "timeout": True}, "bad.timeout: is True; write a number above 0"),
            ({"command": "x", "timeout": 10**300}, "bad.timeout: is 1000"),
            ({"command": "x", "timeout_ms": 10**400}, "bad.timeout_ms: is 1000"),
            ({"command": "x", "timeout": 1e300}, "bad.timeout: is 1e+300; write a number above 0, a week at most"),
            ({"command": "x", "timeout": float("inf")}, "bad.timeout: is inf; write a number above 0"),
            ({"command": "x", "enabled": "yes"}, "bad.enabled: is 'yes'; write true or false"),
            ({"command": "x", "enabled": True, "disabled": True}, "bad.disabled: contradicts 'enabled'"),
            ({"command": "x", "disabledTools": ["a"], "excludeTools": ["b"]}, "bad.excludeTools: contradicts 'disab"),
            ({"command": "x", "disabledTools": ["a"], "disabled_tools": ["b"]}, "bad.disabled_tools: contradicts"),
            ({"url": "http://a/", "httpUrl": "http://b/"}, "bad.httpUrl: contradicts 'url'"),
            ({"httpUrl": "http://b/", "type": "sse"}, "bad.type: contradicts 'httpUrl'; leave one"),
            ({"type": "sse", "httpUrl": "http://b/"}, "bad.httpUrl: contradicts 'type'; leave one"),
            ({"command": "x", "onlyAllow": "a"}, "bad.onlyAllow: is 'a'; write a list of names"),
            ({"command": "x", "onlyAllow": [1]}, "bad.onlyAllow: has 1; write a list of names"),
            ({"command": "x", "tools": {"t": 1}}, "bad.tools: has 1 under 't'; write an object by tool"),
            ({"command": "x", "tools": {"[key]": 1}}, "bad.tools: has 1 under '[key]'; write an object by tool"),
            ({"command": "x", "tools": {"t": {"enabled": 1}}}, "bad.tools: has 1 under 't.enabled'; write"),
            ({"command": "x", "args": ["${NOPE}"]}, "bad.args: the variable NOPE is not set; set it, or write"),
            ({"command": "x", "env": {"A": "${env:NOPE}"}}, "bad.env: the variable NOPE is not set; set it, or write"),
            (
                {"command": "x", "args": ["${input:key}"]},
                "bad.args: the input 'key' is not given; set the variable MCP_",
            ),
            ({"command": "x", "args": ["${command:pick}"]}, "bad.args: ${command:…} is known to editors alone"),
            ({"command": "x", "args": ["y" * 200_000]}, "bad.args: too long; 131072 characters are the most"),
            ({"command": "x", "envFile": "none.env"}, "bad: no such file: '"),
        ]:
            assert problem(tmp_path, server).startswith(told)

    def test_each_key_of_one_server_has_its_own(self, tmp_path: Path) -> None:
        config = servers(tmp_path, {"bad": {"command": 1, "lazy": 2, "timeout": 3}})
        assert [told.partition(".bad.")[2].partition(":")[0] for told in config.problems] == ["command", "lazy"]

    def test_a_name_that_no_caller_could_write(self, tmp_path: Path) -> None:
        for name in ["", " ", " git", "a,b", "a\nb", "x" * 129, "a\u202eb"]:
            config = servers(tmp_path, {name: GOOD})
            assert [upstream.name for upstream in config.upstreams] == ["good"]
            assert "the name can't be a toolset's; write up to 128 letters" in config.problems[0]
            assert config.problems[0].isprintable()

    def test_a_switched_off_server_needs_no_variables(self, tmp_path: Path) -> None:
        config = servers(tmp_path, {"off": {"command": "x", "args": ["${NOPE}"], "envFile": "none", "disabled": True}})
        assert config.problems == ()
        assert [(upstream.name, upstream.enabled) for upstream in config.upstreams] == [("good", True), ("off", False)]

    def test_what_was_written_over_does_not_come_back_by_a_mistake(self, tmp_path: Path) -> None:
        first, second = tmp_path / "a.json", tmp_path / "b.json"
        first.write_text(json.dumps({"mcpServers": {"git": GOOD, "time": GOOD}}))
        second.write_text(json.dumps({"mcpServers": {"git": {"command": 5}, "time": {"disabled": True}}}))
        config = read_config([first, second], {})
        assert (config.upstreams, len(config.problems)) == ((), 1)


class TestNotice:
    def test_an_unknown_key_is_told_once_with_the_nearest(self, tmp_path: Path) -> None:
        config = servers(tmp_path, {name: {**GOOD, "disabeldTools": ["x"]} for name in "abc"})
        assert config.notices == (
            f"{tmp_path}/.mcp.json: mcpServers.a: the key 'disabeldTools' is not known, and passed over; "
            "did you mean 'disabledTools'?",
        )
        assert len(config.upstreams) == 4

    def test_keys_for_a_hosts_own_windows_are_no_news(self, tmp_path: Path) -> None:
        assert servers(tmp_path, {"a": {**GOOD, "trust": True, "autoApprove": [], "icon": "x"}}).notices == ()

    def test_what_a_host_would_do_and_the_gateway_does_not_is_told(self, tmp_path: Path) -> None:
        (told,) = servers(tmp_path, {"a": {**GOOD, "sandboxEnabled": True}}).notices
        assert told.endswith("a: the key 'sandboxEnabled' is not known, and passed over")

    def test_of_a_name_or_key_that_stands_twice_the_last_is_taken(self, tmp_path: Path) -> None:
        path = tmp_path / "mcp.json"
        path.write_text('{"mcpServers": {"a": {"command": "one"}, "a": {"command": "two", "args": [], "args": ["x"]}}}')
        (upstream,) = read_config([path], {}).upstreams
        assert (upstream.command, len(upstream.args)) == ("two", 1)

    def test_a_gateway_does_not_start_itself(self, tmp_path: Path) -> None:
        other = tmp_path / "other.json"
        other.write_text("{}")
        me = {"command": "/opt/bin/agent-utilities", "args": ["gateway", str(tmp_path / ".mcp.json"), "-t", "stdio"]}
        finds = {"command": "uvx", "args": ["agent-utilities", "gateway"]}
        another = {"command": "agent-utilities", "args": ["gateway", str(other)]}
        config = servers(tmp_path, {"me": me, "finds": finds, "another": another})
        assert [upstream.name for upstream in config.upstreams] == ["good", "another"]
        assert [told.rpartition("mcpServers.")[2] for told in config.notices] == [
            "me: is this gateway itself, and left out",
            "finds: is this gateway itself, and left out",
        ]

    def test_there_are_never_thousands(self, tmp_path: Path) -> None:
        config = servers(tmp_path, {"a": {**GOOD, **{f"key{number}": 1 for number in range(5000)}}})
        assert (len(config.notices), len(config.upstreams)) == (20, 2)


class TestFile:
    def test_that_is_none_is_refused_with_the_place(self, tmp_path: Path) -> None:
        for content, told in [
            (b"", "the file is empty"),
            (b" \n\t", "the file is empty"),
            (b"[]", "no JSON object"),
            (b"null", "no JSON object"),
            (b'{"mcpServers": [1]}', "'mcpServers' is a list"),
            (b'{\n  "mcpServers": {\n    "a": {"command": x}\n}}', "not JSON: Expecting value: line 3 column 22"),
            (b'{"a": 1} trailing', "not JSON: Extra data: line 1 column 10"),
            (b'{"a": "unclosed', "not JSON: Unterminated string starting at: line 1 column 7"),
            (b"{ /* unclosed", "not JSON: Expecting property name enclosed in double quotes: line 1 column 3"),
            (b'{"a": ' + b"9" * 5000 + b"}", "not JSON: Exceeds the limit"),
            (b"[" * 100_000, "nested too deep"),
            (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
            (b"{}" + b" " * MAX_BYTES, "can't read the file (over 8388608 bytes)"),
            (b'{"a": "' + b'\\"' * 400_000, "not JSON: Unterminated string"),
            (b"/*" * 3_000_000, "not JSON: Expecting value: line 1 column 1"),
            (b"//" + b" " * 2_000_000 + b"\n{}", "not JSON: Expecting value: line 1 column 1"),
        ]:
            path = tmp_path / "mcp.json"
            path.write_bytes(content)
            with pytest.raises(ConfigError) as caught:
                read_config([path], {})
            assert str(caught.value).startswith(f"{told}")
            assert str(path)[:100] in str(caught.value)

    def test_that_is_a_folder_a_pipe_or_a_loop_is_refused(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        for name in (".", "pipe", "loop"):
            with pytest.raises(ConfigError):
                read_config([tmp_path / name], {})
        with pytest.raises(ConfigError, match="no regular file"):
            read_config([Path("/dev/zero")], {})

    def test_may_be_in_any_utf(self, tmp_path: Path) -> None:
        for encoding in ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"]:
            path = tmp_path / "mcp.json"
            path.write_bytes('{"mcpServers": {"git": {"command": "/ä/git"}}}'.encode(encoding))
            assert read_config([path], {}).upstreams[0].command == "/ä/git"

    def test_comments_and_trailing_commas_are_none_within_texts(self, tmp_path: Path) -> None:
        path = tmp_path / "mcp.json"
        path.write_text(
            '{"mcpServers": {"a": {"command": "x", "args": ["//,]", "/*,}*/", "\\\\", "\\",]",], }, // "[[\n}}'
        )
        (upstream,) = read_config([path], {}).upstreams
        assert [arg.get_secret_value() for arg in upstream.args] == ["//,]", "/*,}*/", "\\", '",]']

    def test_a_link_is_followed_and_its_own_folder_holds(self, tmp_path: Path) -> None:
        real = tmp_path / "dotfiles" / "mcp.json"
        real.parent.mkdir()
        real.write_text('{"mcpServers": {"a": {"command": "x"}}}')
        (tmp_path / "mcp.json").symlink_to(real)
        assert read_config([tmp_path / "mcp.json"], {}).upstreams[0].cwd == str(tmp_path)

    def test_with_more_servers_than_anybody_has_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="servers"):
            servers(tmp_path, {f"s{number}": GOOD for number in range(MAX_SERVERS)})

    def test_that_breaks_off_gives_none_of_its_servers(self, tmp_path: Path) -> None:
        bad, good = tmp_path / "bad.json", tmp_path / "good.json"
        bad.write_text('{"mcpServers": {"a": {"command": "x"}}, "servers": 1}')
        good.write_text('{"mcpServers": {"b": {"command": "x"}}}')
        assert [upstream.name for upstream in read_config([bad, good], {}).upstreams] == ["b"]


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
SPELLINGS = st.sampled_from([spelling for key in KEYS for spelling in key.spellings])
SECRET = "s3cr3t-0f-4da"
HIDES_SECRETS = [spelling for key in KEYS if key.is_secret for spelling in key.spellings]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("laws")


class TestLaws:
    @given(
        told=st.dictionaries(
            st.text(max_size=20), st.dictionaries(SPELLINGS | st.text(max_size=10), ANY, max_size=6) | ANY, max_size=5
        )
    )
    def test_a_good_server_is_never_lost_to_its_neighbours(self, folder: Path, told: dict[str, Any]) -> None:
        told.pop("good", None)
        config = servers(folder, told)
        assert config.upstreams[0].command == "git-mcp"
        names = {upstream.name for upstream in config.upstreams}
        for name in told.keys() - names - {"good"}:  # left out: there is a line, or it only said that it is off
            assert config.problems or told[name]["disabled"] is True or told[name]["enabled"] is False
        assert all(line.isprintable() for line in (*config.problems, *config.notices))
        assert servers(folder, told) == config

    @given(
        server=st.dictionaries(
            st.sampled_from(HIDES_SECRETS),
            st.recursive(
                st.just(SECRET) | st.just(f"\0{SECRET}") | st.just(f"${{NOPE:-{SECRET}}}\n"),
                lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["A", "b c"]), inner),
                max_leaves=4,
            ),
            min_size=1,
        ),
        more=st.dictionaries(SPELLINGS, st.booleans() | st.integers(), max_size=3),
    )
    def test_no_secret_is_told(self, folder: Path, server: dict[str, Any], more: dict[str, Any]) -> None:
        config = servers(folder, {"bad": {**more, **server}, "ok": {**GOOD, "env": {"A": SECRET}, "args": [SECRET]}})
        shown = [repr(config), *config.problems, *config.notices, config.model_dump_json()]
        commands = [upstream.command for upstream in config.upstreams if upstream.name == "bad"]
        assert not any(SECRET in text for text in shown) or any(SECRET in command for command in commands)

    @given(content=st.binary(max_size=200) | st.text(alphabet='{}[]",:/*\\ \na1', max_size=60).map(str.encode))
    def test_any_bytes_are_read_or_refused(self, folder: Path, content: bytes) -> None:
        path = folder / "mcp.json"
        path.write_bytes(content)
        told = ""
        try:
            read_config([path], {})
        except ConfigError as error:
            told = str(error)
        assert told.isprintable()

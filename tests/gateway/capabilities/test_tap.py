"""Folders of capabilities: what is read of them, and what a bad bundle costs the others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_utilities.errors import InputError
from agent_utilities.gateway.capabilities.tap import read_capabilities
from tests.every import every
from tests.gateway.capabilities.written import BROWSER, CONFIG, SEARCH, TOOLCHAIN, write


@pytest.fixture
def bundles(tmp_path):
    return tmp_path / "tap" / "capabilities"


class TestABundle:
    def test_has_what_its_files_say(self, bundles):
        write(bundles, {"browser/config.toml": CONFIG, "browser/chrome.toml": BROWSER})
        browser = read_capabilities([bundles.parent]).by_name["browser"]
        assert browser.title == "Browser (Chrome)"
        assert browser.description == "Open pages and look at them."
        assert browser.provider == "chrome"
        assert browser.triggers == ("browse a website", "take a screenshot of a page")
        assert browser.domains == ("developer",)
        assert browser.require == ("example/chrome",)
        assert browser.server_refs == ("chrome",)
        assert browser.allowed_tools == ("chrome:*",)
        assert browser.source == str(bundles / "browser" / "chrome.toml")

    def test_has_its_servers_as_entries_of_an_mcp_json(self, bundles):
        write(bundles, {"browser/chrome.toml": BROWSER})
        (server,) = read_capabilities([bundles]).by_name["browser"].servers
        assert server.name == "chrome"
        assert server.source == "browser/chrome.toml: mcp.servers.chrome"
        assert server.entry == {
            "type": "stdio",
            "command": "npx",
            "args": ["chrome-mcp", "--headless"],
            "timeout_seconds": 120,
        }

    def test_keeps_the_variables_of_its_servers_as_references(self, bundles):
        write(bundles, {"websearch/search.toml": SEARCH})
        (server,) = read_capabilities([bundles]).by_name["websearch"].servers
        assert server.entry["headers"] == {"Authorization": "Bearer ${env:SEARCH_KEY}"}

    def test_names_the_servers_that_are_built_into_another_host(self, bundles):
        server = '[roles.mcp]\nserver_refs = ["planner"]\n[[mcp.servers]]\nname = "planner"\ntype = "builtin"\n'
        write(bundles, {"planning/default.toml": server})
        read = read_capabilities([bundles])
        planning = read.by_name["planning"]
        assert (planning.servers, planning.built_in) == ((), ("planner",))
        assert (read.problems, read.notices) == ((), ())

    def test_wants_every_tool_by_an_empty_list(self, bundles):
        write(bundles, {"browser/chrome.toml": BROWSER.replace('["chrome:*"]', "[]")})
        browser = read_capabilities([bundles]).by_name["browser"]
        assert browser.allowed_tools is None
        assert browser.patterns_for("chrome") == ("*",)

    def test_may_have_title_and_description_as_keys(self, bundles):
        write(bundles, {"docker/docker.toml": 'title = "Containers"\ndescription = "Run them."\n' + TOOLCHAIN})
        docker = read_capabilities([bundles]).by_name["docker"]
        assert (docker.title, docker.description) == ("Containers", "Run them.")

    def test_tells_its_files_to_be_watched(self, bundles):
        write(bundles, {"browser/config.toml": CONFIG, "browser/chrome.toml": BROWSER})
        files = read_capabilities([bundles]).files
        names = ("config.toml", "default.toml", "chrome.toml")
        assert files == (*(bundles / "browser" / name for name in names), bundles)


class TestTheProvider:
    TWO = {"websearch/search.toml": SEARCH, "websearch/chrome.toml": BROWSER}  # noqa: RUF012

    def test_is_the_one_whose_name_is_all_that_stands_in_default(self, bundles):
        for text in ["search.toml", "search", "search.toml\r\n", "./search.toml\n"]:
            write(bundles, {**self.TWO, "websearch/default.toml": text})
            assert read_capabilities([bundles]).by_name["websearch"].provider == "search"

    def test_is_the_one_that_default_links_to(self, bundles):
        write(bundles, self.TWO)
        (bundles / "websearch" / "default.toml").symlink_to("search.toml")
        assert read_capabilities([bundles]).by_name["websearch"].provider == "search"

    def test_may_be_default_itself(self, bundles):
        write(bundles, {"websearch/default.toml": SEARCH})
        assert read_capabilities([bundles]).by_name["websearch"].title == "Web Search"

    def test_is_the_only_one_where_there_is_no_default(self, bundles):
        write(bundles, {"websearch/search.toml": SEARCH})
        assert read_capabilities([bundles]).by_name["websearch"].provider == "search"

    def test_of_several_without_a_default_is_a_problem_that_names_them(self, bundles):
        write(bundles, self.TWO)
        read = read_capabilities([bundles])
        assert read.by_name == {}
        assert "write one of chrome, search into default.toml" in read.problems[0]

    def test_is_the_one_that_the_user_chose(self, bundles):
        write(bundles, {**self.TWO, "websearch/default.toml": "search.toml"})
        read = read_capabilities([bundles], providers={"websearch": "chrome"})
        assert read.by_name["websearch"].provider == "chrome"

    def test_that_the_user_chose_and_is_not_there_is_a_problem_that_names_the_known_ones(self, bundles):
        write(bundles, {**self.TWO, "websearch/default.toml": "search.toml"})
        read = read_capabilities([bundles], providers={"websearch": "brave"})
        assert read.by_name == {}
        assert "'brave'" in read.problems[0]
        assert "name one of chrome, search" in read.problems[0]


class TestFolders:
    def test_later_ones_go_over_earlier_ones_by_name(self, tmp_path):
        first = write(tmp_path / "a", {"docker/docker.toml": TOOLCHAIN, "browser/chrome.toml": BROWSER})
        second = write(tmp_path / "b", {"docker/mine.toml": TOOLCHAIN})
        read = read_capabilities([first, second])
        assert {name: each.provider for name, each in read.by_name.items()} == {"browser": "chrome", "docker": "mine"}

    def test_of_a_tap_and_of_its_bundles_are_of_one_tap(self, bundles):
        write(bundles, {"docker/docker.toml": TOOLCHAIN})
        assert read_capabilities([bundles.parent]).by_name["docker"].tap == bundles.parent
        assert read_capabilities([bundles]).by_name["docker"].tap == bundles.parent

    def test_come_in_the_order_of_their_names(self, bundles):
        write(bundles, {f"{name}/x.toml": TOOLCHAIN for name in ("c", "a", "b")})
        assert list(read_capabilities([bundles]).by_name) == ["a", "b", "c"]

    def test_that_are_not_there_are_refused(self, tmp_path):
        with pytest.raises(InputError, match="no such file or directory"):
            read_capabilities([tmp_path / "gone"])

    def test_without_bundles_are_told(self, tmp_path):
        (tmp_path / "README.md").write_text("hello")
        read = read_capabilities([tmp_path])
        assert (read.problems, len(read.notices)) == ((), 1)


BAD = {
    "not TOML": b"a = = 1",
    "not UTF-8": b"title = '\xff'",
    "a text for a list": b"[deps]\nrequire = 'docker/docker'",
    "a list for a table": b"deps = []",
    "servers that are no tables": b"[mcp]\nservers = [1]",
    "a server without a name": b"[[mcp.servers]]\ncommand = 'x'",
    "a server of an unknown type": b"[[mcp.servers]]\nname = 'x'\ntype = 'pigeon'",
    "a server without a command": b"[[mcp.servers]]\nname = 'x'\ntype = 'stdio'",
    "a server without a url": b"[[mcp.servers]]\nname = 'x'\ntype = 'http'",
    "a server's name with a namespace": b"[[mcp.servers]]\nname = 'x:y'\ncommand = 'x'",
    "a server twice": b"[[mcp.servers]]\nname = 'x'\ncommand = 'x'\n[[mcp.servers]]\nname = 'x'\ncommand = 'y'",
    "a time below nothing": b"[[mcp.servers]]\nname = 'x'\ncommand = 'x'\ntimeout_seconds = -1",
    "an endless time": b"[[mcp.servers]]\nname = 'x'\ncommand = 'x'\ntimeout_seconds = inf",
    "arguments that are a text": b"[[mcp.servers]]\nname = 'x'\ncommand = 'x'\nargs = '-y'",
    "variables that are tables": b"[[mcp.servers]]\nname = 'x'\ncommand = 'x'\nenv = { A = { B = 1 } }",
    "lists in lists without end": b"a = " + b"[" * 100_000,
    "keys of thousands of parts": b".".join([b"a"] * 50_000) + b" = 1",
    "a number of thousands of digits": b"a = " + b"9" * 10_000,
    "a file that is too long": b"# " + b"x" * 9_000_000,
}


class TestABadBundle:
    def test_is_left_out_and_told_with_its_file(self, bundles):
        write(bundles, {f"bad{i}/x.toml": content for i, content in enumerate(BAD.values())})
        write(bundles, {"docker/docker.toml": TOOLCHAIN})
        read = read_capabilities([bundles])
        assert list(read.by_name) == ["docker"]
        for i, kind in enumerate(BAD):
            told = [line for line in read.problems if line.startswith(str(bundles / f"bad{i}" / "x.toml"))]
            assert told, kind
            assert all("; " in line and len(line) <= 1000 for line in told)

    def test_is_told_what_would_do(self, bundles):
        server = "[[mcp.servers]]\nname = 'x'\ncommand = 'x'\nargs = '-y'\ntimeout_seconds = -1"
        write(bundles, {"a/x.toml": server})
        write(bundles, {"c/x.toml": "[[mcp.servers]]\nname = 'x'\ncommand = 'x'\nenv = { A = [] }"})
        write(bundles, {"b/x.toml": "deps = 1\n[roles.mcp]\nallowed_tools = ['a', 1]\nserver_refs = 'a/b'"})
        told = [line.removeprefix(f"{bundles}/") for line in read_capabilities([bundles]).problems]
        assert sorted(told) == [
            'a/x.toml: mcp.servers.x.args: is a text; write a list of texts, such as ["-y", "NAME"]',
            "a/x.toml: mcp.servers.x.timeout_seconds: is -1; write a number above 0, a week at most",
            "b/x.toml: deps: is a number; write a table",
            "b/x.toml: roles.mcp.allowed_tools.1: is a number; write a text",
            'b/x.toml: roles.mcp.server_refs: is a text; write a list of texts, such as ["git"]',
            "c/x.toml: mcp.servers.x.env: has a list under 'A'; "
            'write an object of texts, such as {"NAME": "${VARIABLE}"}',
        ]

    def test_may_be_one_by_its_config(self, bundles):
        wrong = [b"triggers = 'x'", b"triggers = [1]", b"triggers = [false]", b"domains = 1"]
        for i, content in enumerate(wrong):
            write(bundles, {f"bad{i}/x.toml": TOOLCHAIN, f"bad{i}/config.toml": content})
        read = read_capabilities([bundles])
        assert (read.by_name, len(read.problems)) == ({}, len(wrong))

    def test_tells_everything_that_is_wrong_at_once(self, bundles):
        write(bundles, {"bad/x.toml": "deps = 1\nroles = 2\nmcp = 3", "bad/config.toml": "triggers = 4"})
        assert len(read_capabilities([bundles]).problems) == 4

    def test_takes_an_earlier_one_of_its_name_with_it(self, tmp_path):
        first = write(tmp_path / "a", {"docker/docker.toml": TOOLCHAIN})
        second = write(tmp_path / "b", {"docker/docker.toml": "deps = 1"})
        assert read_capabilities([first, second]).by_name == {}

    def test_may_be_one_by_its_name(self, bundles):
        wrong = ["no space", "a:b", "all", "None", "ünï", "x" * 129, "-x"]
        write(bundles, {f"{name}/x.toml": TOOLCHAIN for name in wrong})
        read = read_capabilities([bundles])
        assert read.by_name == {}
        assert sum("can't be a capability's name" in problem for problem in read.problems) == len(wrong)

    @pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable to root")
    def test_may_be_one_that_can_not_be_listed(self, bundles):
        write(bundles, {"bad/x.toml": TOOLCHAIN})
        (bundles / "bad").chmod(0)
        read = read_capabilities([bundles])
        (bundles / "bad").chmod(0o700)
        assert "can't be" in read.problems[0]


class TestWhatLeadsElsewhere:
    def test_is_refused_of_a_defaults_text(self, bundles):
        outside = ["../other/x.toml", "/etc/passwd", "..\\other\\x.toml"]
        for text in [*outside, "gone.toml", "config.toml", "default.toml", " "]:
            write(bundles, {"bad/x.toml": TOOLCHAIN, "bad/default.toml": text, "other/x.toml": TOOLCHAIN})
            read = read_capabilities([bundles])
            assert list(read.by_name) == ["other"], text
            assert "default.toml" in read.problems[0]

    def test_is_refused_of_a_defaults_link(self, bundles):
        write(bundles, {"bad/x.toml": TOOLCHAIN, "bad/config.toml": CONFIG, "other/x.toml": TOOLCHAIN})
        for target in ["../other/x.toml", "/etc/hostname", "gone.toml", "default.toml", "config.toml"]:
            (bundles / "bad" / "default.toml").unlink(missing_ok=True)
            (bundles / "bad" / "default.toml").symlink_to(target)
            assert list(read_capabilities([bundles]).by_name) == ["other"], target

    @every("name", ["x.toml", "config.toml"])
    def test_is_refused_of_any_file(self, bundles, tmp_path, name):
        write(bundles, {"bad/y.toml": TOOLCHAIN, "bad/default.toml": "x.toml", "bad/x.toml": TOOLCHAIN})
        (bundles / "bad" / name).unlink(missing_ok=True)
        (tmp_path / "secret").write_text("triggers = ['secret words']")
        (bundles / "bad" / name).symlink_to(tmp_path / "secret")
        read = read_capabilities([bundles])
        assert read.by_name == {}
        assert "leads out of its folder" in read.problems[0]
        assert "secret words" not in str(read)

    def test_is_refused_of_a_bundles_folder(self, bundles, tmp_path):
        write(tmp_path / "elsewhere", {"x.toml": TOOLCHAIN})
        bundles.mkdir(parents=True)
        (bundles / "bad").symlink_to(tmp_path / "elsewhere")
        read = read_capabilities([bundles])
        assert read.by_name == {}
        assert "leads out of its folder" in read.problems[0]

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
    def test_a_pipe_is_not_waited_for(self, bundles):
        (bundles / "bad").mkdir(parents=True)
        os.mkfifo(bundles / "bad" / "x.toml")
        assert "no regular file" in read_capabilities([bundles]).problems[0]


class TestNotices:
    def test_tell_an_unknown_key_once(self, bundles):
        write(bundles, {f"{name}/x.toml": TOOLCHAIN + "color = 1" for name in "abc"})
        (notice,) = read_capabilities([bundles]).notices
        assert "a/x.toml: deps: the key 'color' is not known" in notice

    def test_tell_a_placeholder_that_means_nothing(self, bundles):
        write(bundles, {"x/x.toml": "[[mcp.servers]]\nname = 'x'\ncommand = 'x'\nargs = ['{{DATE}}', '{{CWD}}/a']"})
        read = read_capabilities([bundles])
        assert read.by_name["x"].servers[0].entry["args"] == ["{{DATE}}", "${workspaceFolder}/a"]
        assert "{{DATE}} means nothing here" in read.notices[0]

    def test_tell_a_provider_chosen_for_what_is_not_there(self, bundles):
        write(bundles, {"docker/docker.toml": TOOLCHAIN})
        assert "capabilities.gone" in read_capabilities([bundles], providers={"gone": "x"}).notices[0]


class TestTriggers:
    def test_are_stripped_and_blank_ones_dropped(self, bundles):
        write(bundles, {"x/x.toml": TOOLCHAIN, "x/config.toml": 'triggers = ["  a b ", "", "  ", "a b", "c"]'})
        assert read_capabilities([bundles]).triggers == {"x": ("a b", "c")}

    def test_are_200_at_most(self, bundles):
        write(bundles, {"x/x.toml": TOOLCHAIN, "x/config.toml": f"triggers = {[f't{i}' for i in range(300)]}"})
        read = read_capabilities([bundles])
        assert len(read.triggers["x"]) == 200
        assert "has 300; the first 200 are taken" in read.notices[0]

    def test_have_1000_characters_at_most(self, bundles):
        write(bundles, {"x/x.toml": TOOLCHAIN, "x/config.toml": f"triggers = ['{'t' * 1500}']"})
        read = read_capabilities([bundles])
        assert read.triggers["x"] == ("t" * 1000,)
        assert "over 1000 characters" in read.notices[0]

    def test_are_data_whatever_they_look_like(self, bundles):
        texts = ["{{ENV:HOME}}", "${HOME}", "$(id)", "../../etc", "{{CWD}}", "%s{0}"]
        write(bundles, {"x/x.toml": TOOLCHAIN, "x/config.toml": f"triggers = {texts}"})
        assert read_capabilities([bundles]).triggers["x"] == tuple(texts)


def test_a_bundle_of_triggers_alone_is_routed_to_and_told(tmp_path: Path) -> None:
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker" / "config.toml").write_text('triggers = ["list running containers"]\n')
    read = read_capabilities([tmp_path])
    assert read.triggers == {"docker": ("list running containers",)}
    assert not read.problems
    assert "has no provider" in read.notices[0]

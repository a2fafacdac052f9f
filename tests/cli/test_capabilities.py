"""`agent-utilities capabilities`: what a person sees of his bundles, and what makes it fail."""

from __future__ import annotations

import json
import sys

import pytest

from agent_utilities.cli import app
from tests.gateway.capabilities.written import BROWSER, CONFIG, SEARCH, TOOLCHAIN, write


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run the command on a terminal of 80 columns, and return its code, output and errors."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("SEARCH_KEY", raising=False)
    for program in ("npx", "uvx"):
        (tmp_path / "bin" / program).parent.mkdir(exist_ok=True)
        (tmp_path / "bin" / program).touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def run(*arguments: object) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["agent-utilities", "capabilities", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            app.main()
        return (ended.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def tap(tmp_path):
    files = {
        "browser/chrome.toml": BROWSER.replace('require = ["example/chrome"]', ""),
        "browser/config.toml": CONFIG,
        "websearch/search.toml": SEARCH,
    }
    return write(tmp_path / "tap" / "capabilities", files).parent


class TestCheck:
    def test_says_what_each_bundle_brings(self, run, tap):
        code, out, _ = run("check", tap)
        assert code == 0
        assert "ready browser (chrome): chrome; 2 triggers; for developer\n" in out

    def test_names_a_variable_that_is_missing_and_what_would_do(self, run, tap):
        out = run("check", tap)[1]
        assert "unavailable websearch (search): search; no triggers: enabled by name alone\n" in out
        assert "the variable SEARCH_KEY is not set; set it" in out

    def test_names_what_is_not_installed(self, run, tap):
        script = "# check: dockerd\n"
        write(tap, {"capabilities/docker/docker.toml": TOOLCHAIN, "deps/docker/docker.sh": script})
        code, out, _ = run("check", tap)
        assert code == 0
        assert "not installed docker (docker): docker/docker; no triggers: enabled by name alone\n" in out
        assert "  requires docker/docker: 'dockerd' is not installed\n" in out

    def test_names_a_servers_program_that_is_not_installed(self, run, tap, tmp_path):
        (tmp_path / "bin" / "npx").unlink()
        out = run("check", tap)[1]
        assert "not installed browser (chrome)" in out
        assert "  server chrome: the program 'npx' is not installed\n" in out

    def test_never_shows_a_variable_that_is_set(self, run, tap, monkeypatch):
        monkeypatch.setenv("SEARCH_KEY", "s3cret")
        code, out, err = run("check", tap)
        assert (code, "s3cret" in out + err) == (0, False)
        assert "2 ready" in out

    def test_fails_where_a_bundle_is_left_out_and_says_why(self, run, tap):
        write(tap / "capabilities", {"bad/x.toml": "deps = 1"})
        code, out, _ = run("check", tap)
        assert code == 1
        assert f"left out: {tap}/capabilities/bad/x.toml: deps: is a number; write a table\n" in out

    def test_shows_what_a_stranger_wrote_as_text_alone(self, run, tap):
        write(tap / "capabilities", {"odd/x.toml": '"\\u001b[2Jcolor [red]" = 1\n' + TOOLCHAIN})
        out = run("check", tap)[1]
        assert "\x1b" not in out
        assert "[2Jcolor [red]" in out

    def test_takes_another_provider(self, run, tap):
        write(tap / "capabilities", {"browser/other.toml": TOOLCHAIN, "browser/default.toml": "chrome"})
        assert "browser (other)" in run("check", tap, "--provider", "browser=other")[1]

    def test_takes_the_provider_that_the_settings_choose(self, run, tap, monkeypatch):
        write(tap / "capabilities", {"browser/other.toml": TOOLCHAIN, "browser/default.toml": "chrome"})
        monkeypatch.setenv("MCP_CAPABILITIES", "browser=other")
        assert "browser (other)" in run("check", tap)[1]

    def test_refuses_what_names_no_provider(self, run, tap):
        code, _, err = run("check", tap, "--provider", "browser")
        assert (code, "not NAME=PROVIDER" in err) == (2, True)

    def test_knows_a_gateways_own_servers(self, run, tap, tmp_path):
        write(tap / "capabilities", {"git/x.toml": '[roles.mcp]\nserver_refs = ["git"]\n'})
        config = tmp_path / "mcp.json"
        config.write_text(json.dumps({"mcpServers": {"git": {"command": "git-mcp"}}}))
        assert "unavailable git (x)" in run("check", tap)[1]
        assert "ready git (x): git;" in run("check", tap, "--config", config)[1]

    def test_refuses_a_folder_that_is_not_there(self, run, tmp_path):
        code, _, err = run("check", tmp_path / "gone")
        assert (code, "name the folder that has capabilities/, or that one" in err) == (2, True)

    def test_prints_json_for_programs(self, run, tap):
        told = json.loads(run("check", tap, "--json")[1])
        assert [(each["name"], each["state"]) for each in told["bundles"]] == [
            ("browser", "ready"),
            ("websearch", "unavailable"),
        ]
        assert json.loads(run("list", tap, "--json")[1]) == told


class TestList:
    def test_is_a_table_that_fits_80_columns(self, run, tap):
        code, out, _ = run("list", tap)
        assert code == 0
        assert max(map(len, out.split("\n")[:-2])) <= 80
        row = next(line for line in out.splitlines() if line.startswith("browser"))
        assert row.split() == ["browser", "Browser", "(Chrome)", "chrome", "chrome", "2", "ready"]

    def test_cuts_long_titles(self, run, tap):
        write(tap / "capabilities", {"docker/docker.toml": TOOLCHAIN.replace("Docker", "Containers " * 20)})
        out = run("list", tap)[1]
        assert (out.count("Containers"), out.count("…")) == (3, 1)

    def test_is_of_the_users_own_folder_where_none_is_named(self, run, tmp_path):
        write(tmp_path / "config" / "agent-utilities" / "capabilities", {"docker/docker.toml": TOOLCHAIN})
        assert "docker" in run("list")[1]

    def test_says_how_to_begin_where_there_is_nothing(self, run):
        code, out, _ = run("list")
        assert (code, "make one by `agent-utilities capabilities new NAME`" in out) == (0, True)


class TestNew:
    def test_writes_a_bundle_that_check_passes(self, run, tmp_path):
        code, out, _ = run("new", "world-clock", "--folder", tmp_path)
        assert code == 0
        assert f"made {tmp_path / 'world-clock'}" in out
        code, out, _ = run("check", tmp_path)
        assert code == 0
        assert "ready world-clock (world-clock): time; 5 triggers" in out
        assert "note:" not in out

    def test_writes_to_the_users_own_folder_where_none_is_named(self, run, tmp_path):
        run("new", "clock")
        assert (tmp_path / "config" / "agent-utilities" / "capabilities" / "clock" / "clock.toml").is_file()

    def test_writes_to_the_bundles_of_a_tap(self, run, tap):
        run("new", "clock", "--folder", tap)
        assert (tap / "capabilities" / "clock" / "config.toml").is_file()

    def test_overwrites_nothing(self, run, tap):
        before = (tap / "capabilities" / "browser" / "chrome.toml").read_text()
        code, _, err = run("new", "browser", "--folder", tap)
        assert (code, "already there" in err) == (2, True)
        assert (tap / "capabilities" / "browser" / "chrome.toml").read_text() == before

    def test_refuses_a_name_that_can_not_be_one(self, run, tmp_path):
        for name in ["../x", "a/b", "", "all", ".x", "default", "a b"]:
            code, _, err = run("new", "--folder", tmp_path, "--", name)
            assert (code, "not a capability's name" in err) == (2, True)
            assert [path.name for path in tmp_path.iterdir()] == ["bin"]

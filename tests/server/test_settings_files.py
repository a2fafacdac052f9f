"""Settings files: which are read, which holds, and what a project's file may not say."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_utilities.errors import InputError, SettingsError
from agent_utilities.selection.model import NOTHING
from agent_utilities.selection.parse import read_cli
from agent_utilities.server.surface.operator import Operator
from agent_utilities.settings import read_settings
from agent_utilities.settings_file import MAX_BYTES, user_folder

Write = Callable[..., Operator]


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write the user's file and the working folder's, and return the operator of a process that starts there."""
    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("MCP_CONFIG_FILE")
    monkeypatch.delenv("MCP_RANKER")
    monkeypatch.setenv("HOME", str(home))
    own = user_folder()
    own.mkdir(parents=True)

    def write(user: str | bytes | None = None, project: str | bytes | None = None, **environ: str) -> Operator:
        for path, content in ((own, user), (folder, project)):
            if content is not None:
                raw = content if isinstance(content, bytes) else content.encode()
                (path / "agent-utilities.toml").write_bytes(raw)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        return Operator()

    return write


def refused(operator: Operator) -> str:
    with pytest.raises(InputError) as error:
        _ = operator.selection, operator.settings
    return str(error.value)


class TestWhichAreRead:
    def test_the_working_folders_over_the_users(self, written):
        operator = written("list_ttl_ms = 1\nranker = 'off'\ntop_k = 1", "list-ttl-ms = 2\ntop_k = 2")
        assert (operator.settings.list_ttl_ms, operator.settings.ranker) == (2, "off")
        assert operator.effective(NOTHING).top_k_value == 2

    def test_the_environment_over_both(self, written):
        operator = written("list_ttl_ms = 1", "list_ttl_ms = 2", MCP_LIST_TTL_MS="3", MCP_TOP_K="4")
        assert (operator.settings.list_ttl_ms, operator.effective(NOTHING).top_k_value) == (3, 4)

    def test_the_command_line_over_all(self, written):
        operator = written("top_k = 1\nno_match = 'search'", "selection_policy = 'narrow'", MCP_TOP_K="2")
        assert operator.settings.no_match == "search"
        operator.launch(read_cli([("--top-k", "3")]), selection_policy="override", no_match="all")
        settings = operator.settings
        held = operator.effective(NOTHING).top_k_value, settings.selection_policy, settings.no_match
        assert held == (3, "override", "all")

    def test_none_beside_an_environment_that_is_given(self, written):
        written("top_k = 1")
        assert Operator({"HOME": os.environ["HOME"]}).selection == NOTHING

    def test_the_one_that_is_named_alone(self, written, tmp_path):
        (tmp_path / "mine.toml").write_text("top_k = 7")
        operator = written("top_k = 1", "list_ttl_ms = 2", MCP_CONFIG_FILE=str(tmp_path / "mine.toml"))
        assert (operator.effective(NOTHING).top_k_value, operator.settings.list_ttl_ms) == (7, 60_000)

    def test_none_where_none_is_to_be(self, written):
        for value in ["none", "NONE", "off"]:
            assert written("top_k = 1", "top_k = 2", MCP_CONFIG_FILE=value).selection == NOTHING

    def test_one_that_is_named_and_not_there_is_refused(self, written):
        assert "no such file: 'gone.toml' (from env MCP_CONFIG_FILE)" in refused(written(MCP_CONFIG_FILE="gone.toml"))

    def test_the_users_folder_as_working_folder_has_the_users_file(self, written, monkeypatch):
        operator = written("gateway_folder = '/kept'")
        monkeypatch.chdir(user_folder())
        assert operator.settings.gateway_folder == "/kept"
        assert len(operator.files.files) == 1

    def test_which_is_said_at_the_start(self, written):
        operator = written("", "")
        own = user_folder() / "agent-utilities.toml"
        assert operator.notices == [f"settings of {own}, agent-utilities.toml"]

    def test_a_change_after_the_start_changes_nothing(self, written):
        operator = written(None, "top_k = 1")
        assert operator.effective(NOTHING).top_k_value == 1
        written(None, "top_k = 2")
        operator.launch(NOTHING)
        assert operator.effective(NOTHING).top_k_value == 1


class TestWhatCannotBeRead:
    def test_is_refused_with_file_and_key_or_line(self, written):
        for content, said in [
            ("tools = [", "not TOML: 'Invalid value (at end of document)' (from file agent-utilities.toml)"),
            ("a = 1\nb = = 2", "line 2"),
            (b"a = '\xff'", "not UTF-8: 'line 1' (from file agent-utilities.toml)"),
            (b"#" * (MAX_BYTES + 1), "can't be read: 'over 1048576 bytes'"),
            ("list_ttl_ms = -1", "list_ttl_ms can't be read: '-1' (from file agent-utilities.toml: list_ttl_ms)"),
            ("list_ttl_ms = true", "list_ttl_ms can't be read: 'True' (from file agent-utilities.toml: list_ttl_ms)"),
            ("ranker = 'x'", "ranker can't be read: 'x' (from file agent-utilities.toml: ranker)"),
            ("ranker = 1979-05-27", "ranker can't be read"),
            ("rankers = 'x'", "unknown key: 'rankers' (from file agent-utilities.toml: rankers); did you mean ranker?"),
            ("top_k = 'x'", "not a positive integer: 'x' (from file agent-utilities.toml: top_k)"),
            (b"x = " + b"[" * 100_000, "nested too deeply"),
            (b"a" + b' . "a"' * 100_000 + b" = 1", "nested too deeply"),
        ]:
            assert said in refused(written(None, content))

    def test_is_refused_though_the_environment_stands_over_it(self, written):
        assert "ranker can't be read: 'x'" in refused(written(None, "ranker = 'x'", MCP_RANKER="off"))

    def test_in_the_users_file_names_that_file(self, written):
        own = user_folder() / "agent-utilities.toml"
        assert f"(from file {own}: ranker)" in refused(written("ranker = 'x'"))

    def test_a_folder_is_no_file(self, written):
        Path("agent-utilities.toml").mkdir()
        assert "(from file " in refused(written())

    @pytest.mark.skipif(sys.platform == "win32", reason="has no named pipes in folders")
    def test_a_pipe_is_no_file_and_nobody_waits_for_it(self, written):
        os.mkfifo("agent-utilities.toml")
        assert "no regular file" in refused(written())

    @pytest.mark.skipif(sys.platform == "win32", reason="needs symbolic links")
    def test_a_link_that_leads_nowhere_is_not_passed_over(self, written):
        Path("agent-utilities.toml").symlink_to("gone")
        assert "can't be read" in refused(written())

    def test_a_mark_of_utf_8_is_none(self, written):
        assert written(None, b"\xef\xbb\xbftop_k = 3").effective(NOTHING).top_k_value == 3


class TestAProjectsFile:
    def test_does_not_say_what_leads_out_or_lets_in(self, written):
        for line in [
            "selection_policy = 'override'",
            "allowed_hosts = '*'",
            "allowed_origins = ['https://evil.example']",
            "embeddings = 'https://evil.example/v1#m'",
            "embeddings = 'HTTP://evil.example#m'",
            "gateway_folder = 'agreed'",
            "graph_folder = '../graphs'",
            "usage_file = '/tmp/log'",
            "usage = 'words'",
            "usage = 'WORDS '",
            "usage_scope = 'server'",
            "usage_days = 3650",
            "usage_rows = 100",
            "strict = false",
            "strict = 'no'",
            "strict = 0",
        ]:
            said = refused(written(None, line))
            assert said.startswith("a project's file does not ")
            assert "None" not in said
            assert said.endswith("set it in your own file or in the environment")
            assert f"(from file agent-utilities.toml: {line.split()[0]})" in said

    def test_says_the_rest(self, written):
        for line in [
            "selection_policy = 'narrow'",
            "embeddings = 'minilm'",
            "embeddings = 'fastembed:BAAI/bge-small-en-v1.5'",
            "usage = 'off'",
            "usage = 'counts'",
            "strict = true",
            "graph = 'off'",
            "cache_mb = 1",
        ]:
            assert written(None, line).settings

    def test_the_users_own_says_all_of_it(self, written):
        settings = written("usage = 'words'\nusage_file = '/kept'\nallowed_hosts = ['a.example', '*.lan']").settings
        assert (settings.usage, settings.usage_file, settings.allowed_hosts) == ("words", "/kept", "a.example,*.lan")

    def test_has_no_more_logged_than_the_user_has(self, written):
        for user, project, held in [
            ("off", "counts", "off"),
            ("counts", "off", "off"),
            ("words", "counts", "counts"),
            ("auto", "counts", "auto"),
        ]:
            assert written(f"usage = '{user}'", f"usage = '{project}'").settings.usage == held

    def test_that_says_nonsense_of_logging_is_refused(self, written):
        for value in ["'nonsense'", "5", "true"]:
            assert isinstance(refused(written("usage = 'off'", f"usage = {value}")), str)

    def test_that_is_blank_leaves_what_the_user_has(self, written):
        settings = written("usage = 'off'\nranker = 'off'", "usage = ''\nranker = ' '\ngraph_folder = ''").settings
        assert (settings.usage, settings.ranker) == ("off", "off")

    def test_lifts_no_deny_and_no_read_only(self, written):
        own = "read_only = true\ndisabled_tags = ['write']"
        bounds = written(own, "read_only = false\ndisabled_tags = 'none'\ndisabled_tools = []").effective(NOTHING)
        assert bounds.read_only is not None
        assert [setting.value.spelled() for setting in bounds.deny_tags] == [("write",), ("none",)]


def test_an_error_is_one_of_settings(written):
    with pytest.raises(SettingsError):
        _ = written(None, "usage = 'words'").settings


def test_numbers_have_bounds():
    for name, least, most in [
        ("list_ttl_ms", 0, 86_400_000),
        ("queried_list_ttl_ms", 0, 86_400_000),
        ("first_list_s", 0, 600),
        ("cache_mb", 0, 65_536),
        ("graph_deadline_ms", 1, 60_000),
        ("usage_days", 1, 3_650),
        ("usage_rows", 100, 100_000_000),
        ("max_capabilities", 0, 64),
    ]:
        variable = f"MCP_{name.upper()}"
        for number in (least, most):
            assert getattr(read_settings({variable: str(number)}), name) == number
        for number in (least - 1, most + 1):
            with pytest.raises(SettingsError, match=variable):
                read_settings({variable: str(number)})

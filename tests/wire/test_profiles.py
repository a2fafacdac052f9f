"""Settings files and profiles, over every wire: the operator's bounds hold, and a caller's profile narrows."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_utilities.selection.channels import META_KEY
from tests.every import every
from tests.wire.expected import LEAKED, TOOLS
from tests.wire.processes import HttpProcess, Launch, served
from tests.wire.wires import HTTP_WIRES, Access, Caller, WireName, names, stdio_caller

pytestmark = pytest.mark.outside

FILE = """
disabled_tags = ["write", "delete"]
disabled_tools = "stray_tool"

[profiles.Review]
tools = ["read_note", "kid_peek", "wipe_notes"]
disabled_tools = ["kid_peek", "unheard_of"]

[profiles.reading]
tools = ["list_notes", "read_note", "wipe_notes"]

[profiles.wide]
tools = "all"
disabled_tags = "none"
read_only = false
"""
REVIEWED = ["read_note"]
READING = ["read_note", "list_notes"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with a settings file."""
    made = tmp_path_factory.mktemp("project")
    (made / "agent-utilities.toml").write_text(FILE, encoding="utf-8")
    return made


def launch_in(folder: Path, *options: str, **environ: str) -> Launch:
    return Launch((("MCP_CONFIG_FILE", ""), *environ.items()), options, folder=folder)


@pytest.fixture(scope="module")
def process(folder: Path) -> Iterator[HttpProcess]:
    """A server that was started in the folder."""
    with served(launch_in(folder)) as process:
        yield process


@pytest.fixture(scope="module")
def access(process: HttpProcess) -> Iterator[Access]:
    """A way into it."""
    with closing(Access(process.url)) as access:
        yield access


@every("http_wire", HTTP_WIRES)
def test_the_files_bounds_hold(access: Access, http_wire: WireName) -> None:
    with access.calling(http_wire, "?tools=all&disabled_tags=none") as caller:
        assert names(caller, "tools/list") == TOOLS


@every("http_wire", HTTP_WIRES)
@every("profile", ["review", "REVIEW", "Review"])
def test_a_profile_in_the_url_narrows(access: Access, http_wire: WireName, profile: str) -> None:
    with access.calling(http_wire, f"?profile={profile}") as caller:
        assert names(caller, "tools/list") == REVIEWED


@every("http_wire", HTTP_WIRES)
def test_a_profile_in_a_header_narrows(access: Access, http_wire: WireName) -> None:
    with access.calling(http_wire, headers=[("X-MCP-Profile", "review")]) as caller:
        assert names(caller, "tools/list") == REVIEWED


@every("http_wire", HTTP_WIRES)
def test_a_profile_in_the_meta_of_a_request_narrows_that_one(access: Access, http_wire: WireName) -> None:
    with access.calling(http_wire) as caller:
        assert [listed(caller, profile="review"), listed(caller)] == [REVIEWED, TOOLS]


@every("http_wire", HTTP_WIRES)
@every("query", ["", "&tools=all", "&tools=wipe_notes", "&read_only=false&disabled_tools=none&disabled_tags=none"])
def test_a_profile_never_widens(access: Access, http_wire: WireName, query: str) -> None:
    with access.calling(http_wire, f"?profile=wide{query}") as caller:
        assert set(names(caller, "tools/list")) <= set(TOOLS)
        called = caller.ask("tools/call", {"name": "wipe_notes"})
        assert called.refused
        assert LEAKED.encode() not in called.raw


@every("http_wire", HTTP_WIRES)
@every("profile", ["revie", "all", "*", "re*", "wide%00", "a%0Ab", "a,b", "%ff", "x" * 10_000])
def test_an_unknown_one_is_refused_whole_and_no_name_is_told(access: Access, http_wire: WireName, profile: str) -> None:
    with access.calling(http_wire, f"?profile={profile}") as caller:
        answer = caller.ask("tools/list")
        assert answer.status == 400
        assert b"review" not in answer.raw.lower()


def test_an_unknown_one_in_the_meta_is_an_error_of_its_parameters(access: Access) -> None:
    with access.calling("modern") as caller:
        error = caller.ask("tools/list", {"_meta": {META_KEY: {"profile": "revie"}}}).message["error"]
        assert error["code"] == -32602
        assert error["data"]["what"] == "unknown profile"
        assert "review" not in str(error).lower()


@every("http_wire", HTTP_WIRES)
def test_what_it_says_is_told_to_nobody(access: Access, http_wire: WireName) -> None:
    with access.calling(http_wire, "?profile=review") as caller:
        raw = caller.ask("tools/list").raw
        assert not [word for word in (b"unheard_of", b"kid_peek", b"agent-utilities.toml") if word in raw]


def test_the_plain_list_is_under_it(access: Access) -> None:
    body = access.http.get("/tools?profile=review", ()).json
    assert [tool["name"] for tool in body["tools"]] == REVIEWED


def test_the_plain_list_refuses_an_unknown_one(access: Access) -> None:
    assert access.http.get("/tools?profile=x", ()).status == 400


def test_an_operators_profile_bounds_every_caller_over_stdio_and_a_callers_narrows_it(folder: Path) -> None:
    with stdio_caller(launch_in(folder, "--profile", "READING")) as caller:
        assert [listed(caller), listed(caller, profile="wide"), listed(caller, tools=["all"])] == [READING] * 3
        assert [listed(caller, profile="none"), listed(caller, profile="review")] == [READING, REVIEWED]
        assert listed(caller) == READING


def test_a_bad_file_ends_the_launch_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "agent-utilities.toml").write_text("disabled_tool = 'x'")
    launch = launch_in(tmp_path)
    done = subprocess.run(
        launch.command(), env=launch.environ, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    source = "(from file agent-utilities.toml: disabled_tool)"
    said = f"error: unknown key: 'disabled_tool' {source}; did you mean disabled_tools?\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_the_start_says_which_file_was_read(process: HttpProcess) -> None:
    line = next(line for line in process.log.splitlines() if "tools permitted" in line)
    assert "agent-utilities.toml: disabled_tags delete,write (file)" in line
    assert "note: settings of agent-utilities.toml" in process.log.splitlines()


def listed(caller: Caller, **selection: Any) -> list[str]:
    result = caller.ask("tools/list", {"_meta": {META_KEY: selection}}).result
    return [tool["name"] for tool in result["tools"]]

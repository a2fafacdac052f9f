"""The starter tap: complete as its files say, and each of its servers as its registry has it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from agent_utilities.gateway.capabilities.router import CapabilityRouter
from agent_utilities.gateway.capabilities.servers import servers_of
from agent_utilities.gateway.capabilities.tap import read_capabilities, starter_tap
from agent_utilities.gateway.upstreams.configuration.variables import Reading
from tests.every import every

TAP = starter_tap()
NAMES = sorted(folder.name for folder in (TAP / "capabilities").iterdir())
PINNED = re.compile(r".[@=]=?\d+[\d.]*\d$")
"""A package with one version of it: `name@1.2.3` or `name==1.2.3`."""
STARTED = re.compile(r"(mcp|server)")
"""What is in the name of every package that is a server."""


@dataclass(frozen=True)
class Bundle:
    """One bundle, as its files say it."""

    config: dict[str, Any]
    provider: dict[str, Any]
    head: str

    @property
    def server(self) -> dict[str, Any]:
        """Its only server."""
        (server,) = self.provider["mcp"]["servers"]
        return dict(server)

    @property
    def allowed(self) -> list[str]:
        """Its patterns."""
        return list(self.provider["roles"]["mcp"]["allowed_tools"])


def bundle(name: str) -> Bundle:
    folder = TAP / "capabilities" / name
    text = (folder / (folder / "default.toml").read_text(encoding="utf-8").strip()).read_text(encoding="utf-8")
    config = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    return Bundle(config, tomllib.loads(text), text.partition("\n[")[0])


SAID = {
    "browser": "open the shop and click on the sign in button",
    "files": "list the files in the src directory",
    "git": "make a commit of my changes",
    "library-docs": "show the documentation of the requests library",
    "memory": "what did I tell you about my dog?",
    "spreadsheets": "sum up the amounts in my Excel sheet",
    "sqlite": "query the database for the top ten customers",
    "thinking": "think carefully about this problem",
    "time": "what time is it in Paris?",
    "weather": "what is the weather like in Munich?",
    "web-page": "read this web page for me: https://example.com",
    "web-search": "search the web for good restaurants in Rome",
}
"""What somebody may say who needs each of them, in words that are no trigger."""


@pytest.mark.anyio
async def test_what_needs_a_capability_is_nearest_to_it_by_words_alone() -> None:
    router = CapabilityRouter()
    router.use(read_capabilities([TAP]).triggers)
    await router.wait_until_ready()
    nearest = {name: (await router.route(said, frozenset(NAMES))).scores[0][0] for name, said in SAID.items()}
    router.close()
    assert nearest == {name: name for name in NAMES}


class TestFiles:
    def test_are_read_without_a_problem_or_a_notice(self):
        capabilities = read_capabilities([TAP])
        assert (sorted(capabilities.by_name), capabilities.problems, capabilities.notices) == (NAMES, (), ())

    def test_all_can_be_switched_on_where_no_variable_is_set(self, tmp_path):
        servers = servers_of(read_capabilities([TAP]), (), {"HOME": str(tmp_path)}, tmp_path)
        assert (sorted(servers.by_capability), servers.unavailable, servers.notices) == (NAMES, {}, [])

    def test_are_installed_with_the_package(self):
        assert (
            files("agent_utilities.gateway.capabilities") / "starter" / "capabilities" / "git" / "config.toml"
        ).is_file()

    def test_no_trigger_stands_twice(self):
        triggers = [trigger for name in NAMES for trigger in bundle(name).config["triggers"]]
        assert sorted(triggers) == sorted(set(triggers))

    def test_no_two_bundles_have_a_server_of_the_same_name(self):
        assert len({bundle(name).server["name"] for name in NAMES}) == len(NAMES)

    @pytest.mark.outside
    @every("script", sorted(TAP.glob("deps/*/*.sh")), ids=lambda script: script.stem)
    def test_an_installer_is_a_script_that_names_its_check(self, script):
        assert re.search(r"^# check: \w+$", script.read_text(encoding="utf-8"), re.MULTILINE)
        assert os.access(script, os.X_OK)
        assert subprocess.run(["bash", "-n", script], check=False).returncode == 0


def test_bundles_are_complete_and_pin_what_they_start() -> None:
    for name in NAMES:
        said, server = bundle(name), bundle(name).server
        assert 6 <= len(said.config["triggers"]) <= 8
        assert said.config["domains"]
        assert re.match(r"# Title: \S.*\n# Description: \S.*\.\n", said.head)
        assert said.allowed
        assert [each for each in said.allowed if not re.fullmatch(rf"{server['name']}:[\w-]+", each)] == []
        packages = [each for each in server["args"] if STARTED.search(each) and not each.startswith(("-", "$"))]
        assert packages
        assert [each for each in packages if not PINNED.search(each)] == []
        (required,) = said.provider["deps"]["require"]
        script = (TAP / "deps" / f"{required}.sh").read_text(encoding="utf-8")
        assert f"# check: {server['command']}\n" in script


def filled(server: dict[str, Any], folder: Path, environ: dict[str, str]) -> list[str]:
    """A server's arguments and the values of its environment, with every variable filled in."""
    reading = Reading(environ, folder, folder / "home")
    return [reading.fill(text) for text in (*server["args"], *server.get("env", {}).values())]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A folder under git, with a home folder in it."""
    folder = tmp_path / "repository"
    (folder / "home").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", folder], check=True)
    return folder


@pytest.mark.nightly
@pytest.mark.node
@pytest.mark.outside
@pytest.mark.anyio
@pytest.mark.timeout(300)
@every("name", NAMES)
async def test_each_server_starts_and_has_every_tool_that_is_wanted_of_it(name: str, repository: Path) -> None:
    server = bundle(name).server
    if shutil.which(server["command"]) is None:
        pytest.skip(f"{server['command']}, which starts it, is not here")
    given = filled(server, repository, dict(os.environ))
    args, values = given[: len(server["args"])], given[len(server["args"]) :]
    env = {**os.environ, **dict(zip(server.get("env", {}), values, strict=True))}
    with (repository / "stderr").open("w") as said:
        transport = StdioTransport(
            server["command"], args, env=env, cwd=str(repository), keep_alive=False, log_file=said
        )
        async with Client(transport) as client:
            tools = {tool.name for tool in await client.list_tools()}
    wanted = {pattern.partition(":")[2] for pattern in bundle(name).allowed}
    assert wanted - tools == set()

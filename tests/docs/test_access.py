"""The page on who may call: a team's afternoon, run as written but for the issuer's address, port and folder."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx2
import pytest

from tests.access.local_issuer import LocalIssuer
from tests.access.team import bearing
from tests.docs.tables import README
from tests.wire.processes import HttpProcess

TEXT = (README.parent / "docs/access.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent
ISSUER = "https://login.example"
ROLES = ("ann", "build-bot", "intern", "visitor")


class Afternoon:
    """A team's gateway, its folder, and what each of the team is let in by."""

    def __init__(self, folder: Path, issuer: LocalIssuer) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.folder, self.issuer = folder, issuer
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MCP_")}
        roots = {f"{agent}_AGENT_ROOTS": str(folder) for agent in ("GIT", "FILESYSTEM", "LOGS")}
        homes = {f"XDG_{kind}_HOME": str(folder / kind) for kind in ("CACHE", "STATE", "CONFIG")}
        path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        self.environ = {
            **kept,
            **roots,
            **homes,
            "PATH": path,
            "MCP_FIRST_LIST_S": "100",
            "MCP_GRAPH": "off",
            "COLUMNS": "200",
        }
        for name in ("mcp.json", "team.toml"):
            (folder / name).write_text(self.example(name))
        ann, bot = self.run("tokens").split()
        self.environ |= {"BUILD_BOT": bot, "MCP_CONFIG_FILE": "team.toml"}
        url = f"http://127.0.0.1:{self.port}/mcp"
        intern, visitor = (
            issuer.token(sub=sub, aud=url, groups=groups) for sub, groups in (("ida", ["interns"]), ("vic", []))
        )
        self.tokens = dict(zip(ROLES, (ann, bot, intern, visitor), strict=True))
        self.gateway = HttpProcess(shlex.split(self.example("serve")), self.environ, folder)

    def example(self, name: str) -> str:
        """Return an example of the page, for this issuer and port, and a folder that is not the repository's."""
        match = re.search(rf"<!-- example: {re.escape(name)} -->\n```\w+\n(.*?)```", TEXT, re.DOTALL)
        assert match is not None, f"the page has no example {name!r}"
        text = match[1].replace('"demo/', f'"{README.parent}/demo/')
        return text.replace(ISSUER, self.issuer.url).replace("8001", str(self.port))

    def run(self, name: str) -> str:
        """Return what an example prints."""
        command = ["bash", "-ec", self.example(name)]
        done = subprocess.run(command, env=self.environ, cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def get(self, path: str, headers: Mapping[str, str]) -> httpx2.Response:
        """Return the gateway's answer."""
        return httpx2.get(f"{self.gateway.url}{path}", headers=headers, timeout=60)

    def tools(self, role: str) -> list[dict[str, object]]:
        """Return what one of the team may use."""
        answer = self.get("/tools?tool_search=off", bearing(self.tokens[role])).json()
        tools: list[dict[str, object]] = answer["tools"]
        return tools


@pytest.fixture(scope="module")
def afternoon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Afternoon]:
    issuer = LocalIssuer()
    held = Afternoon(tmp_path_factory.mktemp("team"), issuer)
    try:
        held.gateway.wait()
        yield held
    finally:
        held.gateway.stop()
        issuer.down()


@pytest.mark.outside
@pytest.mark.xdist_group("afternoon")
class TestATeamsAfternoon:
    def test_ann_has_all_five_servers(self, afternoon: Afternoon) -> None:
        servers = {str(tool["name"]).partition("_")[0] for tool in afternoon.tools("ann")} - {"read"}
        assert servers == {"git", "files", "logs", "archive", "office"}

    def test_the_build_bot_has_two_of_them(self, afternoon: Afternoon) -> None:
        servers = {str(tool["name"]).partition("_")[0] for tool in afternoon.tools("build-bot")} - {"read"}
        assert servers == {"git", "logs"}

    def test_an_intern_has_what_reads(self, afternoon: Afternoon) -> None:
        reading = [tool["name"] for tool in afternoon.tools("ann") if tool["readOnly"]]
        assert [tool["name"] for tool in afternoon.tools("intern")] == reading

    def test_somebody_of_the_company_in_no_group_has_nothing(self, afternoon: Afternoon) -> None:
        assert afternoon.tools("visitor") == []

    def test_metrics_are_anns(self, afternoon: Afternoon) -> None:
        asked = [afternoon.get("/metrics", bearing(afternoon.tokens[role])).status_code for role in ROLES]
        assert asked == [200, 403, 403, 403]

    def test_who_comes_without_a_token_is_told_where_to_log_in(self, afternoon: Afternoon) -> None:
        refused = httpx2.post(f"{afternoon.gateway.url}/mcp", json={})
        place = re.search(r'resource_metadata="([^"]+)"', refused.headers["www-authenticate"])
        assert (refused.status_code, place is not None) == (401, True)
        assert place is not None
        assert httpx2.get(place[1]).json()["authorization_servers"] == [afternoon.issuer.url]

    def test_ann_can_ask_before_anybody_calls(self, afternoon: Afternoon) -> None:
        told = afternoon.run("test")
        assert "profile 'readers'" in told
        assert "not annotated readOnlyHint: true (rule 3 (team.toml, line" in told

    def test_the_build_bots_surface_is_explained(self, afternoon: Afternoon) -> None:
        assert "access: rule 2 holds" in afternoon.run("explain")

    def test_a_revoked_token_lets_nobody_in(self, afternoon: Afternoon) -> None:
        afternoon.run("revoke")
        afternoon.gateway.wait_for(re.compile("revoked: build-bot"))
        assert afternoon.get("/tools", bearing(afternoon.tokens["build-bot"])).status_code == 401
        assert afternoon.get("/tools", bearing(afternoon.tokens["ann"])).status_code == 200


def test_its_config_is_read_as_json() -> None:
    (config,) = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
    assert len(json.loads(config)["mcpServers"]) == 5

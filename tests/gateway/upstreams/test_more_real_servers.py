"""Servers that others wrote, each behind a gateway and directly: all that they list, and a call, are the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.differential.compare import first_difference
from tests.gateway.upstreams.direct import direct
from tests.gateway.upstreams.gateway_process import Gateway, gateway
from tests.gateway.upstreams.more_real_servers import PUBLISHED, Published, files
from tests.gateway.upstreams.real_servers import SERVERS
from tests.wire.wires import Caller, WireName

pytestmark = [pytest.mark.node, pytest.mark.outside]

ERAS: tuple[WireName, ...] = ("legacy", "modern")
TABLE = Path(__file__).with_name("README.md")
_OURS = {
    *("fastmcp", "agent-utilities/selection", "io.modelcontextprotocol/groups", "io.modelcontextprotocol/serverInfo"),
    "resultType",
}
"""Keys that say what is the gateway's to say, and, in the newer era, of what kind a result is."""
_OF_BEFORE = {"execution"}
"""Keys that tools of the newer era have not."""


def of(server: Published) -> Any:
    """Return a server as a test's argument: those that are not quick are tried at night."""
    return pytest.param(server, id=server.package, marks=() if server.is_quick else pytest.mark.nightly)


@contextmanager
def both(server: Published, folder: Path) -> Iterator[tuple[Caller, Gateway, Path]]:
    """Start a server, and a gateway before another process of it, and yield a caller of the one and the other."""
    if server.cannot:
        pytest.skip(f"{server.package} {server.version}: {server.cannot}")
    work = files(folder)
    entry = {name: server.entry(work, folder / name) for name in ("home", "home-of-gateway")}
    with direct(entry["home"]) as own, gateway({"mcpServers": {"it": entry["home-of-gateway"]}}, folder) as served:
        served.until_listed(["it"])
        yield own, served, work


@pytest.mark.timeout(600)
@pytest.mark.parametrize("server", [of(each) for each in PUBLISHED])
def test_what_it_lists_and_gives_is_the_same(server: Published, tmp_path: Path) -> None:
    with both(server, tmp_path) as (own, served, work):
        tools = own.ask("tools/list").result["tools"]
        call = {"name": server.tool, "arguments": server.given(work)}
        assert tools
        for era in ERAS:
            with served.calling(era) as caller:
                shown = caller.ask("tools/list").result["tools"]
                answer = caller.ask("tools/call", {**call, "name": f"it_{server.tool}"}).message
            given = own.ask("tools/call", call).message  # as often as through the gateway: some say more the first time
            whole = [{**tool, "name": f"it_{tool['name']}"} for tool in tools]
            for expected, got in ((whole, shown), (given, answer)):
                own_text, text = plain(expected, era), plain(got, era)
                assert text == own_text, first_difference(own_text, text)


def plain(value: Any, era: WireName) -> str:
    """Return a list or an answer without what is the gateway's to say, and wherever the server keeps its own."""
    ours = _OURS | (_OF_BEFORE if era == "modern" else set())
    return json.dumps(_without(ours, value), sort_keys=True).replace("home-of-gateway", "home")


def _without(keys: Set[str], value: Any) -> Any:
    if isinstance(value, list):
        return [_without(keys, each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {key: _without(keys, each) for key, each in value.items() if key not in keys}
    return {key: each for key, each in kept.items() if key != "_meta" or each}


class TestTable:
    def test_has_every_server_with_its_version(self) -> None:
        rows = [f"| {each.package} | {each.version} | {each.registry} |" for each in (*SERVERS, *PUBLISHED)]
        text = TABLE.read_text(encoding="utf-8")
        assert [row for row in rows if row not in text] == []

    def test_says_how_many_there_are(self) -> None:
        n_tried = len(SERVERS) + sum(not each.cannot for each in PUBLISHED)
        assert f"{n_tried} servers are tried" in TABLE.read_text(encoding="utf-8")

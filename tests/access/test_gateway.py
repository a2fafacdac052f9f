"""A gateway tells a caller whom a rule denies an upstream as much of it as if it were not there."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_utilities import AgentServer, create_gateway
from agent_utilities.gateway.upstreams.config import GatewayConfig
from agent_utilities.gateway.upstreams.folders import gateway_folder
from agent_utilities.gateway.upstreams.snapshot_store import SnapshotStore
from tests.access.team import Team
from tests.every import every
from tests.gateway.upstreams.snapshots import config, snapshot, tool
from tests.server.in_process import web_of
from tests.wire.wires import ACCEPT, INITIALIZE, modern_request

pytestmark = [pytest.mark.anyio, pytest.mark.outside]

RULES = """
[auth]
tokens = "{tokens}"

[profiles.outsiders]
disabled_toolsets = ["vault", "notion"]

[[access]]
who = {{ subject = "bob" }}
profile = "outsiders"

[[access]]
who = {{ subject = "ann" }}
profile = "all"
may = ["metrics"]
"""
GIT, VAULT, NOTION = config("git"), config("vault"), config("notion")
ASKED: list[tuple[str, dict[str, Any]]] = [
    ("server/discover", {}),
    *((f"{kind}/list", {}) for kind in ("tools", "prompts", "resources")),
    *(
        ("tools/list", {"_meta": {"agent-utilities/selection": {"toolsets": name}}})
        for name in ("vault", "notion", "x")
    ),
    *(("tools/list", {"_meta": {"agent-utilities/selection": {"query": words}}}) for words in ("open", "status")),
    *(("tools/call", {"name": name, "arguments": {}}) for name in ("vault_open", "vault_nothing", "notion_find")),
    *(
        ("tools/call", {"name": "tool_search", "arguments": {"query": q}})
        for q in ("open the vault", "select:vault_open")
    ),
    ("tools/call", {"name": "tool_search", "arguments": {"query": "open", "server": "vault"}}),
]


def gateway(folder: Path, *, has_denied: bool, **variables: str) -> AgentServer:
    """Return a gateway of upstreams that an earlier run has listed, and of one that was never reached; none runs."""
    store = SnapshotStore(gateway_folder("snapshots", str(folder)))
    for upstream, names in ((GIT, ("status", "log")), (VAULT, ("open", "close"))):
        store.load(upstream)
        store.save(snapshot(upstream, *map(tool, names), taken_at_s=time.time()))
    variables = {"MCP_GRAPH": "off", "MCP_GATEWAY_FOLDER": str(folder), **variables}
    upstreams = (GIT, VAULT, NOTION) if has_denied else (GIT,)
    return create_gateway(GatewayConfig(upstreams=upstreams), environ=variables)


async def transcript(web: httpx2.AsyncClient, who: dict[str, str]) -> list[str]:
    """Return what a caller is answered, by every way that they could ask of an upstream."""
    answers = []
    for method, params in ASKED:
        body, headers = modern_request(method, params)
        answers.append(await web.post("/mcp", json=body, headers={**dict(headers), **who}))
    answers.append(await web.post("/mcp", json=INITIALIZE, headers={**dict([ACCEPT]), **who}))
    body, headers = modern_request("tools/list")
    for name in ("vault", "notion", "git", "vaul"):
        answers.append(await web.post(f"/mcp/x/{name}", json=body, headers={**dict(headers), **who}))
    for path in ("/tools", "/context?definitions=true", "/ready", "/metrics"):
        answers.append(await web.get(path, headers=who))
    return [f"{each.status_code} " + re.sub(r'"(seconds|ms)":[0-9.e-]+', "", each.text) for each in answers]


@every("tool_search", ["off", "on"])
async def test_no_answer_moves_because_a_denied_upstream_is_there(tool_search: str, tmp_path: Path) -> None:
    team, told = Team(tmp_path, RULES), []
    bob, ann = team.token("bob"), team.token("ann")
    for has_denied in (True, False):
        variables = {"MCP_CONFIG_FILE": str(team.settings), "MCP_TOOL_SEARCH": tool_search}
        made = gateway(tmp_path / str(has_denied), has_denied=has_denied, **variables)
        async with web_of(made) as web:
            told.append(await transcript(web, bob))
            shown = await transcript(web, ann)
        assert any("vault_open" in answer for answer in shown) or not has_denied
    assert [each for each in zip(*told, strict=True) if each[0] != each[1]][:1] == []

"""What the operator denies is, for every caller, as if it were not there: twin gateways answer alike to the byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_utilities import AgentServer
from tests.access.team import Team
from tests.gateway.capabilities.learnt import all_that_is_learnt, caller_of, serving
from tests.gateway.capabilities.taps import faulty, tap_gateway, tiny, write_bundle

pytestmark = [pytest.mark.outside, pytest.mark.anyio]

WORDS = "open the vault of secrets"
TRIGGERS = (WORDS, f"please {WORDS}", f"{WORDS} now")


def twin(folder: Path, *, has_secret: bool, **environ: str) -> AgentServer:
    """Return a gateway of a tap that has the secret bundle, or has it not."""
    clock = ("what time is it in Tokyo", "tell the time in Tokyo", "the current time in Tokyo")
    write_bundle(folder / "tap", "clock", tiny("clock-server", "now"), triggers=clock, domains=["work"])
    if has_secret:
        write_bundle(folder / "tap", "secret", faulty("secret-server"), triggers=TRIGGERS, domains=["vaults"])
    (folder / "profiles.toml").write_text('[profiles.work]\ntool_search = "auto"\n')
    given = {"MCP_CONFIG_FILE": str(folder / "profiles.toml"), **environ}
    return tap_gateway(folder / "tap", folder / "state", **given)


async def learnt(gateway: AgentServer, mode: str, **headers: str) -> list[Any]:
    async with serving(gateway) as app, caller_of(app, mode, **headers) as caller:
        await caller.call("capability", {"action": "enable", "name": "clock"})
        all_learnt = await all_that_is_learnt(caller, "secret", WORDS, "secret-server_echo")
    # Pages of the whole server count what its operator permits, whatever a caller denies himself.
    whole = ("/ready", "/metrics") if headers else ()
    return [each for each in all_learnt if not (isinstance(each, list) and each and each[0] in whole)]


DENIES: list[tuple[dict[str, str], dict[str, str]]] = [
    ({"MCP_DISABLED_TOOLSETS": "secret-server"}, {}),
    ({"MCP_ENABLED_TOOLS": "clock-server,office"}, {}),
    ({}, {"x-mcp-profile": "work"}),
    ({"MCP_DISABLED_TOOLS": "secret-server_*"}, {}),
    ({"MCP_DISABLED_TAGS": "secret"}, {}),
    ({"MCP_ENABLED_TAGS": "clock,office"}, {}),
    ({"MCP_PROFILE": "work"}, {}),
    ({}, {"x-mcp-disabled-tags": "secret"}),
]
"""What an operator sets, and what a caller sends."""
N_BY_DAY = 3


@pytest.mark.parametrize(
    ("mode", "environ", "headers"),
    [
        pytest.param(mode, *deny, marks=[] if mode == by_day and i < N_BY_DAY else [pytest.mark.nightly])
        for i, deny in enumerate(DENIES)
        for by_day in ["legacy" if i % 2 else "auto"]
        for mode in ("legacy", "auto")
    ],
)
async def test_a_denied_capability_is_one_that_there_is_not(
    tmp_path: Path, mode: str, environ: dict[str, str], headers: dict[str, str]
) -> None:
    answers = [
        await learnt(twin(tmp_path / folder, has_secret=has_secret, **environ), mode, **headers)
        for folder, has_secret in (("with", True), ("without", False))
    ]
    assert answers[0] == answers[1]


RULES = """
[auth]
tokens = "{tokens}"

[profiles.outsiders]
disabled_tags = ["secret"]

[[access]]
who = {{ subject = "bob" }}
profile = "outsiders"
"""


@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.nightly)])
async def test_one_that_a_rule_denies_its_caller_is_one_that_there_is_not(tmp_path: Path, mode: str) -> None:
    team = Team(tmp_path, RULES)
    bob, environ = team.token("bob"), {"MCP_CONFIG_FILE": str(team.settings)}
    answers = [
        await learnt(twin(tmp_path / folder, has_secret=has_secret, **environ), mode, **bob)
        for folder, has_secret in (("with", True), ("without", False))
    ]
    assert answers[0] == answers[1]
    assert "clock" in str(answers[0])  # and so of what there is for them


async def test_one_that_is_not_denied_can_be_told_from_one_that_there_is_not(tmp_path: Path) -> None:
    answers = [
        await learnt(twin(tmp_path / folder, has_secret=has_secret), "legacy")
        for folder, has_secret in (("with", True), ("without", False))
    ]
    differ = [one for one, other in zip(*answers, strict=True) if one != other]
    assert len(differ) > len(answers[0]) / 2

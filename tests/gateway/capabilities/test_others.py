"""What one session has on is nothing to another: whether anybody has anything on can't be told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.every import every
from tests.gateway.capabilities.learnt import Caller, caller_of, serving
from tests.gateway.capabilities.taps import faulty, tap_gateway, tiny, write_bundle
from tests.gateway.capabilities.turns import at_rest
from tests.gateway.upstreams.processes import until
from tests.parts import upstreams_of

pytestmark = [pytest.mark.outside, pytest.mark.anyio]

WORDS = "open the vault of secrets"


async def learnt_beside(folder: Path, mode: str, *, other_has_it_on: bool) -> list[Any]:
    """Return what a caller learns of a capability that another session has on, or has not."""
    write_bundle(folder / "tap", "clock", tiny("clock-server", "now"))
    write_bundle(folder / "tap", "secret", faulty("secret-server"))
    gateway = tap_gateway(folder / "tap", folder / "state")
    async with serving(gateway) as app, caller_of(app) as other, caller_of(app, mode) as caller:
        await until(lambda: upstreams_of(gateway).upstreams["office"].snapshot is not None)
        for each in (caller, other):
            await each.ask("tools/list", {})
        if other_has_it_on:
            await other.call("capability", {"action": "enable", "name": "secret"})
            await at_rest(gateway, {})
            await other.call("secret-server_echo", {"text": "x"})
        return await learnt_without(caller)


async def learnt_without(caller: Caller) -> list[Any]:
    """Return what a caller learns who has nothing on, and says so with every request."""
    learnt = [
        await caller.ask("tools/list", {}),
        await caller.ask("tools/list", {}, query=WORDS),
        await caller.ask("tools/list", {}, pins="secret-server_echo", tool_search="on", query="echo"),
        await caller.ask("tools/list", {}, tools="secret-server,secret"),
        await caller.call("secret-server_echo", {"text": "x"}),
        await caller.call("tool_search", {"query": "echo"}, tool_search="on"),
        await caller.call("capability", {"action": "list"}),
        await caller.call("capability", {"action": "enable", "name": "clock"}),
        await caller.call("capability", {"action": "disable", "name": "clock"}),
    ]
    for method, params in (
        ("prompts/list", {}),
        ("prompts/get", {"name": "secret-server_greet", "arguments": {"name": "x"}}),
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("resources/read", {"uri": "note://a"}),
    ):
        learnt.append(await caller.ask(method, params))
    for path in ("/tools?explain=1", "/context", "/health", "/ready"):
        learnt.append(await caller.page(path))
    return [*learnt, list(caller.notices)]


@every("mode", ["legacy", "auto"])
async def test_nobody_can_tell_whether_another_session_has_anything_on(tmp_path: Path, mode: str) -> None:
    answers = [
        await learnt_beside(tmp_path / folder, mode, other_has_it_on=other_has_it_on)
        for folder, other_has_it_on in (("on", True), ("off", False))
    ]
    assert [pair for pair in zip(*answers, strict=True) if pair[0] != pair[1]] == []

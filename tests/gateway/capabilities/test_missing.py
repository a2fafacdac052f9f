"""What capabilities require and is not there is told, and nothing is installed that a caller did not enable."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from agent_utilities import AgentServer
from agent_utilities.gateway.capabilities.model import Capabilities
from tests.gateway.capabilities.capable import gateway, listed, offer, session
from tests.gateway.upstreams.processes import wait_until_gone
from tests.parts import capabilities_of

pytestmark = [pytest.mark.outside, pytest.mark.anyio]

MISSING = "'no-such-program' is not installed"


@pytest.fixture
def served(tmp_path: Path) -> AgentServer:
    script = tmp_path / "tap" / "deps" / "a" / "thing.sh"
    script.parent.mkdir(parents=True)
    script.write_text(f"# check: no-such-program\ntouch {tmp_path}/installed\n")
    offered = offer()
    known = dict(offered.capabilities.by_name)
    known["versioning"] = replace(known["versioning"], tap=tmp_path / "tap", require=("a/thing",))
    return gateway(tmp_path, replace(offered, capabilities=Capabilities(known)))


async def test_a_list_says_what_is_missing_of_which(served: AgentServer) -> None:
    async with session(served) as client:
        answer = await client.call_tool("capability", {"action": "list"})
    rows = {row["name"]: row for row in (answer.structured_content or {})["capabilities"]}
    (line,) = rows["versioning"]["missing"]
    assert MISSING in line
    assert "missing" not in rows["mail"]


async def test_what_words_switch_on_is_not_installed(served: AgentServer, tmp_path: Path) -> None:
    async with session(served) as client:
        await capabilities_of(served).switching.router.wait_until_ready()
        _, summary = await listed(client, q="please show the git log of this project")
        assert summary["capabilities"]["activated"] == ["versioning"]
    assert not (tmp_path / "installed").exists()


async def test_an_installer_ends_with_the_connection_of_who_asked(tmp_path: Path, served: AgentServer) -> None:
    script = tmp_path / "tap" / "deps" / "a" / "thing.sh"
    script.write_text("# check: no-such-program\nsetsid sleep 1000 &\necho pids $$ $!; wait\n")
    told: asyncio.Queue[str] = asyncio.Queue()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.put_nowait(message or "")

    allowed = replace(capabilities_of(served).switching.offer, allow_install=True)
    async with session(gateway(tmp_path / "other", allowed)) as client:
        arguments = {"action": "enable", "name": "versioning"}
        asked = asyncio.create_task(client.call_tool("capability", arguments, progress_handler=on_progress))
        while "pids" not in (line := await told.get()):
            pass
    asked.cancel()
    for word in line.split("pids")[1].split():
        await asyncio.to_thread(wait_until_gone, int(word))

"""Background tasks of a server that each caller logs in at themselves are asked for by their own login."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fastmcp.server.dependencies import get_access_token
from fastmcp.utilities.tasks import TaskConfig

from tests.background_tasks import tasks_extension
from tests.fleet.processes.replicas import until
from tests.gateway.logins import gateways
from tests.gateway.logins.gateways import asked, log_in, office
from tests.gateway.logins.issuers import mailbox
from tests.server.task_clients import TaskClient

pytestmark = [pytest.mark.anyio, pytest.mark.outside, pytest.mark.tasks, pytest.mark.timeout(60)]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def send() -> str:
    """Send one's own mail, in the background."""
    token = get_access_token()
    assert token is not None
    return f"sent by {token.claims['sub']}"


def slow_mailbox(url: str) -> Any:
    server, issuer = mailbox(url)
    server.add_extension(tasks_extension())
    server.tool(send, task=TaskConfig("required"))
    return server, issuer


async def test_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateways, "mailbox", slow_mailbox)
    async with office(tmp_path) as at:
        for token, account in ((at.ann, "ann@mail"), (at.bob, "bob@mail")):
            async with at.client(token) as client:
                await log_in(await asked(client), token, at_mail=account)
                await until(lambda client=client: has(client, "mail_send"))
        ann, bob = TaskClient(at.url, at.ann), TaskClient(at.url, at.bob)
        task = await asyncio.to_thread(ann.task, "mail_send")

        async def is_done() -> bool:
            return bool((await asyncio.to_thread(ann.get, task))["status"] == "completed")

        await until(is_done)
        ended = await asyncio.to_thread(ann.get, task)
        assert ended["result"]["content"][0]["text"] == "sent by ann@mail"
        assert (await asyncio.to_thread(bob.get, task))["message"] == f"Task {task} not found"


async def has(client: Any, tool: str) -> bool:
    return any(each.name == tool for each in await client.list_tools())

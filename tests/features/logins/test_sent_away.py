"""What anybody may send to a server before it knows them: a form, and browsers that are sent to log in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.requests import Request

from agent_utilities.features.logins import browser as module
from agent_utilities.features.logins.browser import SentAway, form_of
from agent_utilities.upstream.http.account import BrowserSteps

pytestmark = pytest.mark.anyio


def posted(body: bytes) -> Request:
    """Return a request that brings a form."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


class TestForm:
    async def test_has_blank_fields_and_any_text(self) -> None:
        assert await form_of(posted(b"a=1&b=&c=%C3%A4+b"), 100) == {"a": "1", "b": "", "c": "ä b"}

    async def test_of_too_many_bytes_or_fields_has_none(self) -> None:
        assert await form_of(posted(b"a=" + b"1" * 100), 100) == {}
        assert await form_of(posted(b"&".join(b"a%d=1" % i for i in range(1001))), 1 << 20) == {}


class TestBrowsersThatAreWaitedFor:
    async def test_are_bounded_and_the_oldest_is_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_N_AWAY", 3)
        away = SentAway(start)

        async def log_in(steps: BrowserSteps, state: str) -> str:
            steps.address.set_result(f"https://login.example/?state={state}")
            return (await steps.code).code

        tasks = []
        for state in "abcd":
            address, task = await away.send(lambda steps, state=state: log_in(steps, state), "cookie")
            assert address.endswith(state)
            tasks.append(task)
        await asyncio.wait(tasks[:1])
        assert [task.cancelled() for task in tasks] == [True, False, False, False]
        assert away.take_back(back("a"), "cookie") is None
        assert await taken(away.take_back(back("b"), "cookie")) == "of b"
        for task in tasks:
            task.cancel()


def start(work: Callable[[], Awaitable[Any]]) -> asyncio.Task[Any]:
    async def outcome() -> Any:
        return await work()

    return asyncio.create_task(outcome())


def back(state: str) -> Request:
    """Return what a browser asks that comes back from an authorization server."""
    query = f"state={state}&code=of+{state}".encode()
    return Request({"type": "http", "method": "GET", "headers": [], "query_string": query})


async def taken(task: asyncio.Task[Any] | None) -> Any:
    assert task is not None
    return await task

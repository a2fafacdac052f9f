"""Sending a person's browser to an authorization server, and taking it back: the same browser, once."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextvars import Context
from functools import partial
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

from mcp.shared.auth import AuthorizationCodeResult
from starlette.requests import Request

from agent_utilities.upstream.http.account import BrowserSteps, OwnLoginError, Start

ANSWER_S = 60.0
"""Seconds that an authorization server may take for its part of a step."""
_N_AWAY = 200
"""The most browsers that are waited for; where more are sent, the one that was sent the longest ago is given up."""
_N_FIELDS = 1_000


def start_in(group: asyncio.TaskGroup, context: Context, work: Callable[[], Awaitable[Any]]) -> asyncio.Task[Any]:
    """Start a task that knows nothing of the request that it is started in; see `Start`."""

    async def outcome() -> Any:
        try:
            return await work()
        except Exception as error:
            return error

    return group.create_task(outcome(), context=context.copy())


async def form_of(request: Request, most: int) -> dict[str, str]:
    """Return the fields of a form that was sent, blank ones too; none where it is longer than so many bytes."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            return {}
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_N_FIELDS))
    except ValueError:  # there are more, which take long to read
        return {}


def state_in(address: str) -> str:
    """Return the state that an authorization server is to send back; blank where there is none."""
    return parse_qs(urlsplit(address).query).get("state", [""])[0]


class SentAway:
    """Browsers that are at an authorization server, each with what waits for it to come back.

    Args:
        start: starts a task that ends with the server.
    """

    def __init__(self, start: Start) -> None:
        self._start = start
        self._waiting: dict[str, tuple[str, BrowserSteps, asyncio.Task[Any]]] = {}
        """By the state that the authorization server sends back."""
        self._begun: dict[asyncio.Task[Any], None] = {}
        """All that goes on, the oldest first: anybody may begin some."""

    async def send(self, work: Callable[[BrowserSteps], Awaitable[Any]], browser: str) -> tuple[str, asyncio.Task[Any]]:
        """Begin what has a browser log in; return the address that it is to be sent to, and what goes on meanwhile.

        Args:
            work: logs in; what it returns is what the task brings.
            browser: the cookie that the browser has.

        Returns:
            The address is empty where the work has ended, or come to nothing, before there was one.
        """
        steps = BrowserSteps()
        task = self._start(partial(work, steps))
        self._begun[task] = None
        task.add_done_callback(lambda _: self._begun.pop(task, None))
        if len(self._begun) > _N_AWAY:
            oldest = next(iter(self._begun))
            del self._begun[oldest]
            oldest.cancel()
        await asyncio.wait([task, steps.address], timeout=ANSWER_S, return_when=asyncio.FIRST_COMPLETED)
        if not steps.address.done():
            return "", task
        address = steps.address.result()
        state = state_in(address)
        if urlsplit(address).scheme not in ("http", "https") or not state:
            task.cancel()
            return "", task
        self._waiting[state] = browser, steps, task
        task.add_done_callback(lambda _: self._waiting.pop(state, None))
        return address, task

    def waits_for(self, state: str) -> bool:
        """Return whether a browser is to come back with this state."""
        return state in self._waiting

    def take_back(self, request: Request, browser: str) -> asyncio.Task[Any] | None:
        """Return what goes on now that a browser has come back; None for one that was not sent.

        Args:
            browser: its cookie; one that has another ends what waited.
        """
        given = request.query_params
        sent, steps, task = self._waiting.pop(given.get("state", ""), ("", None, None))
        if steps is None or task is None:
            return None
        if not sent or not secrets.compare_digest(sent.encode(), browser.encode()):
            task.cancel()
            return None
        if "code" in given:
            result = AuthorizationCodeResult(code=given["code"], state=given["state"], iss=given.get("iss"))
            steps.code.set_result(result)
        else:
            steps.code.set_exception(OwnLoginError(f"it was refused: {given.get('error', 'no reason')[:100]}"))
        return task

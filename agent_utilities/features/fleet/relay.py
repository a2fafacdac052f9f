"""Links of logins, whichever replica a browser reaches: a request goes on where the link was made, and back."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Coroutine
from contextlib import suppress
from hashlib import blake2b
from secrets import token_hex
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from agent_utilities.features.fleet.news import Topic
from agent_utilities.features.logins.browser import form_of
from agent_utilities.features.logins.links import N_FORM_BYTES, Elsewhere, spent
from agent_utilities.state.redis_state import RedisState, StateError
from agent_utilities.upstream.http.authorization import ANSWER_S, LOGIN_S

_MORE_S = 5.0
"""Seconds that another replica has beside what it gives an authorization server."""


class Relay(Topic, Elsewhere):
    """Hands requests to the replica that waits for them, sealed under the name of its inbox, and its answers back.

    What a login waits for stays with the replica that began it, and so does what judges who goes on with it.

    Args:
        start: starts a task that lasts no longer than the gateway.
    """

    def __init__(self, state: RedisState, start: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        super().__init__(state)
        self.key = state.name("inbox", token_hex(16))
        self._state, self._start, self._secret = state, start, state.derived("names of links")
        self._asked: dict[str, asyncio.Future[dict[str, Any]]] = {}

    def _name(self, state: str) -> str:
        digest = blake2b(state.encode("utf-8", "surrogatepass"), digest_size=16, key=self._secret)
        return self._state.name("link", digest.hexdigest())

    async def begun(self, state: str) -> None:
        name = self._name(state)
        with suppress(StateError):
            await self.ask(self.redis.set(name, self._state.sealed(name, self.key.encode()), ex=int(LOGIN_S)))

    async def answer(self, state: str, request: Request) -> Response | None:
        name, asked = self._name(state), token_hex(16)
        answer = self._asked[asked] = asyncio.get_running_loop().create_future()
        try:
            inbox = self._state.opened(name, await self.ask(self.redis.get(name)))
            if inbox is None or (to := inbox.decode()) == self.key:
                return None
            told = {
                "method": request.method,
                "path_params": dict(request.path_params),
                "query": request.url.query,
                "cookie": request.headers.get("cookie", ""),
                "form": await form_of(request, N_FORM_BYTES) if request.method == "POST" else {},
            }
            if not await self._send(to, {"id": asked, "from": self.key, "request": told}):
                return spent()
            async with asyncio.timeout(ANSWER_S + _MORE_S):
                back = await answer
        except (StateError, TimeoutError):
            told_why = "What replicas of this server share can't be reached now. Try again in a moment."
            return PlainTextResponse(told_why, 503, headers={"retry-after": "1", "cache-control": "no-store"})
        finally:
            del self._asked[asked]
        response = Response(b64decode(back["body"]), back["status"])
        response.raw_headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in back["headers"]]
        return response

    async def _send(self, inbox: str, message: dict[str, Any]) -> bool:
        """Send a message; return whether anybody is there.

        Raises:
            StateError: Redis did not answer.
        """
        sealed = self._state.sealed(inbox, json.dumps(message).encode())
        return bool(await self.ask(self.redis.publish(inbox, sealed)))

    def heard(self, message: bytes) -> None:
        if (opened := self._state.opened(self.key, message)) is None:
            return
        told = json.loads(opened)
        if "request" in told:
            self._start(self._serve(told))
        elif (asked := self._asked.get(told.get("id"))) is not None and not asked.done():
            asked.set_result(told)

    async def _serve(self, told: dict[str, Any]) -> None:
        asked, body = told["request"], urlencode(told["request"]["form"]).encode()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        scope = {
            "type": "http",
            "method": asked["method"],
            "path_params": asked["path_params"],
            "query_string": asked["query"].encode(),
            "headers": [(b"cookie", asked["cookie"].encode("latin-1"))],
        }
        response = await self.serve(Request(scope, receive))
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.raw_headers]
        back = {"id": told["id"], "status": response.status_code, "headers": headers}
        with suppress(StateError):
            await self._send(told["from"], {**back, "body": b64encode(bytes(response.body)).decode()})

"""Share callers' logins at upstreams between replicas, each sealed for its person, and relay login links' requests."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from hashlib import blake2b
from secrets import token_bytes, token_hex
from typing import Any
from urllib.parse import urlencode
from weakref import WeakValueDictionary

from pydantic import ValidationError
from redis.asyncio.client import Pipeline
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from agent_utilities.fleet.news import News, Topic
from agent_utilities.gateway.logins.browser import form_of
from agent_utilities.gateway.logins.links import N_FORM_BYTES, Elsewhere, spent
from agent_utilities.gateway.upstreams.http.account import Account, Kept, LoginStore, Name
from agent_utilities.gateway.upstreams.http.authorization import ANSWER_S, LOGIN_S
from agent_utilities.state.redis_state import RedisState, StateError

KIND = "login"
_KEPT_S = 180 * 24 * 3600
"""Seconds after its last use for which a login is kept, or the note that it has ended."""
_UNKNOWN = b"unknown"


class SharedLogins(LoginStore, Topic):
    """Logins in Redis, and in this machine's folder for when Redis does not answer.

    A login that has ended is kept as ended. So where Redis has none, as after a flush, this replica's copy holds and is
    written back. An entry that can't be opened counts as none: whoever may write to Redis can give nobody another
    person's login.

    Args:
        news: returns the channel to other replicas.
        start: starts a task that lasts no longer than the gateway; returns whether it did.
    """

    name = "logins"

    def __init__(
        self, state: RedisState, news: Callable[[], News], start: Callable[[Coroutine[Any, Any, None]], bool]
    ) -> None:
        LoginStore.__init__(self)
        Topic.__init__(self, state)
        self._state, self._news, self._start = state, news, start
        self._secret = state.derived("names of logins")
        self._accounts: WeakValueDictionary[str, Account] = WeakValueDictionary()
        """The accounts of people who are served here, by the digest that replicas publish."""
        self._unsaved: dict[Name, Kept | None] = {}
        """Logins that are published once Redis answers."""
        self._turn = asyncio.Lock()
        self._version: bytes | None = _UNKNOWN
        self._due: set[str] = set()
        self._is_following = False

    def _digest(self, name: Name) -> str:
        text = json.dumps(name).encode("utf-8", "surrogatepass")
        return blake2b(text, digest_size=16, key=self._secret).hexdigest()

    # -- one login -------------------------------------------------------------------------------------------------

    def follow(self, account: Account) -> None:
        self._accounts[self._digest(account.name)] = account

    async def load(self, name: Name, here: Kept | None) -> Kept | None:
        """Return a login as the fleet has it; where Redis has none or does not answer, as this replica does."""
        key = self._state.name(KIND, self._digest(name))
        try:
            if name in self._unsaved:
                kept = self._unsaved[name]
                await self._put(name, kept)
                return kept
            content = await self.ask(self.redis.getex(key, ex=_KEPT_S))
            if (opened := self._state.opened(key, content)) is None:
                if (kept := here or await super().load(name, None)) is not None:
                    await self._put(name, kept, is_first=content is None)
                return kept
            kept = Kept.model_validate_json(opened) if opened else None
        except StateError:
            return here or await super().load(name, None)
        except ValidationError:  # of another version
            return here
        if kept != here:
            await super().keep(name, kept)
        return kept

    async def keep(self, name: Name, kept: Kept | None) -> None:
        self._unsaved[name] = kept
        with suppress(StateError):
            await self._put(name, kept)
        await super().keep(name, kept)

    async def _put(self, name: Name, kept: Kept | None, *, is_first: bool = False) -> None:
        """Write a login to Redis, or its newer unsaved value; with `is_first` only where there is none yet.

        Raises:
            StateError: Redis did not answer.
        """
        digest = self._digest(name)
        key = self._state.name(KIND, digest)

        def write(at_once: Pipeline) -> None:
            text = kept.model_dump_json(by_alias=True, exclude_unset=True) if kept is not None else ""
            at_once.set(key, self._state.sealed(key, text.encode()), ex=_KEPT_S, nx=is_first)
            at_once.set(self.key, token_bytes(8))

        async with self._turn:
            if name in self._unsaved:
                kept, is_first = self._unsaved[name], False
            self._version = _UNKNOWN
            await self._news().tell(self, write, [digest.encode()])
            if name in self._unsaved and self._unsaved[name] is kept:
                del self._unsaved[name]

    def alone(self, name: Name) -> AbstractAsyncContextManager[None]:
        return self._state.alone("renewal", self._digest(name))

    # -- changes at other replicas ---------------------------------------------------------------------------------

    def heard(self, message: bytes) -> None:
        if (digest := message.decode("utf-8", "replace")) in self._accounts:
            self._version = _UNKNOWN
            self._due.add(digest)
            if not self._is_following:
                self._is_following = self._start(self._follow())

    async def _follow(self) -> None:
        try:
            while self._due:
                if (account := self._accounts.get(self._due.pop())) is not None:
                    await account.load()
        finally:
            self._is_following = False

    async def compare(self, news: News) -> None:
        version = await self.ask(self.redis.get(self.key))
        if version == self._version and not self._unsaved:
            return
        for account in list(self._accounts.values()):
            await account.load()
            if self._state.cause:
                raise StateError(self._state.cause)
        for name in list(self._unsaved):
            await self._put(name, self._unsaved[name])
        self._version = version


_MORE_S = 5.0
"""Seconds that another replica has to answer, beside those that it gives an authorization server."""


class Relay(Topic, Elsewhere):
    """Relays a login link's requests to the replica that made the link, sealed for its inbox, and the answers back.

    The state of a login stays at the replica that began it, which alone decides who may go on with it.

    Args:
        start: starts a task that lasts no longer than the gateway.
    """

    def __init__(self, state: RedisState, start: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        super().__init__(state)
        self.key = state.name("inbox", token_hex(16))
        self._state, self._start, self._secret = state, start, state.derived("names of links")
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}

    def _name(self, state: str) -> str:
        digest = blake2b(state.encode("utf-8", "surrogatepass"), digest_size=16, key=self._secret)
        return self._state.name("link", digest.hexdigest())

    async def begun(self, state: str) -> None:
        name = self._name(state)
        with suppress(StateError):
            await self.ask(self.redis.set(name, self._state.sealed(name, self.key.encode()), ex=int(LOGIN_S)))

    async def answer(self, state: str, request: Request) -> Response | None:
        name, request_id = self._name(state), token_hex(16)
        answer = self._waiting[request_id] = asyncio.get_running_loop().create_future()
        try:
            inbox = self._state.opened(name, await self.ask(self.redis.get(name)))
            if inbox is None or (to := inbox.decode()) == self.key:
                return None
            relayed = {
                "method": request.method,
                "path_params": dict(request.path_params),
                "query": request.url.query,
                "cookie": request.headers.get("cookie", ""),
                "form": await form_of(request, N_FORM_BYTES) if request.method == "POST" else {},
            }
            if not await self._send(to, {"id": request_id, "from": self.key, "request": relayed}):
                return spent()
            async with asyncio.timeout(ANSWER_S + _MORE_S):
                back = await answer
        except (StateError, TimeoutError):
            why = "What replicas of this server share can't be reached now. Try again in a moment."
            return PlainTextResponse(why, 503, headers={"retry-after": "1", "cache-control": "no-store"})
        finally:
            del self._waiting[request_id]
        return Response(b64decode(back["body"]), back["status"], headers=dict(back["headers"]))

    async def _send(self, inbox: str, message: dict[str, Any]) -> bool:
        """Send a message, and return whether anybody received it.

        Raises:
            StateError: Redis did not answer.
        """
        sealed = self._state.sealed(inbox, json.dumps(message).encode())
        return bool(await self.ask(self.redis.publish(inbox, sealed)))

    def heard(self, message: bytes) -> None:
        if (opened := self._state.opened(self.key, message)) is None:
            return
        received = json.loads(opened)
        if "request" in received:
            self._start(self._serve(received))
        elif (waiting := self._waiting.get(received.get("id"))) is not None and not waiting.done():
            waiting.set_result(received)

    async def _serve(self, received: dict[str, Any]) -> None:
        request, body = received["request"], urlencode(received["request"]["form"]).encode()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        scope = {
            "type": "http",
            "method": request["method"],
            "path_params": request["path_params"],
            "query_string": request["query"].encode(),
            "headers": [(b"cookie", request["cookie"].encode("latin-1"))],
        }
        response = await self.serve(Request(scope, receive))
        back = {"id": received["id"], "status": response.status_code, "headers": response.headers.items()}
        with suppress(StateError):
            await self._send(received["from"], {**back, "body": b64encode(bytes(response.body)).decode()})

"""The fleet: what replicas of a server share, from the operator's settings on."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, cast

from agent_utilities.catalog.model import ComponentKind
from agent_utilities.compat import left_out
from agent_utilities.compat.sdk_server import SESSION_PARTS
from agent_utilities.errors import SettingsError
from agent_utilities.fleet.news import Changes, News, Topic
from agent_utilities.fleet.sessions import SharedSessions
from agent_utilities.gateway.upstreams.sealed_store import read_key
from agent_utilities.policy.decision import Decision
from agent_utilities.runtime.process_io import read_whole, write_whole
from agent_utilities.runtime.waiting import in_daemon_thread
from agent_utilities.selection.merge import Narrowing
from agent_utilities.server.events import Event, TokensRevoked
from agent_utilities.server.feature import Feature
from agent_utilities.server.request import Request
from agent_utilities.server.stopping import guarded
from agent_utilities.state.redis_state import RedisState, SharedValues, StateError
from agent_utilities.usage.feature import Usage
from agent_utilities.usage.model import Call, Listed, Search
from agent_utilities.usage.model import Event as Logged
from agent_utilities.usage.redaction import without_secrets

if TYPE_CHECKING:
    from agent_utilities.gateway.feature import Upstreams
    from agent_utilities.server.agent_server import AgentServer

logger = logging.getLogger("agent_utilities.state")

_EVERY_S = 0.5
"""Seconds in which events wait to be sent together, and between two looks at what others sent."""
_MOST_WAITING = 2_000
_MOST_ENTRIES = 20_000
"""Of the stream, each of as many events as came together: the oldest go first."""
_MOST_READ = 100
_KINDS: dict[str, type[Call | Search | Listed]] = {kind.__name__: kind for kind in (Call, Search, Listed)}


class SharedUsage:
    """Sends what is logged here, and logs here what others send, each once; a new replica begins with what there is.

    Args:
        state: where the stream is.
        usage: logs it.
    """

    def __init__(self, state: RedisState, usage: Usage) -> None:
        self._state, self._usage, self._key = state, usage, state.name("usage")
        self._waiting: deque[Logged] = deque(maxlen=_MOST_WAITING)
        self._own = token_hex(8)
        usage.on_event = self._waiting.append

    async def run(self) -> None:
        """Send and read until cancelled; while Redis does not answer, what is logged here waits, up to a bound."""
        place = self._usage.path.with_name(f"{self._usage.path.name}.shared")
        last = await in_daemon_thread(partial(_read, place))
        while True:
            with suppress(StateError):
                await self._send()
                last = await self._take(last, place)
            await asyncio.sleep(_EVERY_S)

    async def _send(self) -> None:
        if not self._waiting:
            return
        events = list(self._waiting)
        content = await in_daemon_thread(partial(_written, events))
        fields = {"by": self._own, "events": self._state.sealed(self._key, content)}
        sending = self._state.redis.xadd(self._key, cast(Any, fields), maxlen=_MOST_ENTRIES, approximate=True)
        await self._state.ask(sending)
        for _ in events:  # what came meanwhile waits on
            self._waiting.popleft()

    async def _take(self, last: str, place: Path) -> str:
        """Log what others sent after an entry of the stream; return the last one, which is remembered."""
        log = self._usage.log
        if log is None:
            return last
        # Where nothing is asked redis-py's own `xread` leaves a coroutine behind that nobody awaits.
        reading = cast(Any, self._state.redis).execute_command("XREAD", "COUNT", _MOST_READ, "STREAMS", self._key, last)
        found = await self._state.ask(reading)
        entries = found[0][1] if found else []
        for _, fields in entries:
            if fields.get(b"by") != self._own.encode():
                opened = self._state.opened(self._key, fields.get(b"events"))
                for event in _events(opened or b"[]"):
                    log.record(event)
        if entries:
            last = entries[-1][0].decode()
            with suppress(OSError):
                await in_daemon_thread(partial(write_whole, place, last.encode()))
        return last


def _written(events: list[Logged]) -> bytes:
    """Return events as they are sent: without what looks like a secret, as the log has them."""
    told = []
    for event in events:
        if not isinstance(event, Listed) and event.request:
            event = replace(event, request=without_secrets(event.request))
        told.append({"kind": type(event).__name__, **asdict(event)})
    return json.dumps(told, ensure_ascii=False).encode("utf-8", "replace")


def _events(content: bytes) -> list[Logged]:
    """Return events as they were sent; those of a kind or with fields that are not known here are left out."""
    events: list[Logged] = []
    for told in json.loads(content):
        with suppress(KeyError, TypeError):
            events.append(_KINDS[told.pop("kind")](**told))
    return events


def _read(place: Path) -> str:
    try:
        text = read_whole(place, 100).decode("ascii").strip()
    except (OSError, ValueError):
        return "0"
    return text if text.replace("-", "").isdigit() else "0"


class Fleet(Feature):
    """Keeps what a server knows of its sessions in a Redis that its replicas share; bounds and rules come by files."""

    name = "fleet"
    hears: tuple[type[Event], ...] = (TokensRevoked,)

    def __init__(self, upstreams: Upstreams | None = None) -> None:
        self._upstreams = upstreams
        self._changes: Changes | None = None

    def attach(self, host: AgentServer) -> None:
        """Take what the operator names; nothing is connected yet.

        Raises:
            SettingsError: there is no secret key, or the URL is none of Redis.
        """
        super().attach(host)
        settings = host.surface.operator.settings
        key = read_key(settings.secret_key.get_secret_value(), settings.secret_key_file)
        try:
            host.state = RedisState(settings.state_url.get_secret_value(), settings.state_prefix, host.name, key)
        except ValueError as error:
            hint = "write it as redis://HOST:PORT/0, or rediss:// with certificates"
            raise SettingsError(
                f"the state's URL can't be used: {error}", "[hidden]", "env MCP_STATE_URL", hint
            ) from None
        self.state = host.state
        host.sessions.share = self._sessions = SharedSessions(self.state, host)
        host.replicated.share(host, self.state.derived("request state"), SharedValues(self.state, "values"))
        self._revocations = Revocations(self.state)
        topics: list[Topic] = [self._revocations]
        if self._upstreams is not None:
            from agent_utilities.gateway.feature import UpstreamsRenewed

            self._changes = Changes(self.state, self._upstreams.upstreams, host.start)
            self.hears = (TokensRevoked, UpstreamsRenewed)
            topics.append(self._changes)
            topics += self._share_logins()
        self._news = News(self.state, topics, self._sessions.write_back)

    def _share_logins(self) -> list[Topic]:
        """Have replicas share what callers log in at themselves."""
        from agent_utilities.fleet.logins import Relay, SharedLogins
        from agent_utilities.gateway.logins.feature import Logins

        if (logins := self.host.feature(Logins)) is None:
            return []
        store, relay = SharedLogins(self.state, lambda: self._news, self.host.start), Relay(self.state, self.host.start)
        logins.store, logins.elsewhere = store, relay
        return [store, relay]

    async def run(self) -> None:
        """Hear what other replicas tell, and share what is logged of usage, where anything is, until cancelled."""
        usage = self.host.feature(Usage)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._news.run())
                if usage is not None and usage.mode != "off":
                    group.create_task(guarded(SharedUsage(self.state, usage).run()))
        finally:
            await self.state.close()

    def notify(self, event: Event) -> None:
        """Tell other replicas of tokens that were revoked here, and of what upstreams list by now."""
        if isinstance(event, TokensRevoked):
            if self._revocations.add(event.hashes):
                self._news.compare()
        elif self._changes is not None:
            self.host.start(self._changes.renewed(self._news))

    # -- where Redis does not answer -------------------------------------------------------------------------------

    async def narrow(self, request: Request) -> Narrowing | None:
        """Refuse a request of a session where its state can't be had, and the operator wants that.

        Raises:
            StateError: Redis does not answer.
        """
        cause = self._sessions.cause_of(request.session)
        if request.session is not None and cause and self.host.surface.operator.settings.state == "required":
            raise StateError(cause)
        return await super().narrow(request)

    async def summary(self, request: Request, kind: ComponentKind, decision: Decision) -> Mapping[str, Any]:
        cause = self._sessions.cause_of(request.session)
        return {"state": {"cause": cause}} if cause else {}

    def health(self) -> Mapping[str, Any]:
        return {
            "state": {"status": "ready"} if not self.state.cause else {"status": "apart", "cause": self.state.cause}
        }

    def start_lines(self) -> Sequence[str]:
        return ["sessions, quotas and revocations are shared with other replicas", *left_out(SESSION_PARTS)]


_BYTES = 16
_N_MOST = 10_000
"""How many are read of what is kept, at most."""


class Revocations(Topic):
    """The tokens that any replica told to be revoked: there are only ever more.

    Kept and told is a hash that takes the operator's key, with a seal that takes it too: nothing can be learned of a
    token by it, and nobody else can have one refused.
    """

    name = "revocations"

    def __init__(self, state: RedisState) -> None:
        super().__init__(state)
        self._secret = state.derived("revocations")
        self._known: set[bytes] = set()
        state.is_revoked = self.is_revoked

    def is_revoked(self, sha256: str) -> bool:
        """Return whether a token with this hash was revoked."""
        return bool(self._known) and self._sealed(sha256) in self._known

    def add(self, hashes: Iterable[str]) -> bool:
        """Take note that tokens were revoked here; return whether that was not known."""
        new = {self._sealed(each) for each in hashes} - self._known
        self._known |= new
        return bool(new)

    def heard(self, message: bytes) -> None:
        """Take one that was revoked elsewhere."""
        if compare_digest(self._seal(message[:_BYTES]), message[_BYTES:]):
            self._known.add(message)

    async def compare(self, news: News) -> None:
        """Take those that are kept, and tell those that are not.

        Raises:
            StateError: Redis did not answer.
        """
        kept = set(await self.ask(cast(Any, self.redis.srandmember(self.key, _N_MOST))))
        for each in kept - self._known:
            self.heard(each)
        if lacking := self._known - kept:
            await news.tell(self, lambda at_once: at_once.sadd(self.key, *lacking), lacking)

    def _sealed(self, sha256: str) -> bytes:
        name = blake2b(sha256.encode(), digest_size=_BYTES, key=self._secret).digest()
        return name + self._seal(name)

    def _seal(self, name: bytes) -> bytes:
        return blake2b(name, digest_size=_BYTES, key=self._secret, person=b"seal").digest()

"""Replication: the state that replicas of a server share in Redis, as the operator's settings configure it."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path
from secrets import token_hex
from typing import Any, cast

from agent_utilities.catalog.model import ComponentKind
from agent_utilities.compat import left_out
from agent_utilities.compat.sdk_server import SESSION_PARTS
from agent_utilities.errors import SettingsError
from agent_utilities.fleet.news import Changes, News, Topic
from agent_utilities.fleet.sessions import SharedSessions
from agent_utilities.gateway.upstreams.sealed_store import read_key
from agent_utilities.policy.decision import Decision
from agent_utilities.runtime.process_io import read_whole, write_whole
from agent_utilities.runtime.waiting import guarded, in_daemon_thread
from agent_utilities.seam.events import Event, TokensRevoked, UpstreamsRenewed
from agent_utilities.seam.feature import Feature
from agent_utilities.seam.host import Host, RequestStates, SharedState, find
from agent_utilities.seam.request import Request, ResultRead
from agent_utilities.seam.session import Share
from agent_utilities.selection.merge import Narrowing
from agent_utilities.state.redis_state import RedisState, SharedValues, StateError
from agent_utilities.usage.feature import Usage, UsageLogged
from agent_utilities.usage.model import Call, Listed, Read, Search
from agent_utilities.usage.model import Entry as Logged
from agent_utilities.usage.redaction import without_secrets

logger = logging.getLogger("agent_utilities.state")

_EVERY_S = 0.5
"""Seconds between two batches of events, and between two reads of other replicas' events."""
_MOST_WAITING = 2_000
_MOST_ENTRIES = 20_000
"""The most entries of the stream, each a batch of events; the oldest are evicted first."""
_MOST_READ = 100
_KINDS: dict[str, type[Logged]] = {kind.__name__: kind for kind in (Call, Search, Listed, Read)}


class SharedUsage:
    """Replicates the usage log: sends this replica's events, and logs those of others once; a new one reads them all.

    Args:
        state: the Redis with the stream.
        usage: the feature with the log.
    """

    def __init__(self, state: RedisState, usage: Usage) -> None:
        self._state, self._usage, self._key = state, usage, state.name("usage")
        self._waiting: deque[Logged] = deque(maxlen=_MOST_WAITING)
        self._own = token_hex(8)
        self.note = self._waiting.append

    async def run(self) -> None:
        """Send and read until cancelled; while Redis does not answer, events wait, up to a bound."""
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
        """Log the events of others after an entry of the stream; store the last entry, and return it."""
        log = self._usage.log
        if log is None:
            return last
        # redis-py's own `xread` leaves a coroutine behind that nobody awaits, where `ask` sends nothing.
        reading = cast(Any, self._state.redis).execute_command("XREAD", "COUNT", _MOST_READ, "STREAMS", self._key, last)
        streams = await self._state.ask(reading)
        entries = streams[0][1] if streams else []
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
    """Encode events to be sent, without what looks like a secret, as in the log."""
    entries = []
    for event in events:
        if isinstance(event, Call | Search) and event.request:
            event = replace(event, request=without_secrets(event.request))
        entries.append({"kind": type(event).__name__, **asdict(event)})
    return json.dumps(entries, ensure_ascii=False).encode("utf-8", "replace")


def _events(content: bytes) -> list[Logged]:
    """Decode events that were sent; those with an unknown kind or unknown fields are left out."""
    events: list[Logged] = []
    for fields in json.loads(content):
        with suppress(KeyError, TypeError):
            events.append(_KINDS[fields.pop("kind")](**fields))
    return events


def _read(place: Path) -> str:
    try:
        text = read_whole(place, 100).decode("ascii").strip()
    except (OSError, ValueError):
        return "0"
    return text if text.replace("-", "").isdigit() else "0"


class Fleet(Feature):
    """Shares sessions, quotas, usage and revocations among replicas through Redis; bounds and rules come by files."""

    name = "fleet"
    hears = (TokensRevoked, UsageLogged, ResultRead, UpstreamsRenewed)
    before = ("access", "audit", "quotas", "usage", "logins")

    def __init__(self) -> None:
        self._changes: Changes | None = None
        self._usage: SharedUsage | None = None

    def attach(self, host: Host) -> None:
        """Configure the shared state by the operator's settings; nothing is connected yet.

        Raises:
            SettingsError: there is no secret key, or the URL is not one of Redis.
        """
        super().attach(host)
        settings = host.operator.settings
        key = read_key(settings.secret_key.get_secret_value(), settings.secret_key_file)
        try:
            self.state = RedisState(settings.state_url.get_secret_value(), settings.state_prefix, host.name, key)
        except ValueError as error:
            hint = "write it as redis://HOST:PORT/0, or rediss:// with certificates"
            raise SettingsError(
                f"the state's URL can't be used: {error}", "[hidden]", "env MCP_STATE_URL", hint
            ) from None
        self._sessions = SharedSessions(self.state)
        states = RequestStates(self.state.derived("request state"), SharedValues(self.state, "values"))
        host.offer(SharedState, lambda: SharedState(self.state))
        host.offer(Share, lambda: self._sessions)
        host.offer(RequestStates, lambda: states)
        self._revocations = Revocations(self.state)
        topics: list[Topic] = [self._revocations]
        if any(each.name == "upstreams" for each in host.offered(Feature)):  # else nothing of a gateway is imported
            from agent_utilities.gateway.feature import Upstreams

            self._changes = Changes(self.state, self.host.offered(Upstreams)[0].upstreams, host.start)
            topics += [self._changes, *self._share_logins()]
        self._news = News(self.state, topics, self._sessions.write_back)

    def _share_logins(self) -> list[Topic]:
        """Share callers' own logins among replicas."""
        from agent_utilities.fleet.logins import Relay, SharedLogins
        from agent_utilities.gateway.logins.links import Elsewhere
        from agent_utilities.gateway.upstreams.http.account import LoginStore

        if all(each.name != "logins" for each in self.host.offered(Feature)):
            return []
        store, relay = SharedLogins(self.state, lambda: self._news, self.host.start), Relay(self.state, self.host.start)
        self.host.offer(LoginStore, lambda: store)
        self.host.offer(Elsewhere, lambda: relay)
        return [store, relay]

    async def run(self) -> None:
        """Receive other replicas' notices, and share the usage log if there is one, until cancelled."""
        usage = find(self.host, Usage)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._news.run())
                if usage is not None and usage.mode != "off":
                    self._usage = SharedUsage(self.state, usage)
                    group.create_task(guarded(self._usage.run()))
        finally:
            self._usage = None
            await self.state.close()

    def notify(self, event: Event) -> None:
        """Notify other replicas of tokens that were revoked here, and of changed lists of upstreams."""
        match event:
            case TokensRevoked(hashes) if self._revocations.add(hashes):
                self._news.compare()
            case UsageLogged(logged) if self._usage is not None:
                self._usage.note(logged)
            case ResultRead(tool, projection, tokens, selected) if self._usage is not None:
                self._usage.note(Read(time.time_ns() // 10**6, self.host.name, tool, projection, tokens, selected))
            case UpstreamsRenewed() if self._changes is not None:
                self.host.start(self._changes.renewed(self._news))

    # -- where Redis does not answer -------------------------------------------------------------------------------

    async def narrow(self, request: Request) -> Narrowing | None:
        """Refuse a request of a session whose state can't be read, where the operator requires it.

        Raises:
            StateError: Redis does not answer.
        """
        cause = self._sessions.cause_of(request.session)
        if request.session is not None and cause and self.host.operator.settings.state == "required":
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
"""The most stored revocations that are read at once."""


class Revocations(Topic):
    """The set of tokens that any replica revoked; it only grows.

    A token is stored and sent as a hash keyed by the operator's key, with a seal by the same key: it reveals nothing of
    the token, and nobody without the key can have a token refused.
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
        """Record tokens that were revoked here; return whether any of them is new."""
        new = {self._sealed(each) for each in hashes} - self._known
        self._known |= new
        return bool(new)

    def heard(self, message: bytes) -> None:
        """Record a token that was revoked elsewhere."""
        if compare_digest(self._seal(message[:_BYTES]), message[_BYTES:]):
            self._known.add(message)

    async def compare(self, news: News) -> None:
        """Read the stored revocations, and send those that are missing there.

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

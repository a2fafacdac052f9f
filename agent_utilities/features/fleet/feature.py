"""The fleet: what replicas of a server share, from the operator's settings on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent_utilities.catalog.model import ComponentKind
from agent_utilities.compat import left_out
from agent_utilities.compat.sdk_server import SESSION_PARTS
from agent_utilities.errors import SettingsError
from agent_utilities.features.fleet.news import News, Topic
from agent_utilities.features.fleet.revocations import Revocations
from agent_utilities.features.fleet.sessions import SharedSessions
from agent_utilities.features.fleet.usage import SharedUsage
from agent_utilities.features.usage.feature import Usage
from agent_utilities.mcp.events import Event, TokensRevoked
from agent_utilities.mcp.feature import Feature
from agent_utilities.mcp.lifespan import guarded
from agent_utilities.mcp.request import Request
from agent_utilities.selection.merge import Narrowing
from agent_utilities.state.redis_state import RedisState, StateError
from agent_utilities.state.shared_values import SharedValues
from agent_utilities.upstream.sealed_store import read_key
from agent_utilities.visibility.decision import Decision

if TYPE_CHECKING:
    from agent_utilities.features.fleet.changes import Changes
    from agent_utilities.features.upstreams.feature import Upstreams
    from agent_utilities.mcp.agent_server import AgentServer


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
            from agent_utilities.features.fleet.changes import Changes
            from agent_utilities.features.upstreams.feature import UpstreamsRenewed

            self._changes = Changes(self.state, self._upstreams.upstreams, host.start)
            self.hears = (TokensRevoked, UpstreamsRenewed)
            topics.append(self._changes)
            topics += self._share_logins()
        self._news = News(self.state, topics, self._sessions.write_back)

    def _share_logins(self) -> list[Topic]:
        """Have replicas share what callers log in at themselves."""
        from agent_utilities.features.fleet.logins import SharedLogins
        from agent_utilities.features.fleet.relay import Relay
        from agent_utilities.features.logins.feature import Logins

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

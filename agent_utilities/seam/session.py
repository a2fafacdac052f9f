"""One session of the handshake era: what features keep of it, and how its client is notified."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, TypeVar

import mcp_types
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext

from agent_utilities.compat.sdk_server import connection_of
from agent_utilities.seam.verdict import Verdict

NOTICE_S = 10.0
"""Seconds that a client may take to read a notice."""
logger = logging.getLogger("agent_utilities.wire")

_V = TypeVar("_V")
Step = tuple[str, Any, Callable[[Any], Any]]
"""A change of what a feature keeps: the feature's name, the initial value, and a pure function."""


class Share:
    """Shares the sessions of a server among its replicas; a feature implements each method."""

    kinds: Mapping[str, type] = {}
    """The dataclass of what each feature keeps of a session, by the feature's name."""
    here: Mapping[str, Any] = {}
    """The SDK's transports of the sessions that are open at this replica, by their clients' ids."""

    def name_of(self, protocol_id: str) -> str:
        """Return the internal name of a session, by its client's id."""
        raise NotImplementedError

    async def fetch(self, session: Session) -> None:
        """Merge in the changes that other replicas made to a session; never fails, and never waits for long."""

    async def put(self, session: Session, about: SessionRecord) -> None:
        """Publish the changes that a request made to a session; never fails, and never waits for long."""

    async def record_of(self, protocol_id: str, *, is_known: bool) -> SessionRecord | None:
        """Return the record that opens a session unknown to this replica; None where there is none, or it is known.

        Raises:
            OSError: the shared state gave no answer, and the session is unknown here.
        """
        return None

    async def forget(self, protocol_id: str) -> None:
        """End a session at every replica, since its client has ended it."""


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """What a replica needs to open a session that another one opened.

    Args:
        owner: the credentials that it was opened with.
        version: the protocol's version.
        params: the handshake's parameters, as the client sent them.
    """

    owner: tuple[object, ...]
    version: str
    params: Mapping[str, Any]


ENDED = SessionRecord((), "", {})
"""The record of a session that its client has ended."""


class Session:
    """One session; its id is random or shared by replicas, and reveals nothing of the protocol's own id."""

    def __init__(self, session_id: str = "") -> None:
        self.id = session_id or token_hex(8)
        self.steps: list[Step] | None = None
        """The changes since its values were last shared with replicas; None where they are not shared."""
        self.is_over = False
        """Whether its connection has ended; then nothing is started for it any more."""
        self.values: Mapping[str, Any] = {}
        """All that features keep of it, by feature; replaced as a whole."""

    def get(self, feature: str, default: _V) -> _V:
        """Return what a feature keeps of the session, or the default."""
        value: _V = self.values.get(feature, default)
        return value

    def update(self, feature: str, default: _V, step: Callable[[_V], _V]) -> _V:
        """Apply a pure step to what a feature keeps, and return what it keeps from now on.

        Args:
            default: what the step is applied to where nothing is kept yet.
            step: returns the next value; it may be called again on a newer one.
        """
        while True:
            values = self.values
            before: _V = values.get(feature, default)
            after = step(before)
            if after is before:
                return after
            if self.values is values:
                self.values = {**values, feature: after}
                if self.steps is not None:
                    self.steps.append((feature, default, step))
                return after

    def renew(self, values: Mapping[str, Any]) -> None:
        """Take another replica's values, and apply the changes made here since they were last shared."""
        self.values = values
        steps, self.steps = self.steps or [], []
        for step in steps:
            self.update(*step)
        self.steps = steps

    def as_it_stands(self) -> Session:
        """Return a detached copy with the same values, for reports."""
        other = Session()
        other.values, other.is_over = self.values, True
        return other


class Client:
    """The client of one request, on a connection that notices of changes are sent on.

    Args:
        ctx: the request's.
        tell_tools: notifies the connection's client that its list of tools changed, outside any request.
        heard: records the verdict that holds for the client from now on.
    """

    def __init__(
        self,
        ctx: ServerRequestContext[Any, Any],
        tell_tools: Callable[[Connection], None],
        heard: Callable[[Connection, Verdict, None], None],
    ) -> None:
        self.ctx, self._tell_tools, self._heard = ctx, tell_tools, heard

    @property
    def version(self) -> str:
        """The protocol's version that the client speaks."""
        return str(self.ctx.protocol_version)

    def note(self, verdict: Verdict) -> None:
        """Record the verdict that holds for it from now on, so that it is notified of changes to its lists."""
        self._heard(connection_of(self.ctx.session), verdict, None)

    async def tell_changed(self) -> None:
        """Notify it that the list of tools changed: on the call's own stream where it has one, before the result."""
        has_stream = self.ctx.session.can_send_request  # an answer in JSON holds nothing but the answer
        related = self.ctx.request_id if has_stream else None
        try:
            async with asyncio.timeout(NOTICE_S):
                await self.ctx.session.send_notification(mcp_types.ToolListChangedNotification(), related)
        except TimeoutError:
            logger.warning("a client read no notice for %s s; its list changed all the same", NOTICE_S)

    def tell_later(self) -> None:
        """Notify it that the list of tools changed, outside any request."""
        self._tell_tools(connection_of(self.ctx.session))

"""Updates of upstreams' resources for callers of both eras: one subscription at an upstream serves all callers."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import mcp_types
from mcp.client.subscriptions import listen
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from agent_utilities.compat.fastmcp_server import low_level_server
from agent_utilities.compat.sdk_server import connection_of
from agent_utilities.gateway.components import UpstreamReadable
from agent_utilities.gateway.relay import ServerRelay
from agent_utilities.gateway.upstreams.connections.session import UpstreamSession
from agent_utilities.gateway.upstreams.errors import UpstreamError
from agent_utilities.gateway.upstreams.supervision.upstream import Upstream
from agent_utilities.seam.host import Host, Notices, Pending
from agent_utilities.seam.request import request_in_force

logger = logging.getLogger("agent_utilities.gateway")

MOST, MOST_OF_ONE = 1_000, 100
"""The most subscriptions at upstreams, and the most resources of one session or stream."""
_AGAIN_S, _SELDOM_S = 1.0, 60.0
"""Seconds until a subscription that ended is made again: at first, and at most; they double each time."""
_UNSUBSCRIBE_S = 5.0
"""Seconds that an upstream may take to end a subscription."""
_STATE = "agent-utilities/subscribed"
"""The key of a connection's state for its client's subscriptions: by URI, the function that ends each."""

_Context = ServerRequestContext[Any, Any]
_Key = tuple["Upstream", str, str]
"""An upstream, its own URI of a resource, and a key of the connection that carries the updates."""


@dataclass(eq=False)
class _Held:
    """A subscription at an upstream: the task that keeps it, whether it was accepted, and its users by URI here."""

    task: asyncio.Task[None]
    is_taken: asyncio.Future[None]
    here: Counter[str] = field(default_factory=Counter)
    has_news: bool = False


def tells_updates(upstream: Upstream) -> bool:
    """Whether callers can subscribe to an upstream's resources: only where all callers are served alike."""
    snapshot, config = upstream.snapshot, upstream.config
    resources = snapshot.capabilities.get("resources") if snapshot is not None else None
    is_shared = not (config.isolate or config.forward_headers or config.credentials == "caller")
    return is_shared and isinstance(resources, dict) and resources.get("subscribe") is True


def _nothing() -> None:
    pass


def _ends(connection: Connection) -> dict[str, Callable[[], None]]:
    """Return the functions that end each subscription of a connection's client, by URI; its end calls all of them."""
    if (ends := connection.state.get(_STATE)) is None:
        ends = connection.state[_STATE] = {}
        connection.exit_stack.callback(lambda: [end() for end in ends.values()])
    return cast(dict[str, Callable[[], None]], ends)


class Subscriptions:
    """Subscribes at upstreams to the resources that callers subscribe to, and forwards updates to who may read them."""

    def __init__(self, host: Host, pending: Pending) -> None:
        self._host, self._pending = host, pending
        (self._notices,) = host.offered(Notices)
        self._held: dict[_Key, _Held] = {}
        sdk = low_level_server(host)
        sdk.add_request_handler("resources/subscribe", mcp_types.SubscribeRequestParams, self._subscribe)
        sdk.add_request_handler("resources/unsubscribe", mcp_types.UnsubscribeRequestParams, self._unsubscribe)
        sdk.add_request_handler("subscriptions/listen", mcp_types.SubscriptionsListenRequestParams, self._listen)

    # -- the callers' side -------------------------------------------------------------------------------------------

    async def _subscribe(self, ctx: _Context, params: mcp_types.SubscribeRequestParams) -> mcp_types.EmptyResult:
        """Subscribe the client of a session, up to 2025-11-25."""
        connection = connection_of(ctx.session)
        uri, ends = str(params.uri), _ends(connection)
        if uri in ends:
            return mcp_types.EmptyResult()
        if len(ends) >= MOST_OF_ONE or not connection.has_standalone_channel:
            raise MCPError(mcp_types.INVALID_REQUEST, f"a session hears of {MOST_OF_ONE} at most, if it lasts")
        ends[uri] = _nothing
        self._notices.hears(connection, ends)
        try:
            end = await self._begin(ctx, uri)
            if end is None:
                raise MCPError(mcp_types.INVALID_PARAMS, f"no updates of {uri!r} are told")
        except BaseException:
            del ends[uri]
            raise
        ends[uri] = end
        return mcp_types.EmptyResult()

    async def _unsubscribe(self, ctx: _Context, params: mcp_types.UnsubscribeRequestParams) -> mcp_types.EmptyResult:
        _ends(connection_of(ctx.session)).pop(str(params.uri), _nothing)()
        return mcp_types.EmptyResult()

    async def _listen(
        self, ctx: _Context, params: mcp_types.SubscriptionsListenRequestParams
    ) -> mcp_types.SubscriptionsListenResult:
        """Serve a stream of 2026-07-28, which acknowledges the resources that were subscribed to."""
        wished = list(dict.fromkeys(params.notifications.resource_subscriptions or ()))[:MOST_OF_ONE]
        if wished and (request := request_in_force()) is not None:
            await self._pending.wait_for_first(request.selection, "resource", wished[0])
        with ExitStack() as stack:

            async def is_begun(uri: str) -> bool:
                try:
                    end = await self._begin(ctx, uri)
                except MCPError:
                    return False
                if end is not None:
                    stack.callback(end)
                return end is not None

            begun = await asyncio.gather(*map(is_begun, wished))
            kept = [uri for uri, is_kept in zip(wished, begun, strict=True) if is_kept]
            taken = params.notifications.model_copy(update={"resource_subscriptions": kept or None})
            return await self._notices.listen(ctx, params.model_copy(update={"notifications": taken}))

    async def _begin(self, ctx: _Context, uri: str) -> Callable[[], None] | None:
        """Subscribe to a resource, and return a function that ends that; None where the caller can't have updates.

        Raises:
            MCPError: its upstream refused, or could not be reached.
        """
        if (resource := await self._host.component("resource", uri)) is None:
            return None
        if not isinstance(resource, UpstreamReadable):
            return _nothing  # the author's own, who publishes its updates
        if not tells_updates(resource.caller.upstream):
            return None
        context = SimpleNamespace(request_context=ctx, fastmcp=self._host)
        return await self._hold(resource, uri, ServerRelay(cast(Any, context)))

    # -- the upstreams' side -----------------------------------------------------------------------------------------

    async def _hold(self, resource: UpstreamReadable, uri: str, relay: ServerRelay) -> Callable[[], None]:
        upstream, original = resource.caller.upstream, resource.original(uri)
        # Up to 2025-11-25 clients with other capabilities are served on other connections.
        is_of_before = upstream.snapshot is None or upstream.snapshot.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS
        key = upstream, original, str(relay.capabilities) if is_of_before else ""
        if (held := self._held.get(key)) is None:
            if len(self._held) >= MOST:
                raise MCPError(mcp_types.INTERNAL_ERROR, f"{MOST} subscriptions are held, as many as there may be")
            is_taken = asyncio.get_running_loop().create_future()
            held = self._held[key] = _Held(asyncio.create_task(self._keep(key, relay, is_taken)), is_taken)
        held.here[uri] += 1
        end = partial(self._end, key, held, uri)
        try:
            await asyncio.shield(held.is_taken)
        except BaseException:
            end()
            raise
        return end

    def _end(self, key: _Key, held: _Held, uri: str) -> None:
        held.here[uri] -= 1
        if not +held.here and self._held.get(key) is held:
            del self._held[key]
            held.task.cancel()

    async def _keep(self, key: _Key, relay: ServerRelay, is_taken: asyncio.Future[None]) -> None:
        """Keep a subscription at an upstream across connections, until cancelled or refused."""
        (upstream, uri, _), again_s = key, _AGAIN_S
        while True:
            try:
                updates = await upstream.request(partial(_updates_of, uri=uri, heard=partial(self._heard, key)), relay)
                if not is_taken.done():
                    is_taken.set_result(None)
                again_s = _AGAIN_S
                await updates
            except Exception as error:
                if not isinstance(error, MCPError | UpstreamError | RuntimeError):
                    logger.exception("upstream %r: the subscription to %r ended", upstream.config.name, uri)
                if not is_taken.done():
                    own = error if isinstance(error, MCPError) else MCPError(mcp_types.INTERNAL_ERROR, str(error))
                    is_taken.set_exception(own)
                    return
            await asyncio.sleep(again_s)
            again_s = min(again_s * 2, _SELDOM_S)

    def _heard(self, key: _Key) -> None:
        """Publish an update; several at once are published once."""
        if (held := self._held.get(key)) is not None and not held.has_news:
            held.has_news = self._host.start(self._publish(held))

    async def _publish(self, held: _Held) -> None:
        held.has_news = False
        for uri in +held.here:
            await self._notices.publish(ResourceUpdated(uri=uri))


# -- one subscription, on one connection -------------------------------------------------------------------------------


async def _updates_of(session: UpstreamSession, uri: str, heard: Callable[[], None]) -> asyncio.Task[None]:
    """Subscribe to a resource, and return a task that runs as long as that lasts; a refusal raises."""
    is_begun = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(_subscribed(session, uri, heard, is_begun))
    try:
        await asyncio.wait([task, is_begun], return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not is_begun.done():
        await task
    return task


async def _subscribed(
    session: UpstreamSession, uri: str, heard: Callable[[], None], is_begun: asyncio.Future[None]
) -> None:
    session.listeners[uri] = heard
    try:
        if session.is_modern:
            async with listen(session, resource_subscriptions=[uri]) as updates:
                if uri not in (updates.honored.resource_subscriptions or ()):
                    raise MCPError(mcp_types.INVALID_PARAMS, f"no updates of {uri!r} are told")
                is_begun.set_result(None)
                async for _ in updates:
                    pass  # heard with its other notifications
        else:
            await session.ask("resources/subscribe", {"uri": uri})
            is_begun.set_result(None)
            await session.ended.wait()
    finally:
        del session.listeners[uri]
        if is_begun.done() and not session.is_modern and not session.ended.is_set():
            with suppress(MCPError, TimeoutError):
                async with asyncio.timeout(_UNSUBSCRIBE_S):
                    await session.ask("resources/unsubscribe", {"uri": uri})

"""The capabilities of a gateway: what there is for each caller, what is active for him, and what runs for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from cachetools import LRUCache

from agent_utilities.capabilities.active import (
    MAX_ACTIVE,
    ActiveCapabilities,
    CapabilityChange,
    brought,
    enable,
)
from agent_utilities.capabilities.model import Capabilities
from agent_utilities.capabilities.routing import Route
from agent_utilities.catalog.model import Entry
from agent_utilities.mcp.capabilities.holders import Holders
from agent_utilities.mcp.capabilities.servers import CapabilityServers
from agent_utilities.mcp.capabilities.usable import usable_capabilities
from agent_utilities.mcp.observers.base import CapabilitiesSwitched, WordsRouted
from agent_utilities.mcp.search_session import SessionView
from agent_utilities.mcp.session_capabilities import SessionCapabilities
from agent_utilities.mcp.surface.settled import Settled
from agent_utilities.mcp.surface.surface import Surface
from agent_utilities.mcp.taken_capabilities import N_TOLD, Taken, named_by, with_names, with_pins
from agent_utilities.selection.model import NOTHING, Selection, fold

_N_USABLE = 256
NOT_ROUTED = Route()


@dataclass(frozen=True, eq=False)
class Offer:
    """What the operator offers.

    Args:
        capabilities: every capability of his folders.
        servers: what each brings along.
        fixed: those that are on for everybody.
        most: the most that one caller may have on besides.
        routes: whether words switch capabilities on.
    """

    capabilities: Capabilities = field(default_factory=Capabilities)
    servers: CapabilityServers = field(default_factory=CapabilityServers)
    fixed: tuple[str, ...] = ()
    most: int = MAX_ACTIVE
    routes: bool = True


class CapabilityHost(Protocol):
    """What capabilities ask of the gateway that has them."""

    @property
    def surface(self) -> Surface:
        """What decides."""
        ...

    def profile_of(self, caller: Selection) -> str | None:
        """Return the profile that holds for a caller, folded; None for none."""
        ...

    def tools_seen(self) -> Mapping[str, Sequence[Entry]]:
        """Return the tools of the upstreams whose tools are known, by upstream."""
        ...

    async def serve_capabilities(self, names: frozenset[str]) -> None:
        """Have the servers of these capabilities as upstreams, and those of no others."""
        ...

    async def route(self, words: str, usable: frozenset[str]) -> Route:
        """Return where words lead among some capabilities; never fails."""
        ...


class ServerCapabilities:
    """Switches capabilities on and off for the callers of one gateway.

    Args:
        host: the gateway.
        offer: what there is.
        holders: who has what on.
    """

    def __init__(self, host: CapabilityHost, offer: Offer, holders: Holders | None = None) -> None:
        self._host, self.offer = host, offer
        self.holders = holders or Holders(offer.fixed)
        self._served: frozenset[str] | None = self.holders.names()
        self._serving = asyncio.Lock()
        self._usable: LRUCache[tuple[str, str | None], frozenset[str]] = LRUCache(_N_USABLE)

    def take(self, offer: Offer) -> None:
        """Offer something else from now on; what is active stays, as far as it is still there."""
        self.offer = offer
        self._usable.clear()
        self._served = None

    def forget_seen(self) -> None:
        """Judge anew what there is for whom: the tools of an upstream have changed."""
        self._usable.clear()

    # -- what there is for a caller ----------------------------------------------------------------------------------

    def usable(self, settled: Settled, caller: Selection) -> frozenset[str]:
        """Return the names of the capabilities that there are for a caller."""
        key = settled.effective.bounds_digest, self._host.profile_of(caller)
        usable = self._usable.get(key)
        if usable is None:
            capabilities, servers = self.offer.capabilities, self.offer.servers
            seen = self._host.tools_seen()
            usable = usable_capabilities(capabilities, servers, settled.bounds, key[1], seen)
            self._usable[key] = usable
        return usable

    async def taken(self, caller: Selection, view: SessionView | None, *, routes: bool = True) -> Taken:
        """Return what capabilities come to for a request; what its words call for is switched on, and starts behind.

        Args:
            caller: his selection.
            view: the session that keeps what is active for him; None where the request brings it.
            routes: whether the request's words may switch anything on.
        """
        named, session = named_by(caller), view.capabilities if view is not None else None
        settled = self._host.surface.settled(with_names(caller, ()))
        usable = self.usable(settled, caller)
        fixed = tuple(name for name in self.offer.fixed if name in usable)
        choosable = usable.difference(fixed)
        words = _words(settled) if routes and self.offer.routes else ""
        if session is not None:
            session.keep(choosable)
            self._adopt(session, named, choosable)
            step = await self._in_session(session, words, usable, fixed)
        else:
            step = await self._alone(brought(named, choosable, self.offer.most), words, usable, fixed)
        change, route, cause = step
        selection = self.selecting(caller, change.active.names, fixed)
        switched = change.added, change.removed
        taken = Taken(selection, change.active, fixed, usable, view, *switched, route, cause)
        if session is not None:
            self.hold(session, session.active)
        else:
            before = frozenset(name for name in named if name in choosable)
            self.holders.leases.renew(before, frozenset(change.active.names))
        await self.settle()
        if change.added or change.removed:
            self._host.surface.observers.switched(CapabilitiesSwitched("words", change.added, change.removed))
        return taken

    def _adopt(self, session: SessionCapabilities, named: Sequence[str], choosable: frozenset[str]) -> None:
        before = session.active.names
        session.adopt(named, choosable, self.offer.most)
        on = tuple(name for name in session.active.names if name not in before)
        off = tuple(name for name in before if name not in session.active.names)
        if on or off:
            self._host.surface.observers.switched(CapabilitiesSwitched("name", on, off))

    async def _in_session(
        self, session: SessionCapabilities, words: str, usable: frozenset[str], fixed: Sequence[str]
    ) -> tuple[CapabilityChange, Route | None, str]:
        """Return what a session's words change; words that it was routed by are not routed again."""
        if not words:
            return CapabilityChange(session.active), None, ""
        async with session.routing:
            if words == session.words:
                return CapabilityChange(session.active), session.route, ""
            route = await self._route(words, usable, session.active, fixed)
            if route.gate is not None:  # else nothing could route them yet: the next request tries again
                session.words, session.route = words, route
            # From here on without a turn of the event loop: on what is active at this moment.
            change, cause = self._switched(session.active, route, fixed)
            session.take(change)
        return change, route, cause

    async def _alone(
        self, active: ActiveCapabilities, words: str, usable: frozenset[str], fixed: Sequence[str]
    ) -> tuple[CapabilityChange, Route | None, str]:
        if not words:
            return CapabilityChange(active), None, ""
        route = await self._route(words, usable, active, fixed)
        change, cause = self._switched(active, route, fixed)
        return change, route, cause

    async def _route(
        self, words: str, usable: frozenset[str], active: ActiveCapabilities, fixed: Sequence[str]
    ) -> Route:
        """Return where words lead; nowhere where all that could be switched on is on."""
        if usable <= {*active.names, *fixed}:
            return Route(cause="every capability is on")
        started_s = time.perf_counter()
        route = await self._host.route(words, usable)
        seconds = time.perf_counter() - started_s
        self._host.surface.observers.routed(WordsRouted(route.outcome, route.scores[:N_TOLD], seconds, route.cause))
        return route

    def _switched(self, active: ActiveCapabilities, route: Route, fixed: Sequence[str]) -> tuple[CapabilityChange, str]:
        """Return what is active once a route has switched on what it leads to, and why it has not.

        What is on already is left as it is: the same words come with every request of a turn, and only calls use it.
        """
        name = route.activated
        if name is None or name in fixed or name in active.names:
            return CapabilityChange(active), ""
        if why := self.offer.servers.unavailable.get(name):
            return CapabilityChange(active), f"{name} can't be switched on: {why}"
        return enable(active, name, self.offer.most), ""

    def selecting(self, caller: Selection, active: Sequence[str], fixed: Sequence[str]) -> Selection:
        """Return a caller's selection once capabilities are active for him.

        Tools of the gateway's own servers are there without any, but may be deferred: those that an active one wants
        are not.
        """
        own = self.offer.servers.own
        wanted = (
            (server, glob)
            for name in (*fixed, *active)
            for server, globs in own.get(name, {}).items()
            for glob in globs
        )
        return with_pins(with_names(caller, active), frozenset(fold(f"{server}_{glob}") for server, glob in wanted))

    async def changed(self, taken: Taken, change: CapabilityChange) -> Taken:
        """Have a change hold for a caller: in his session, or for as long as requests bring it.

        Args:
            taken: what there was for the request.
            change: of what is active at this moment; see `present`.
        """
        after = replace(taken, active=change.active, added=change.added, removed=change.removed, route=None, cause="")
        if taken.session is not None:
            taken.session.take(change)
            self.hold(taken.session, change.active)
        else:
            self.holders.leases.renew(frozenset(taken.active.names), frozenset(change.active.names))
        await self.settle()
        return after

    def switched_on(self, taken: Taken, names: Iterable[str]) -> CapabilityChange:
        """Return what comes of switching on those of some capabilities that there are for a caller and can be on."""
        active, added, removed = taken.present, list[str](), list[str]()
        for name in names:
            if name in taken.usable and name not in (*taken.fixed, *self.offer.servers.unavailable):
                change = enable(active, name, self.offer.most)
                active = change.active
                added += change.added
                removed += change.removed
        gone = [name for name in removed if name not in added]
        return CapabilityChange(active, tuple(name for name in added if name in active.names), tuple(gone))

    # -- what runs ---------------------------------------------------------------------------------------------------

    def hold(self, session: SessionCapabilities, active: ActiveCapabilities) -> None:
        """Keep running what is active in a session, for as long as its connection lasts."""
        self.holders.hold(session, () if session.is_over else active.names)

    def ended(self, session: SessionCapabilities) -> None:
        """Take note that a session's connection has ended; what it alone had on stops with the next `settle`."""
        session.is_over = True
        self.holders.release(session)

    async def settle(self) -> None:
        """Have run what somebody has on, and nothing else; returns once lists show what is known of it."""
        while self.holders.names() != self._served:
            async with self._serving:
                if (names := self.holders.names()) != self._served:
                    offer = self.offer
                    await self._host.serve_capabilities(names)
                    self._served = names if self.offer is offer else None  # it was edited meanwhile

    def health(self) -> dict[str, Any]:
        """Return how many capabilities there are, how many are on for somebody, and how many sessions have any on.

        Those that the operator denies to everybody are not counted: a number tells of them too.
        """
        usable = self.usable(self._host.surface.settled(NOTHING), NOTHING)
        return {
            "known": len(usable),
            "unavailable": len(usable & self.offer.servers.unavailable.keys()),
            "on": len(self.holders.names()),
            "sessions": self.holders.n_holders,
        }


def _words(settled: Settled) -> str:
    """Return the words that a caller gave; those that an operator gave once for all are nobody's."""
    query = settled.effective.query
    return settled.effective.query_text or "" if query is not None and query.side == "caller" else ""

"""Switching capabilities on and off: what there is for each caller, what is active for them, and what runs for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from cachetools import LRUCache

from agent_utilities.capabilities.holders import Holders
from agent_utilities.capabilities.model import (
    ActiveCapabilities,
    CapabilityChange,
    Route,
    brought,
    enable,
)
from agent_utilities.capabilities.offering import Offer
from agent_utilities.capabilities.servers import usable_capabilities
from agent_utilities.catalog.model import Entry
from agent_utilities.features.capabilities.caller import N_TOLD, CallerCapabilities
from agent_utilities.features.capabilities.events import CapabilitiesSwitched, WordsRouted
from agent_utilities.features.capabilities.session import KEY, NO_CAPABILITIES, SessionCapabilities
from agent_utilities.mcp.events import Observers
from agent_utilities.mcp.request import Request
from agent_utilities.mcp.sessions import Session
from agent_utilities.selection.model import CALLER_CHANNELS, OPERATOR_CHANNELS, Selection, fold
from agent_utilities.visibility.bounds import Bounds

_N_USABLE = 256
_NO_PROFILE = "none"

Step = tuple[CapabilityChange, Route | None, str]
"""What words changed, where they led, and why they switched nothing on."""


class Switching:
    """Switches capabilities on and off for the callers of one gateway.

    Args:
        offer: what there is.
        operator: returns what the operator selects.
        tools_seen: returns the tools of the upstreams whose tools are known, by upstream.
        serve: has the servers of some capabilities as upstreams, and those of no others.
        route: returns where words lead among some capabilities; never fails.
        observers: told of what is switched.
    """

    def __init__(
        self,
        offer: Offer,
        *,
        operator: Callable[[], Selection],
        tools_seen: Callable[[], Mapping[str, Sequence[Entry]]],
        serve: Callable[[frozenset[str]], Awaitable[None]],
        route: Callable[[str, frozenset[str]], Awaitable[Route]],
        observers: Observers,
    ) -> None:
        self.offer = offer
        self._operator, self._tools_seen, self._serve, self._route_words = operator, tools_seen, serve, route
        self._observers = observers
        self.holders = Holders(offer.fixed)
        self._served: frozenset[str] | None = self.holders.names()
        self._serving = asyncio.Lock()
        self._routing: WeakKeyDictionary[Session, asyncio.Lock] = WeakKeyDictionary()
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

    def usable(self, digest: str, bounds: Bounds, caller: Selection) -> frozenset[str]:
        """Return the names of the capabilities that there are for a caller.

        Args:
            digest: of the bounds, none of them being active.
            bounds: the caller's.
            caller: their selection.
        """
        key = digest, self._profile_of(caller)
        usable = self._usable.get(key)
        if usable is None:
            capabilities, servers = self.offer.capabilities, self.offer.servers
            usable = usable_capabilities(capabilities, servers, bounds, key[1], self._tools_seen())
            self._usable[key] = usable
        return usable

    def _profile_of(self, caller: Selection) -> str | None:
        """Return the profile that holds for a caller, folded: their own, or else the operator's; None for none."""
        for selection, channels in ((caller, CALLER_CHANNELS), (self._operator(), OPERATOR_CHANNELS)):
            for channel in reversed(channels):
                setting = selection.get("profile", channel)
                if setting is not None and isinstance(setting.value, tuple):
                    name = fold(setting.value[0])
                    return None if name == _NO_PROFILE else name
        return None

    async def for_request(self, request: Request, named: Sequence[str], usable: frozenset[str]) -> CallerCapabilities:
        """Return what capabilities come to for a request; what its words call for is switched on, and starts behind.

        Args:
            request: the request.
            named: the capabilities that its caller names.
            usable: those that there are for them.
        """
        session = request.session
        fixed = tuple(name for name in self.offer.fixed if name in usable)
        choosable = usable.difference(fixed)
        words = request.words if request.is_about_tools and self.offer.routes else ""
        if session is not None:
            self._adopt(session, named, choosable)
            change, route, cause = await self._in_session(session, words, usable, fixed)
        else:
            active = brought(named, choosable, self.offer.most)
            change, route, cause = await self._alone(active, words, usable, fixed)
        found = CallerCapabilities(change.active, fixed, usable, change.added, change.removed, route, cause)
        if request.is_dry:
            return found
        if session is not None:
            self.hold(session)
        else:
            before = frozenset(name for name in named if name in choosable)
            self.holders.leases.renew(before, frozenset(change.active.names))
        await self.settle()
        if change.added or change.removed:
            self._observers.notify(CapabilitiesSwitched("words", change.added, change.removed))
        return found

    def _adopt(self, session: Session, named: Sequence[str], choosable: frozenset[str]) -> None:
        """Have a session take the names that a request brings."""
        before = [name for name in session.get(KEY, NO_CAPABILITIES).active.names if name in choosable]
        most = self.offer.most
        after = session.update(KEY, NO_CAPABILITIES, lambda kept: kept.adopting(named, choosable, most)).active.names
        on = tuple(name for name in after if name not in before)
        off = tuple(name for name in before if name not in after)
        if on or off:
            self._observers.notify(CapabilitiesSwitched("name", on, off))

    async def _in_session(self, session: Session, words: str, usable: frozenset[str], fixed: Sequence[str]) -> Step:
        """Return what a session's words change; words that it was routed by are not routed again."""
        if not words:
            return CapabilityChange(session.get(KEY, NO_CAPABILITIES).active), None, ""
        # Held while words are routed, so that the same words of two requests are routed once.
        async with self._routing.setdefault(session, asyncio.Lock()):
            kept = session.get(KEY, NO_CAPABILITIES)
            if words == kept.words:
                return CapabilityChange(kept.active), kept.route, ""
            route = await self._route(words, usable, kept.active, fixed)
            step: list[tuple[CapabilityChange, str]] = []

            def switched(kept: SessionCapabilities) -> SessionCapabilities:
                step[:] = [self._switched(kept.active, route, fixed)]
                if route.gate is not None:  # else nothing could route them yet: the next request tries again
                    kept = replace(kept, words=words, route=route)
                return replace(kept, active=step[0][0].active)

            session.update(KEY, NO_CAPABILITIES, switched)
        return step[0][0], route, step[0][1]

    async def _alone(
        self, active: ActiveCapabilities, words: str, usable: frozenset[str], fixed: Sequence[str]
    ) -> Step:
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
        route = await self._route_words(words, usable)
        seconds = time.perf_counter() - started_s
        self._observers.notify(WordsRouted(route.outcome, route.scores[:N_TOLD], seconds, route.cause))
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

    def pins(self, names: Iterable[str]) -> frozenset[str]:
        """Return globs of the tools of the gateway's own servers that some capabilities want.

        They are there without any, but may be deferred: those that an active one wants are not.
        """
        own = self.offer.servers.own
        wanted = ((server, glob) for name in names for server, globs in own.get(name, {}).items() for glob in globs)
        return frozenset(fold(f"{server}_{glob}") for server, glob in wanted)

    async def changed(
        self, request: Request, before: CallerCapabilities, change: CapabilityChange
    ) -> CallerCapabilities:
        """Have a change hold for a caller: in their session, or for as long as requests bring it.

        Args:
            request: that changes it.
            before: what there was for the request.
            change: of what is active at this moment; see `CallerCapabilities.now`.
        """
        after = replace(before, active=change.active, added=change.added, removed=change.removed, route=None, cause="")
        if request.session is not None:
            request.session.update(KEY, NO_CAPABILITIES, lambda kept: replace(kept, active=change.active))
            self.hold(request.session)
        else:
            self.holders.leases.renew(frozenset(before.active.names), frozenset(change.active.names))
        await self.settle()
        return after

    def switched_on(
        self, active: ActiveCapabilities, before: CallerCapabilities, names: Iterable[str]
    ) -> CapabilityChange:
        """Return what comes of switching on those of some capabilities that there are for a caller and can be on."""
        added, removed = list[str](), list[str]()
        for name in names:
            if name in before.usable and name not in (*before.fixed, *self.offer.servers.unavailable):
                change = enable(active, name, self.offer.most)
                active = change.active
                added += change.added
                removed += change.removed
        gone = [name for name in removed if name not in added]
        return CapabilityChange(active, tuple(name for name in added if name in active.names), tuple(gone))

    # -- what runs ---------------------------------------------------------------------------------------------------

    def hold(self, session: Session) -> None:
        """Keep running what is active in a session, for as long as its connection lasts."""
        names = session.get(KEY, NO_CAPABILITIES).active.names
        self.holders.hold(session.id, () if session.is_over else names)

    async def settle(self) -> None:
        """Have run what somebody has on, and nothing else; returns once lists show what is known of it."""
        while self.holders.names() != self._served:
            async with self._serving:
                if (names := self.holders.names()) != self._served:
                    offer = self.offer
                    await self._serve(names)
                    self._served = names if self.offer is offer else None  # it was edited meanwhile

    def health(self, usable: frozenset[str]) -> dict[str, Any]:
        """Return how many capabilities there are, how many are on for somebody, and how many sessions have any on.

        Args:
            usable: those that the operator denies to nobody: a number tells of the others too.
        """
        return {
            "known": len(usable),
            "unavailable": len(usable & self.offer.servers.unavailable.keys()),
            "on": len(self.holders.names()),
            "sessions": self.holders.n_holders,
        }

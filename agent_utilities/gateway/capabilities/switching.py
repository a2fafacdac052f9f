"""Switch capabilities on and off: which ones each caller may use, which are active for them, and which servers run."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property

from cachetools import LRUCache

from agent_utilities.catalog.model import Entry
from agent_utilities.errors import InputError
from agent_utilities.gateway.capabilities.caller import (
    KEY,
    N_NEAREST,
    NO_CAPABILITIES,
    CallerCapabilities,
    CapabilitiesSwitched,
    SessionCapabilities,
    SwitchedBy,
    WordsRouted,
    caller_capabilities,
    named_by,
)
from agent_utilities.gateway.capabilities.installers import Toolchains
from agent_utilities.gateway.capabilities.model import Active, Capabilities, Route, difference, enable
from agent_utilities.gateway.capabilities.router import CapabilityRouter
from agent_utilities.gateway.capabilities.servers import Offer, usable_capabilities
from agent_utilities.gateway.feature import MoreServers, Upstreams
from agent_utilities.gateway.upstreams.config import UpstreamConfig
from agent_utilities.gateway.upstreams.supervision.upstream import Upstream
from agent_utilities.query.feature import Query
from agent_utilities.runtime.process_io import touched
from agent_utilities.runtime.waiting import in_daemon_thread
from agent_utilities.seam.components import entry_of
from agent_utilities.seam.host import Host
from agent_utilities.seam.request import Request
from agent_utilities.seam.session import Session
from agent_utilities.selection.merge import Narrowing
from agent_utilities.selection.model import CALLER_CHANNELS, OPERATOR_CHANNELS, Selection, fold
from agent_utilities.selection.profiles import NO_PROFILE

LEASE_S = 600.0
"""Seconds that a set which requests without a session send is kept after the last of them."""
MOST = 16
"""The most capabilities in all such sets: whoever tries every set starts no more servers at once.

The least recently requested sets are evicted first; the newest is kept whatever it has.
"""


class Holders:
    """The capabilities that everybody, each session, and requests without a session have on.

    Args:
        fixed: those that are always on for everybody.
        clock: a monotonic clock, in seconds.
    """

    def __init__(self, fixed: Iterable[str] = (), clock: Callable[[], float] = time.monotonic) -> None:
        self._fixed, self._clock = frozenset(fixed), clock
        self._sessions: dict[str, frozenset[str]] = {}
        self._leases: dict[frozenset[str], float] = {}
        """Sets that requests sent, each with the time of its last request, the oldest first."""

    def hold(self, session: str, names: Iterable[str]) -> None:
        """Replace what a session holds."""
        self._sessions.pop(session, None)
        if held := frozenset(names):
            self._sessions[session] = held

    def lease(self, names: Iterable[str], instead_of: Iterable[str] = ()) -> None:
        """Renew the lease of a set that is active for a request without a session.

        Args:
            names: the capabilities that are active for it.
            instead_of: the set that it sent, where that was another: its caller sends the new one from now on. Where
                others still send the old one, their next request leases it again.
        """
        self._leases.pop(frozenset(instead_of), None)
        if leased := frozenset(names):
            self._leases.pop(leased, None)
            self._leases[leased] = self._clock()
        while len(self._leases) > 1 and len(frozenset().union(*self._leases)) > MOST:
            del self._leases[next(iter(self._leases))]

    @property
    def n_sessions(self) -> int:
        """How many sessions hold anything."""
        return len(self._sessions)

    def names(self) -> frozenset[str]:
        """Return every capability that somebody has on."""
        since_s = self._clock() - LEASE_S
        self._leases = {names: last_s for names, last_s in self._leases.items() if last_s > since_s}
        return self._fixed.union(*self._leases, *self._sessions.values())


logger = logging.getLogger("agent_utilities.capabilities")

_LOOK_S = 30.0
"""Seconds between two checks for expired leases."""
_N_USABLE = 256


class Switching:
    """Switches capabilities on and off for a gateway's callers, and runs the servers of those that are on."""

    def __init__(self, host: Host, offer: Offer, upstreams: Upstreams, query: Query) -> None:
        self.host, self.offer = host, offer
        self._upstreams, self._query = upstreams, query
        self.holders = Holders(offer.fixed)
        self._served = offer, self.holders.names()
        self._serving = asyncio.Lock()
        self._usable: LRUCache[tuple[str, str | None], frozenset[str]] = LRUCache(_N_USABLE)
        environ = offer.environ or host.operator.environ
        self.toolchains = Toolchains(environ=environ, allow_install=offer.allow_install)
        host.offer(MoreServers, lambda: self)

    @cached_property
    def router(self) -> CapabilityRouter:
        """The router of users' words, with the embedder of the tools' ranker."""
        return CapabilityRouter.of(self._query.resolver.rankers())

    async def run(self) -> None:
        """Follow the folders' files, and end leases, until cancelled."""
        self.router.use(self.offer.capabilities.triggers)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            group.create_task(self._end_leases())

    async def _follow(self) -> None:
        """Read the folders again whenever they change; what is on stays on while its bundle exists.

        A bundle that can't be read any more stays as it was, and a log line says why; see `edited`.
        """
        while self.offer.folders:
            files = self.offer.capabilities.files
            async for _ in touched(files):
                before = self.offer.capabilities
                try:
                    now = await in_daemon_thread(self.offer.read_folders)
                    for problem in now.problems:
                        if problem not in before.problems:
                            logger.warning("not taken: %s", problem)
                    if now != before:
                        self.offer_anew(now)
                        await self.settle()
                except InputError as error:
                    logger.error("the capabilities are kept as they were: %s", error)
                except Exception:  # the next edit is followed all the same
                    logger.exception("the capabilities could not be taken")
                if self.offer.capabilities.files != files:
                    break  # other files are to be watched from now on

    async def _end_leases(self) -> None:
        """Stop the servers of expired leases."""
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                await self.settle()
            except Exception:  # files are followed, and installers run, all the same
                logger.exception("what is on could not be brought about; it is tried again")

    def offer_anew(self, capabilities: Capabilities | None = None) -> None:
        """Offer other capabilities from now on, or the same beside other servers of the gateway's own.

        Active capabilities that still exist stay active.
        """
        if self.offer.folders:
            self.offer = self.offer.having(capabilities or self.offer.capabilities, self._upstreams.config.upstreams)
            self.forget_seen()
            self.router.use(self.offer.capabilities.triggers)

    def forget_seen(self) -> None:
        """Forget who may use which capabilities, as the tools of an upstream have changed."""
        self._usable.clear()

    # -- what a caller may use ---------------------------------------------------------------------------------------

    def usable(self, caller: Selection) -> frozenset[str]:
        """Return the names of the capabilities that a caller may use, active or not."""
        slots = tuple(each for each in caller.slots if each[0][0] != KEY)
        merged = self.host.verdict(caller if len(slots) == len(caller.slots) else Selection(slots))
        key = merged.effective.bounds_digest, self._profile_of(caller)
        if (usable := self._usable.get(key)) is None:
            seen = defaultdict[str, list[Entry]](list)
            for tool in self._upstreams.provider.tools():
                if tool.capabilities is not None:
                    seen[tool.caller.config.name].append(entry_of("tool", tool))
            offer = self.offer
            usable = usable_capabilities(offer.capabilities, offer.servers, merged.bounds, key[1], seen)
            self._usable[key] = usable
        return usable

    def _profile_of(self, caller: Selection) -> str | None:
        """Return the profile that holds for a caller, folded: theirs, or else the operator's; None for none."""
        operator = self.host.operator.selection
        for selection, channels in ((caller, CALLER_CHANNELS), (operator, OPERATOR_CHANNELS)):
            if named := named_by(selection, "profile", channels):
                return None if fold(named[0]) == NO_PROFILE else fold(named[0])
        return None

    def narrowing(self, names: Iterable[str]) -> Narrowing:
        """Return a narrowing that hides the tools of capabilities which are neither fixed nor named."""
        return Narrowing("capabilities", capabilities=frozenset((*self.offer.fixed, *names)))

    # -- what a request switches -------------------------------------------------------------------------------------

    async def for_request(self, request: Request) -> CallerCapabilities:
        """Return a request's capabilities; the one that its words call for is switched on, and starts in background."""
        named, usable = named_by(request.selection), self.usable(request.selection)
        fixed = tuple(name for name in self.offer.fixed if name in usable)
        choosable = usable.difference(fixed)
        # A request without a session has those that it sends.
        session = request.session or Session()
        before = tuple(name for name in session.get(KEY, NO_CAPABILITIES).active if name in choosable)
        adopted = session.update(KEY, NO_CAPABILITIES, lambda kept: kept.adopting(named, choosable, self.offer.most))
        if request.session is not None:
            self._notify("name", before, adopted.active)
        words = request.words if request.is_about_tools and self.offer.routes else ""
        before, active, route, cause = await self._routed(request, session, words, usable, fixed)
        capabilities = CallerCapabilities(active, fixed, usable, *difference(before, active), route, cause)
        if not request.is_dry:
            await self._have(request, before, active, "words")
        return capabilities

    async def _routed(
        self, request: Request, session: Session, words: str, usable: frozenset[str], fixed: Sequence[str]
    ) -> tuple[Active, Active, Route | None, str]:
        """Return what was active before a session's words, what is now, where they led, and why they switched nothing.

        The words that were routed last are not routed again. A capability that is on is not marked as used: the same
        words come with every request of a turn, and only calls use it.
        """
        kept = session.get(KEY, NO_CAPABILITIES)
        before, cause = kept.active, ""
        if not words or words == kept.words:
            return before, before, kept.route if words else None, cause
        if usable <= {*kept.active, *fixed}:
            route = Route(cause="every capability is on")
        else:
            started_s = time.perf_counter()
            route = await self.router.route(words, usable)
            seconds = time.perf_counter() - started_s
            if not request.is_dry:
                self.host.notify(WordsRouted(route.outcome, route.scores[:N_NEAREST], seconds, route.cause))

        def switched(kept: SessionCapabilities) -> SessionCapabilities:
            nonlocal before, cause
            before = active = kept.active
            name = route.activated
            if name is not None and name not in (*fixed, *active):
                if why := self.offer.servers.unavailable.get(name):
                    cause = f"{name} can't be switched on: {why}"
                else:
                    active = enable(active, name, self.offer.most)
            if route.gate is None:  # nothing could route them yet: the next request tries again
                return replace(kept, active=active)
            return replace(kept, active=active, words=words, route=route)

        return before, session.update(KEY, NO_CAPABILITIES, switched).active, route, cause

    def switched_on(self, active: Active, before: CallerCapabilities, names: Iterable[str]) -> Active:
        """Return what is active once some capabilities are enabled; those that can't be are skipped."""
        for name in names:
            if name in before.usable and name not in (*before.fixed, *self.offer.servers.unavailable):
                active = enable(active, name, self.offer.most)
        return active

    def pins(self, names: Iterable[str]) -> frozenset[str]:
        """Return globs of the tools of the gateway's own servers that some capabilities want.

        These tools are there without any capability, but may be deferred; those that an active one wants are not.
        """
        own = self.offer.servers.own
        wanted = ((server, glob) for name in names for server, globs in own.get(name, {}).items() for glob in globs)
        return frozenset(fold(f"{server}_{glob}") for server, glob in wanted)

    async def changed(
        self, request: Request, before: CallerCapabilities, active: Active, by: SwitchedBy
    ) -> CallerCapabilities:
        """Replace a caller's active capabilities: in their session, or for as long as their requests send them."""
        was = before.now(request)
        added, removed = difference(was, active)
        if request.session is not None:
            request.session.update(KEY, NO_CAPABILITIES, lambda kept: replace(kept, active=active))
        await self._have(request, was, active, by)
        return replace(before, active=active, added=added, removed=removed, route=None, cause="")

    def _notify(self, by: SwitchedBy, before: Active, after: Active) -> None:
        on, off = difference(before, after)
        if on or off:
            self.host.notify(CapabilitiesSwitched(by, on, off))

    # -- what runs ---------------------------------------------------------------------------------------------------

    async def _have(self, request: Request, before: Active, active: Active, by: SwitchedBy) -> None:
        """Run what is active for a caller: while their session lasts, or until its lease expires."""
        if (session := request.session) is not None:
            names = session.get(KEY, NO_CAPABILITIES).active
            self.holders.hold(session.id, () if session.is_over else names)
        else:
            self.holders.lease(active, before)
        await self.settle()
        self._notify(by, before, active)

    async def settle(self) -> None:
        """Run the servers of what somebody has on, and no others; returns once lists show their known tools."""
        while (self.offer, self.holders.names()) != self._served:
            async with self._serving:
                wanted = self.offer, self.holders.names()
                if wanted != self._served:
                    before = {each.config.name for each in self._upstreams.upstreams}
                    await self._upstreams.bring_about()
                    for each in self._upstreams.upstreams:
                        if each.config.name not in before and each.config.capabilities:
                            self.host.start(each.connect())
                    self._served = wanted

    def configs(self) -> list[UpstreamConfig]:
        """Return the servers of all that somebody has on."""
        servers = self.offer.servers
        wanted = {server for name in self.holders.names() for server in servers.by_capability.get(name, ())}
        return [config for name, config in servers.configs.items() if name in wanted]

    async def seen(self, capability: str, wait_s: float) -> Sequence[str]:
        """Wait until a capability's servers have listed their tools; return a line for each that has not."""
        servers = self.offer.servers.by_capability.get(capability, ())
        upstreams = [each for name in servers if (each := self._upstreams.upstreams.get(name)) is not None]
        unseen = [asyncio.ensure_future(_seen(each)) for each in upstreams if each.snapshot is None]
        if unseen:
            await asyncio.wait(unseen, timeout=wait_s)
        return [_why_unseen(each) for each in upstreams if each.snapshot is None]

    async def tell_changed(self, request: Request, capabilities: CallerCapabilities) -> int:
        """Notify a request's client that its list has changed, before the answer, where other capabilities are active.

        Return how many upstreams' tools the request may use now.
        """
        merged = self.host.verdict(request.selection, narrowings=(self.narrowing(capabilities.active),))
        is_other = capabilities.active != caller_capabilities(request).active
        if is_other and request.client is not None and request.session is not None:
            effective, bounds = merged.effective, merged.bounds
            request.client.note(replace(request.verdict, effective=effective, bounds=bounds, judgements={}))
            await request.client.tell_changed()
        catalog = [entry_of("tool", tool) for tool in self._upstreams.provider.tools()]
        return sum(merged.bounds.refusal(each) is None for each in catalog)


async def _seen(upstream: Upstream) -> None:
    await upstream.connect()
    if upstream.snapshot is None:
        await upstream.renewed()


def _why_unseen(upstream: Upstream) -> str:
    name = upstream.config.name
    if cause := upstream.state.cause:
        return f"server {name} can't be reached: {cause}; it is tried again, and its tools are listed then"
    return f"server {name} is starting: its tools are listed once it answers"

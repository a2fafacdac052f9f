"""What runs for a gateway's capabilities: upstreams that come and go, routes, installers, files that change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agent_utilities.capabilities.installers import OnLine
from agent_utilities.capabilities.model import Capabilities as Known
from agent_utilities.capabilities.model import Capability, Route
from agent_utilities.capabilities.offering import Offer, Offering
from agent_utilities.capabilities.toolchains import Toolchains
from agent_utilities.catalog.model import Entry
from agent_utilities.features.capabilities.caller import CallerCapabilities
from agent_utilities.features.capabilities.switching import Switching
from agent_utilities.features.query.feature import Query
from agent_utilities.features.upstreams.feature import Upstreams
from agent_utilities.mcp.host import Host
from agent_utilities.mcp.request import Request
from agent_utilities.mcp.surface.components import entry_of
from agent_utilities.upstream.config import UpstreamConfig
from agent_utilities.upstream.supervision.supervisor import Upstream
from agent_utilities.visibility.narrowing import Narrowing

logger = logging.getLogger("agent_utilities.capabilities")

_LOOK_S = 30.0
"""Seconds after which it is looked again whether anything is kept for nobody."""


class CapabilityServing:
    """Has run what somebody has on.

    Args:
        host: the gateway.
        offer: what its operator offers.
        offering: where that comes from; None where it stays as it is.
        upstreams: runs the servers that capabilities bring along.
        query: routes words.
    """

    def __init__(self, host: Host, offer: Offer, offering: Offering | None, upstreams: Upstreams, query: Query) -> None:
        self.host, self.offering = host, offering
        self._upstreams, self._query = upstreams, query
        self.switching = Switching(
            offer,
            operator=lambda: host.surface.operator.selection,
            tools_seen=self._tools_seen,
            serve=self._serve,
            route=self.route,
            observers=host.surface.observers,
        )
        environ = host.surface.operator.environ if offering is None else offering.environ
        self.toolchains = Toolchains(environ=environ, allow_install=offering is not None and offering.allow_install)
        upstreams.more_configs = lambda: self._configs_of(self.switching.holders.names())

    async def run(self) -> None:
        """Have words routed, installers run where they are allowed, and files followed, until cancelled."""
        self.have_routed()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.toolchains.run())
            group.create_task(self._follow())
            group.create_task(self._end_leases())

    async def _follow(self) -> None:
        """Take what the folders say whenever they change; what is on stays on while it is there."""
        if self.offering is not None:
            async for changed in self.offering.changes(self.switching.offer.capabilities):
                try:
                    self.take(changed)
                    await self.switching.settle()
                except Exception:  # the next edit is followed all the same
                    logger.exception("the capabilities could not be taken")

    async def _end_leases(self) -> None:
        """Stop what requests without a session had on, a while after the last of them."""
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                await self.switching.settle()
            except Exception:  # files are followed, and installers run, all the same
                logger.exception("what is on could not be brought about; it is tried again")

    def take(self, capabilities: Known | None = None) -> None:
        """Offer other capabilities from now on, or the same beside other servers of the gateway's own."""
        if self.offering is not None:
            known = self.switching.offer.capabilities if capabilities is None else capabilities
            self.switching.take(self.offering.with_servers(known, self._upstreams.config.upstreams))
            self.have_routed()

    def have_routed(self) -> None:
        """Have words routed by the triggers that there are now."""
        self._query.resolver.capability_router.take(self.switching.offer.capabilities.triggers)

    async def route(self, words: str, usable: frozenset[str]) -> Route:
        """Return where words lead among some capabilities; never fails."""
        return await self._query.resolver.capability_router.route(words, usable)

    def _tools_seen(self) -> Mapping[str, Sequence[Entry]]:
        """Return the tools of the capabilities' upstreams whose tools are known, by upstream."""
        tools = self._upstreams.provider.tools_of_capabilities()
        return {name: [entry_of("tool", tool) for tool in of_one] for name, of_one in tools.items()}

    async def _serve(self, names: frozenset[str]) -> None:
        """Have the servers of these capabilities as upstreams, connected behind, and those of no others."""
        upstreams = self._upstreams.upstreams
        before = {each.config.name for each in upstreams}
        await upstreams.reload(self._upstreams.config_with(self._configs_of(names)))
        for each in upstreams:
            if each.config.name not in before and each.config.capabilities:
                self.host.start(each.connect())

    def _configs_of(self, names: Iterable[str]) -> list[UpstreamConfig]:
        servers = self.switching.offer.servers
        wanted = {server for name in names for server in servers.by_capability.get(name, ())}
        return [config for name, config in servers.configs.items() if name in wanted]

    async def seen(self, capability: str, wait_s: float) -> Sequence[str]:
        """Wait for a capability's servers to be seen; return a line for each that is not."""
        servers = self.switching.offer.servers.by_capability.get(capability, ())
        found = [each for name in servers if (each := self._upstreams.upstreams.get(name)) is not None]
        unseen = [asyncio.ensure_future(_seen(each)) for each in found if each.snapshot is None]
        if unseen:
            await asyncio.wait(unseen, timeout=wait_s)
        return [_told(each) for each in found if each.snapshot is None]

    async def count_for(self, request: Request, found: CallerCapabilities) -> tuple[Request, int]:
        """Return a request once other capabilities are active for it, and how many upstreams' tools it may use then."""
        caller, narrowings = request.selection, (self.narrowing(found.active.names),)
        settled = self.host.surface.settled(caller, narrowings)
        verdict = replace(request.verdict, effective=settled.effective, bounds=settled.bounds, judgements={})
        catalog = [entry_of("tool", tool) for tool in self._upstreams.provider.tools()]
        return request.under(verdict), sum(settled.bounds.refusal(each) is None for each in catalog)

    # -- what is required --------------------------------------------------------------------------------------------

    async def satisfied(self, capability: str, on_line: OnLine) -> Sequence[str]:
        """Check what a capability requires, install it where that is allowed; return what is to be told of it.

        Args:
            capability: its name.
            on_line: told what installers write.
        """
        return [
            line
            for found, tap in self._requiring([capability])
            for line in self.toolchains.told(await self.toolchains.satisfy(found, tap, on_line))
        ]

    async def missing(self, names: Iterable[str]) -> Mapping[str, Sequence[str]]:
        """Return, of capabilities that lack what they require, a line for each of that; nothing is installed."""
        requiring = self._requiring(names)
        await self.toolchains.look(requiring)
        told = {found.name: self.toolchains.told(await self.toolchains.check(found, tap)) for found, tap in requiring}
        return {name: lines for name, lines in told.items() if lines}

    def _requiring(self, names: Iterable[str]) -> list[tuple[Capability, Path]]:
        """Return those of some capabilities that require anything, each with its tap."""
        known = self.switching.offer.capabilities
        found = ((known.by_name[name], known.taps.get(name)) for name in names if name in known.by_name)
        return [(each, tap) for each, tap in found if each.require and tap is not None]

    async def tell_missing(self, names: Iterable[str]) -> None:
        """Log what is missing of capabilities that were switched on otherwise than by the tool, which tells it."""
        for name, lines in (await self.missing(names)).items():
            for line in lines:
                logger.warning("%s is on, and something that it requires is missing: %s", name, line)

    # -- what a caller has then --------------------------------------------------------------------------------------

    def narrowing(self, names: Iterable[str]) -> Narrowing:
        """Return that of what capabilities bring only what is on for everybody, or is named, is there."""
        return Narrowing("capabilities", capabilities=frozenset((*self.switching.offer.fixed, *names)))

    async def tell_changed(self, request: Request, found: CallerCapabilities) -> None:
        """Tell a request's client that its list of tools is another, before the request is answered."""
        if request.client is not None and request.session is not None:
            request.client.note((await self.count_for(request, found))[0].verdict)
            await request.client.tell_changed()


async def _seen(upstream: Upstream) -> None:
    """Wait until an upstream has listed what it has, or could not."""
    await upstream.connect()
    if upstream.snapshot is None:
        await upstream.renewed()


def _told(upstream: Upstream) -> str:
    state = upstream.state
    name = upstream.config.name
    if state.cause:
        return f"server {name} can't be reached: {state.cause}; it is tried again, and its tools are listed then"
    return f"server {name} is starting: its tools are listed once it answers"

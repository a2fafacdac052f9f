"""What capabilities ask of the gateway: upstreams that come and go, where words lead, and what a caller may use."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from agent_utilities.capabilities.model import Capabilities, Capability
from agent_utilities.capabilities.routing import Route
from agent_utilities.catalog.model import Entry
from agent_utilities.mcp.capabilities.installing import OnLine
from agent_utilities.mcp.capabilities.offering import Offering
from agent_utilities.mcp.capabilities.server_capabilities import Offer, ServerCapabilities
from agent_utilities.mcp.capabilities.toolchains import Toolchains
from agent_utilities.mcp.surface.components import entry_of
from agent_utilities.mcp.surface.surface import Surface
from agent_utilities.mcp.surface.verdict import Verdict
from agent_utilities.mcp.taken_capabilities import Taken
from agent_utilities.mcp.upstreams.provider import UpstreamProvider
from agent_utilities.mcp.wire.changes import Changes
from agent_utilities.selection.model import CALLER_CHANNELS, OPERATOR_CHANNELS, Selection, fold
from agent_utilities.upstream.config import GatewayConfig, UpstreamConfig
from agent_utilities.upstream.supervision.supervisor import Upstream
from agent_utilities.upstream.supervision.upstreams import Upstreams

if TYPE_CHECKING:
    from agent_utilities.resolution.resolver import Resolver

logger = logging.getLogger("agent_utilities.capabilities")

_NO_PROFILE = "none"
_LOOK_S = 30.0
"""Seconds after which it is looked again whether anything is kept for nobody."""


class CapableGateway(Protocol):
    """A gateway that has capabilities."""

    surface: Surface
    changes: Changes
    config: GatewayConfig
    upstreams: Upstreams
    upstream_provider: UpstreamProvider
    resolver: Resolver


class GatewayCapabilities:
    """Serves the capabilities of one gateway.

    Args:
        gateway: the gateway.
        offer: what its operator offers.
        offering: where that comes from, and is read again when it changes; None where it stays as it is.
    """

    def __init__(self, gateway: CapableGateway, offer: Offer, offering: Offering | None = None) -> None:
        self._gateway, self.offering = gateway, offering
        self.capabilities = ServerCapabilities(self, offer)
        environ = self.surface.operator.environ if offering is None else offering.environ
        self.toolchains = Toolchains(environ=environ, allow_install=offering is not None and offering.allow_install)

    @property
    def surface(self) -> Surface:
        """What decides."""
        return self._gateway.surface

    def profile_of(self, caller: Selection) -> str | None:
        """Return the profile that holds for a caller, folded: his own, or else the operator's; None for none."""
        for selection, channels in ((caller, CALLER_CHANNELS), (self.surface.operator.selection, OPERATOR_CHANNELS)):
            for channel in reversed(channels):
                setting = selection.get("profile", channel)
                if setting is not None and isinstance(setting.value, tuple):
                    name = fold(setting.value[0])
                    return None if name == _NO_PROFILE else name
        return None

    def tools_seen(self) -> Mapping[str, Sequence[Entry]]:
        """Return the tools of the capabilities' upstreams whose tools are known, by upstream."""
        return {
            name: [entry_of("tool", tool) for tool in tools]
            for name, tools in self._gateway.upstream_provider.tools_of_capabilities().items()
        }

    async def serve_capabilities(self, names: frozenset[str]) -> None:
        """Have the servers of these capabilities as upstreams, connected behind, and those of no others."""
        upstreams = self._gateway.upstreams
        before = {each.config.name for each in upstreams}
        await upstreams.reload(self.config_with(names))
        for each in upstreams:
            if each.config.name not in before and each.config.capabilities:
                self._gateway.changes.beside.start(each.connect())

    def config_now(self) -> GatewayConfig:
        """Return the gateway's configuration with the servers of what somebody has on."""
        return self.config_with(self.capabilities.holders.names())

    def config_with(self, names: frozenset[str]) -> GatewayConfig:
        """Return the gateway's configuration with the servers of capabilities after its own."""
        config = self._gateway.config
        return config.model_copy(update={"upstreams": (*config.upstreams, *self._configs_of(names))})

    def _configs_of(self, names: frozenset[str]) -> list[UpstreamConfig]:
        servers = self.capabilities.offer.servers
        wanted = {server for name in names for server in servers.by_capability.get(name, ())}
        return [config for name, config in servers.configs.items() if name in wanted]

    async def route(self, words: str, usable: frozenset[str]) -> Route:
        """Return where words lead among some capabilities; never fails."""
        return await self._gateway.resolver.capability_router.route(words, usable)

    async def seen(self, capability: str, wait_s: float) -> Sequence[str]:
        """Wait for a capability's servers to be seen; return a line for each that is not."""
        servers = self.capabilities.offer.servers.by_capability.get(capability, ())
        found = [each for name in servers if (each := self._gateway.upstreams.get(name)) is not None]
        unseen = [asyncio.ensure_future(_seen(each)) for each in found if each.snapshot is None]
        if unseen:
            await asyncio.wait(unseen, timeout=wait_s)
        return [_told(each) for each in found if each.snapshot is None]

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
        """Return, of capabilities that lack what they require, a line for each of that; nothing is installed.

        Args:
            names: of the capabilities.
        """
        requiring = self._requiring(names)
        await self.toolchains.look(requiring)
        told = {found.name: self.toolchains.told(await self.toolchains.check(found, tap)) for found, tap in requiring}
        return {name: lines for name, lines in told.items() if lines}

    def _requiring(self, names: Iterable[str]) -> list[tuple[Capability, Path]]:
        """Return those of some capabilities that require anything, each with its tap."""
        known = self.capabilities.offer.capabilities
        found = ((known.by_name[name], known.taps.get(name)) for name in names if name in known.by_name)
        return [(each, tap) for each, tap in found if each.require and tap is not None]

    async def tell_missing(self, names: Iterable[str]) -> None:
        """Log what is missing of capabilities that were switched on otherwise than by the tool, which tells it."""
        for name, lines in (await self.missing(names)).items():
            for line in lines:
                logger.warning("%s is on, and something that it requires is missing: %s", name, line)

    async def follow(self) -> None:
        """Take what the folders say whenever they change, until cancelled; what is on stays on while it is there."""
        if self.offering is not None:
            async for changed in self.offering.changes(self.capabilities.offer.capabilities):
                try:
                    self.take(changed)
                    await self.capabilities.settle()
                except Exception:  # the next edit is followed all the same
                    logger.exception("the capabilities could not be taken")

    async def end_leases(self) -> None:
        """Stop what requests without a session had on, a while after the last of them; until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                await self.capabilities.settle()
            except Exception:  # files are followed, and installers run, all the same
                logger.exception("what is on could not be brought about; it is tried again")

    def take(self, capabilities: Capabilities | None = None) -> None:
        """Offer other capabilities from now on, or the same beside other servers of the gateway's own."""
        if self.offering is not None:
            known = self.capabilities.offer.capabilities if capabilities is None else capabilities
            self.capabilities.take(self.offering.with_servers(known, self._gateway.config.upstreams))
            self.have_routed()

    def have_routed(self) -> None:
        """Have words routed by the triggers that there are now."""
        self._gateway.resolver.capability_router.take(self.capabilities.offer.capabilities.triggers)

    async def count_for(self, verdict: Verdict, taken: Taken) -> tuple[Verdict, int]:
        """Return the verdict for a caller once other capabilities are active, and how many tools he may use then."""
        taken = replace(taken, caller=self.capabilities.selecting(taken.caller, taken.active.names, taken.fixed))
        settled = self.surface.settled(taken.caller)
        after = replace(verdict, effective=settled.effective, bounds=settled.bounds, capabilities=taken, judgements={})
        tools = self._gateway.upstream_provider.tools()
        catalog = [entry_of("tool", tool) for tool in tools]
        return after, sum(after.bounds.refusal(each) is None for each in catalog)


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

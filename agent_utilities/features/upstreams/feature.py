"""Upstreams: the servers of an `mcp.json`, bounded as one and started when they are called."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_utilities.activation.deferral import AUTO
from agent_utilities.catalog.model import KINDS, ComponentKind, entry
from agent_utilities.features.upstreams.first_lists import FirstLists, is_unseen
from agent_utilities.features.upstreams.provider import UpstreamProvider
from agent_utilities.features.upstreams.union import operators_tags
from agent_utilities.mcp.agent_server import AgentServer
from agent_utilities.mcp.answers import has
from agent_utilities.mcp.events import Event, ToolsChanged
from agent_utilities.mcp.fastmcp_internals import make_session_state
from agent_utilities.mcp.feature import Feature
from agent_utilities.mcp.request import Request
from agent_utilities.selection.model import NOTHING, NameSet, Selection, fold
from agent_utilities.upstream.config import GatewayConfig, UpstreamConfig
from agent_utilities.upstream.folders import gateway_folder, with_folder
from agent_utilities.upstream.operator.operator_rules import ConfigFiles, OperatorRules
from agent_utilities.upstream.processes.process import watch_parent
from agent_utilities.upstream.snapshot_store import SnapshotStore
from agent_utilities.upstream.supervision.supervisor import Upstream
from agent_utilities.upstream.supervision.upstreams import Upstreams as Supervised
from agent_utilities.upstream.supervision.upstreams import reach
from agent_utilities.visibility.bounds import Bounds

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

logger = logging.getLogger("agent_utilities.gateway")


@dataclass(frozen=True, slots=True)
class UpstreamRenewed(Event):
    """An upstream lists something else, or is in another state."""

    name: str


@dataclass(frozen=True, slots=True)
class ConfigTaken(Event):
    """The gateway's configuration is another from now on; its upstreams are brought about next."""


class Upstreams(Feature):
    """Puts upstreams behind a server: every channel, bound, query and route holds on the union of theirs.

    Args:
        config: the upstreams' configuration.
        files: the files that it is read from again when they change; None where it stays as it is.
        started_s: the `time.monotonic()` of the start, from which on callers wait; when it is first served where None.
    """

    name = "upstreams"

    def __init__(self, config: GatewayConfig, files: ConfigFiles | None = None, started_s: float | None = None) -> None:
        self.config, self._files, self._started_s = config, files, started_s
        self._is_supervised = asyncio.Event()
        self._parent = os.getppid()  # taken early: it may be gone by the time that anything is served
        self._rules = files.rules() if files is not None else OperatorRules()
        self.more_configs: Callable[[], Sequence[UpstreamConfig]] = tuple
        """Returns the servers that are wanted beside those of the configuration."""

    def attach(self, host: AgentServer) -> None:
        """List what the upstreams' snapshots have; nothing is started yet."""
        super().attach(host)
        operator = host.surface.operator
        operator.has_configured_denies = True
        operator.defers_by_default = AUTO
        host.surface.pin(_pins(self.config), operators_tags(self.config.upstreams))
        folder = operator.settings.gateway_folder
        store = SnapshotStore(gateway_folder("snapshots", folder))
        self.upstreams = Supervised(
            self.config,
            environ=with_folder(operator.environ, folder),
            store=store,
            logs=gateway_folder("logs", folder),
            on_change=self._renew,
            before_import=lambda: make_session_state(host),
        )
        self.provider = UpstreamProvider(self.upstreams, lambda *of: self._rules.denials(*of))
        host.add_provider(self.provider)
        self.first_lists = FirstLists(self.upstreams, self.provider, store)
        host.add_completion_handler(self.provider.complete)

    def _renew(self, upstream: str) -> None:
        self.provider.renew(upstream)
        self.host.notify(UpstreamRenewed(upstream))

    async def bring_about(self) -> None:
        """Have the upstreams of the configuration, and those that are wanted beside them, and no others."""
        every = (*self.config.upstreams, *self.more_configs())
        await self.upstreams.reload(self.config.model_copy(update={"upstreams": every}))

    # -- while it runs -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Supervise the upstreams, have the first lists wait for them, and take what the files say when they change.

        Over stdio it ends with whoever started it.
        """
        if self.more_configs():
            await self.bring_about()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.upstreams.run(self._is_supervised))
            group.create_task(self.first_lists.run(self._is_supervised, self._lists_end_s()))
            group.create_task(self._follow_files())
            if self.host.transport == "stdio":
                group.create_task(watch_parent(lambda: os.kill(os.getpid(), signal.SIGTERM), self._parent))

    def _lists_end_s(self) -> float:
        """Return the event loop's time until which the first lists ever wait for what was never seen."""
        started_s = asyncio.get_running_loop().time() if self._started_s is None else self._started_s
        return started_s + self.host.surface.operator.settings.first_list_s

    async def _follow_files(self) -> None:
        """Take what the files say when they change; sessions stay."""
        if self._files is not None:
            async for config, rules in self._files.changes():
                try:
                    await self.reload(config, rules)
                except Exception:  # the next edit is followed all the same
                    logger.exception("the configuration could not be taken")

    async def reload(self, config: GatewayConfig, rules: OperatorRules | None = None) -> None:
        """Serve another configuration, under other rules if given; what is the same in it stays connected."""
        self.config, self._rules = config, rules or self._rules
        self.host.notify(ConfigTaken())
        self.host.surface.pin(_pins(config), operators_tags(config.upstreams))
        await self.bring_about()
        self.provider.renew()
        self.host.notify(ToolsChanged())  # what servers are said to be may have changed, and no list with it

    # -- what is not there yet ---------------------------------------------------------------------------------------

    def toolsets_to_come(self) -> Sequence[str]:
        """Return the toolsets of upstreams that were never reached: a path may name them, as it may when they were."""
        return [name for each in self.upstreams if is_unseen(each) for name in (each.config.name, *each.config.tags)]

    def absent(self, bounds: Bounds) -> Sequence[str]:
        """Return the upstreams whose components are not all known yet, of those that the caller may learn of."""
        lacking = [each for each in self.upstreams if is_unseen(each) or _is_lacking(each)]
        return [each.config.name for each in lacking if self._may_learn_of(each, bounds)] if lacking else ()

    async def wait_for_first(self, caller: Selection, kind: ComponentKind, name: str | None) -> None:
        """Wait for what was never seen, in the first seconds after the start.

        Whether a name is denied or was never there makes no difference to how long it takes (law L1): it waits for the
        upstreams that may have it and that the caller may learn of, unless it is one that they may use.
        """
        if not self.first_lists.are_open:
            return
        verdict = self.host.surface.verdict(caller, shapes_lists=False)

        def is_wanted(upstream: Upstream) -> bool:
            may_have = name is None or kind not in ("tool", "prompt") or name.startswith(self._prefix_of(upstream))
            return may_have and self._may_learn_of(upstream, verdict.bounds)

        if name is not None and any(is_unseen(each) and is_wanted(each) for each in self.upstreams):
            with self.host.surface.under_verdict(verdict):
                if await has(self.host, kind, name):
                    return
        await self.first_lists.wait(is_wanted)

    def _prefix_of(self, upstream: Upstream) -> str:
        return self.provider.prefix_of(upstream.config.name)

    def _may_learn_of(self, upstream: Upstream, bounds: Bounds) -> bool:
        """Whether bounds may leave anything of an upstream that was never seen: by its name, and its toolsets."""
        config = upstream.config
        capabilities = frozenset(config.capabilities) or None
        tags = (config.name, *config.tags)
        prefix = self._prefix_of(upstream)
        return bounds.may_permit(entry("tool", prefix, tags=tags, read_only=True, capabilities=capabilities))

    async def know_everything(self) -> None:
        """Reach every upstream that was never reached, and return when each has answered or failed; said on stderr."""
        if unseen := [each.config.name for each in self.upstreams if is_unseen(each)]:
            print(f"asking what was never listed yet: {', '.join(unseen)}", file=sys.stderr)
        await reach(self.upstreams, is_unseen)

    # -- what is told ------------------------------------------------------------------------------------------------

    def health(self) -> Mapping[str, Any]:
        """Return under `upstreams` the state of each of which the operator permits anything.

        Everybody may read it: there is no address, path or text of an upstream in it, no name that the operator's
        bounds hide and no count of what they deny; nor a server that runs because somebody has a capability on.
        """
        bounds = self.host.surface.verdict(NOTHING, shapes_lists=False).bounds
        permitted = self.provider.upstreams_of(bounds)
        told = {
            each.config.name: _told(each, permitted.get(each.config.name, 0))
            for each in self.upstreams
            if each.config.name in permitted or (each.snapshot is None and self._may_learn_of(each, bounds))
        }
        return {"upstreams": told}

    def start_lines(self) -> Sequence[str]:
        """Return which upstreams are not listed yet, and where their names were changed."""
        unseen = [each.config.name for each in self.upstreams if is_unseen(each)]
        lines = [f"not reached yet, and listed when they are: {', '.join(unseen)}"] if unseen else []
        return [*lines, *self.provider.notices]

    async def instructions(self, request: Request) -> str | None:
        """Return what the upstreams say of themselves that the caller may use."""
        permitted = [component for kind in KINDS for component in await self.host.components(kind)]
        return self.provider.instructions(permitted)

    def register_metrics(self, registry: CollectorRegistry) -> None:
        """Register what the upstreams do, in all."""
        from agent_utilities.features.upstreams.metrics import UpstreamCollector

        registry.register(UpstreamCollector(self.upstreams))


def _pins(config: GatewayConfig) -> NameSet:
    """Return the toolsets of the upstreams that are not lazy."""
    return NameSet(toolsets=frozenset(fold(each.name) for each in config.upstreams if not each.lazy))


def _is_lacking(upstream: Upstream) -> bool:
    """Whether an upstream is a gateway that has not reached all of its own yet."""
    return upstream.snapshot is not None and upstream.snapshot.n_absent > 0 and upstream.config.enabled


def _told(upstream: Upstream, n_tools: int) -> dict[str, Any]:
    state = upstream.state
    told: dict[str, Any] = {"state": state.name, "tools": n_tools}
    return {**told, "cause": state.cause, "failures": state.n_failures} if state.cause else told

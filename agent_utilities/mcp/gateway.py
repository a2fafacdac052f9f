"""`create_gateway()`: every server of an `mcp.json` behind one bounded endpoint."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_utilities.activation.deferral import AUTO
from agent_utilities.catalog.model import KINDS, ComponentKind, entry
from agent_utilities.mcp.capabilities.gateway_capabilities import GatewayCapabilities
from agent_utilities.mcp.capabilities.offering import Offering
from agent_utilities.mcp.capabilities.server_capabilities import Offer
from agent_utilities.mcp.capable_server import CapableServer
from agent_utilities.mcp.command_line.version import installed_version
from agent_utilities.mcp.fastmcp_internals import make_session_state
from agent_utilities.mcp.lifespan import with_background
from agent_utilities.mcp.upstreams.first_lists import FirstLists, is_unseen
from agent_utilities.mcp.upstreams.instructions import joined
from agent_utilities.mcp.upstreams.provider import UpstreamProvider
from agent_utilities.mcp.upstreams.union import operators_tags
from agent_utilities.selection.model import NOTHING, NameSet, Selection, fold
from agent_utilities.upstream.config import GatewayConfig
from agent_utilities.upstream.configuration.config_files import read_config, read_servers
from agent_utilities.upstream.folders import gateway_folder, with_folder
from agent_utilities.upstream.operator.config_watch import ConfigFiles
from agent_utilities.upstream.operator.operator_rules import OperatorRules
from agent_utilities.upstream.processes.process_guard import watch_parent
from agent_utilities.upstream.snapshots.snapshot_store import SnapshotStore
from agent_utilities.upstream.supervision.reaching import reach
from agent_utilities.upstream.supervision.supervisor import Upstream
from agent_utilities.upstream.supervision.upstreams import Upstreams
from agent_utilities.visibility.bounds import Bounds

if TYPE_CHECKING:
    from agent_utilities.mcp.observers.metrics import Metrics

logger = logging.getLogger("agent_utilities.gateway")

Config = GatewayConfig | Mapping[str, Any] | str | Path | Sequence[str | Path]
"""What names a gateway's upstreams: a config, an `mcp.json`'s content, or files."""


class Gateway(CapableServer):
    """An `AgentServer` in front of upstreams: every channel, bound, query and route holds on the union of theirs.

    Args:
        config: the upstreams' configuration.
        files: the files that it is read from again when they change; None where it stays as it is.
        offer: the capabilities that callers may switch on; None for none.
        offering: where they come from, and are read again when they change; None where they stay as they are.
        started_s: the `time.monotonic()` of its start, from which on callers wait for it; when it is first served where
            None.
        name, instructions, environ, options: as for `AgentServer`.
    """

    def __init__(
        self,
        config: GatewayConfig,
        name: str,
        instructions: str | None = None,
        *,
        files: ConfigFiles | None = None,
        offer: Offer | None = None,
        offering: Offering | None = None,
        environ: Mapping[str, str] | None = None,
        started_s: float | None = None,
        **options: Any,
    ) -> None:
        self._started_s, self._is_supervised = started_s, asyncio.Event()
        self.config, self._files = config, files
        self._parent = os.getppid()  # taken early: it may be gone by the time that anything is served
        self._rules = files.rules() if files is not None else OperatorRules()
        lifespan = with_background(
            [self._supervise, self._open_lists, self._follow_files, self.follow_capabilities],
            options.pop("lifespan", None),
        )
        options.setdefault("version", installed_version("agent-utilities"))
        # What an upstream lists is shown as it is, and not gone through for references at every list.
        options.setdefault("dereference_schemas", False)
        super().__init__(name, instructions, environ=environ, lifespan=lifespan, **options)
        operator = self.surface.operator
        operator.has_configured_denies = True
        operator.defers_by_default = AUTO
        self.usage.counts_by_default = True
        self.surface.pin(_pins(config), operators_tags(config.upstreams))
        self.toolsets_to_come = self._toolsets_to_come
        folder = operator.settings.gateway_folder
        if offer is not None:
            self.have(GatewayCapabilities(self, offer, offering))
        self.upstreams = Upstreams(
            self._config_served(),
            environ=with_folder(operator.environ, folder),
            store=(store := SnapshotStore(gateway_folder("snapshots", folder))),
            logs=gateway_folder("logs", folder),
            on_change=self._renew,
            before_import=lambda: make_session_state(self),
        )
        self.upstream_provider = UpstreamProvider(self.upstreams, lambda *of: self._rules.denials(*of))
        self.add_provider(self.upstream_provider)
        self.first_lists = FirstLists(lambda: self.upstreams, self.upstream_provider, store)
        self.add_completion_handler(self.upstream_provider.complete)

    def _renew(self, upstream: str) -> None:
        self.upstream_provider.renew(upstream)
        if self.capabilities is not None:
            self.capabilities.forget_seen()

    def _config_served(self) -> GatewayConfig:
        """Return the gateway's own configuration, with the servers of the capabilities that somebody has on."""
        return self.config if self.gateway_capabilities is None else self.gateway_capabilities.config_now()

    async def run_stdio_async(self, *args: Any, **options: Any) -> None:
        """Serve over stdio until stopped, or until whoever started it is gone; see `FastMCP.run_stdio_async`."""
        watching = asyncio.create_task(watch_parent(lambda: os.kill(os.getpid(), signal.SIGTERM), self._parent))
        try:
            await super().run_stdio_async(*args, **options)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _supervise(self) -> None:
        await self.upstreams.run(self._is_supervised)

    async def _open_lists(self) -> None:
        """Have the first lists ever wait for what was never seen."""
        started_s = asyncio.get_running_loop().time() if self._started_s is None else self._started_s
        await self.first_lists.run(self._is_supervised, started_s + self.surface.operator.settings.first_list_s)

    async def _follow_files(self) -> None:
        """Take what the files say when they change; sessions stay."""
        if self._files is not None:
            async for config, rules in self._files.changes():
                try:
                    await self.reload(config, rules)
                except Exception:  # the next edit is followed all the same
                    logger.exception("the configuration could not be taken")

    async def reload(self, config: GatewayConfig, rules: OperatorRules | None = None) -> None:
        """Serve another configuration; upstreams that are the same in it keep their connections, sessions stay.

        Args:
            config: the configuration from now on.
            rules: the operator's rules; as they are where None.
        """
        self.config, self._rules = config, rules or self._rules
        if self.gateway_capabilities is not None:
            self.gateway_capabilities.take()
        self.surface.pin(_pins(config), operators_tags(config.upstreams))
        await self.upstreams.reload(self._config_served())
        self.upstream_provider.renew()
        self.resolver.refresh()  # what servers are said to be may have changed, and no list with it

    def _toolsets_to_come(self) -> Sequence[str]:
        """Return the toolsets of upstreams that were never reached: a path may name them, as it may when they were."""
        return [name for each in self.upstreams if is_unseen(each) for name in (each.config.name, *each.config.tags)]

    # -- what is told of upstreams -----------------------------------------------------------------------------------

    def absent(self, bounds: Bounds) -> Sequence[str]:
        """Return the upstreams whose components are not all known yet, of those that the caller may learn of."""
        lacking = [each for each in self.upstreams if is_unseen(each) or _is_lacking(each)]
        return [each.config.name for each in lacking if self._may_learn_of(each, bounds)] if lacking else ()

    async def wait_for_first(self, caller: Selection, kind: ComponentKind, name: str | None = None) -> None:
        """Wait for what was never seen, in the first seconds after the start; see `Host`.

        Whether a name is denied or was never there makes no difference to how long it takes (law L1): it waits for the
        upstreams that may have it and that the caller may learn of, unless it is one that they may use.
        """
        if not self.first_lists.are_open:
            return
        verdict = self.surface.verdict(caller, shapes_lists=False)

        def is_wanted(upstream: Upstream) -> bool:
            may_have = name is None or kind not in ("tool", "prompt") or name.startswith(self._prefix_of(upstream))
            return may_have and self._may_learn_of(upstream, verdict.bounds)

        if name is not None and any(is_unseen(each) and is_wanted(each) for each in self.upstreams):
            with self.surface.under_verdict(verdict):
                if await self._has(kind, name):
                    return
        await self.first_lists.wait(is_wanted)

    def _prefix_of(self, upstream: Upstream) -> str:
        return self.upstream_provider.prefix_of(upstream.config.name)

    def _may_learn_of(self, upstream: Upstream, bounds: Bounds) -> bool:
        """Whether bounds may leave anything of an upstream that was never seen: by its name, and its toolsets."""
        config = upstream.config
        capabilities = frozenset(config.capabilities) or None
        tags = (config.name, *config.tags)
        prefix = self._prefix_of(upstream)
        return bounds.may_permit(entry("tool", prefix, tags=tags, read_only=True, capabilities=capabilities))

    def health(self) -> dict[str, Any]:
        """Return the server's health, and under `upstreams` the state of each of which the operator permits anything.

        Everybody may read it: there is no address, path or text of an upstream in it, no name that the operator's
        bounds hide and no count of what they deny; nor a server that runs because somebody has a capability on.
        """
        bounds = self.surface.verdict(NOTHING, shapes_lists=False).bounds
        permitted = self.upstream_provider.upstreams_of(bounds)
        told = {
            each.config.name: _told(each, permitted.get(each.config.name, 0))
            for each in self.upstreams
            if each.config.name in permitted or (each.snapshot is None and self._may_learn_of(each, bounds))
        }
        return {**super().health(), "upstreams": told}

    def told_at_start(self) -> Sequence[str]:
        """Return what any server says, which upstreams are not listed yet, and where their names were changed."""
        unseen = [each.config.name for each in self.upstreams if is_unseen(each)]
        lines = [f"not reached yet, and listed when they are: {', '.join(unseen)}"] if unseen else []
        return [*super().told_at_start(), *lines, *self.told_of_capabilities(), *self.upstream_provider.notices]

    @property
    def settles(self) -> bool:
        """Whether graph and index are made before any query: no, they weigh more than all else of a gateway."""
        return False

    def made_metrics(self) -> Metrics:
        """Return the metrics that observe this gateway, and its upstreams in all."""
        from agent_utilities.mcp.observers.upstream_metrics import UpstreamCollector

        metrics = super().made_metrics()
        metrics.add(UpstreamCollector(self.upstreams))
        if self.capabilities is not None:
            metrics.count_capabilities(self.capabilities.health)
        return metrics

    async def caller_instructions(self) -> str | None:
        """Return the gateway's instructions, and those of the upstreams that the present caller may use."""
        permitted = [component for kind in KINDS for component in await self.components(kind)]
        return await self.with_deferred(joined(self.instructions, self.upstream_provider.instructions(permitted)))

    async def know_everything(self) -> None:
        """Reach every upstream that was never reached, and return when each has answered or failed; said on stderr."""
        if unseen := [each.config.name for each in self.upstreams if is_unseen(each)]:
            print(f"asking what was never listed yet: {', '.join(unseen)}", file=sys.stderr)
        await reach(self.upstreams, is_unseen)


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


def create_gateway(
    config: Config,
    name: str = "gateway",
    instructions: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    **options: Any,
) -> Gateway:
    """Return a server that bounds every server of an `mcp.json`, and starts one when it is called.

    Args:
        config: a file, or several, later over earlier by server name; or the content of one, as a mapping.
        name: the gateway's name, as clients see it.
        instructions: what the gateway is for; what its upstreams say of themselves by default.
        environ: the environment to read `MCP_*` variables, and the config's variables, from.
        options: as for `create_mcp_server`.

    Raises:
        ConfigError: no file can be read. A server that can't be taken is told in `config.problems`, and left out.
    """
    variables = os.environ if environ is None else environ
    files = None
    match config:
        case GatewayConfig():
            read = config
        case Mapping():
            read = read_servers(config, variables)
        case _:
            paths = [Path(config)] if isinstance(config, str | Path) else [Path(file) for file in config]
            read = read_config(paths, variables)
            files = ConfigFiles(paths, variables, read)
    return Gateway(read, name, instructions, files=files, environ=environ, **options)

"""The upstreams feature: the servers of an `mcp.json`, bounded as one and started when they are called."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from fastmcp.server.providers import Provider

from agent_utilities.catalog.model import KINDS, ComponentKind, entry
from agent_utilities.compat import left_out, sdk_client
from agent_utilities.compat.fastmcp_server import import_state
from agent_utilities.gateway.components import OfUpstream, operators_tags
from agent_utilities.gateway.provider import Union, UpstreamProvider
from agent_utilities.gateway.skills import Skills
from agent_utilities.gateway.subscriptions import Subscriptions, tells_updates
from agent_utilities.gateway.tasks import TASKS, TaskIds, Tasks
from agent_utilities.gateway.upstreams.config import GatewayConfig, UpstreamConfig
from agent_utilities.gateway.upstreams.folders import gateway_folder, with_folder
from agent_utilities.gateway.upstreams.operator.lock import Change, accept, changes, read_lock, write_lock
from agent_utilities.gateway.upstreams.operator.operator_rules import ConfigFiles, OperatorRules
from agent_utilities.gateway.upstreams.processes.process import watch_parent
from agent_utilities.gateway.upstreams.snapshot_store import SnapshotStore
from agent_utilities.gateway.upstreams.supervision.upstream import Upstream
from agent_utilities.gateway.upstreams.supervision.upstreams import Upstreams as Supervised
from agent_utilities.gateway.upstreams.supervision.upstreams import reach
from agent_utilities.policy.bounds import Bounds
from agent_utilities.protocol.fit import SKILLS_EXTENSION
from agent_utilities.runtime.waiting import Deadline, in_daemon_thread
from agent_utilities.seam import host as seam
from agent_utilities.seam.events import Event, Pinned, PolicyChanged, SessionEnded, ToolsChanged, UpstreamsRenewed
from agent_utilities.seam.feature import NOT_TAKEN, Feature
from agent_utilities.seam.host import Completions, Host, Pending, QuotaSource, ResultSource, WireMiddleware, find
from agent_utilities.seam.request import Call, Request
from agent_utilities.seam.verdict import UnderVerdict
from agent_utilities.selection.active import AUTO
from agent_utilities.selection.model import NOTHING, NameSet, Selection, fold
from agent_utilities.settings import ApproveRule, Quota, ResultRule

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

logger = logging.getLogger("agent_utilities.gateway")


@dataclass(frozen=True, slots=True)
class ConfigTaken(Event):
    """The gateway took a new configuration; its upstreams are started and stopped next."""


class MoreServers(Protocol):
    """Offered by a feature that needs servers beside those of the configuration."""

    def configs(self) -> Sequence[UpstreamConfig]:
        """Return their configurations."""


class CallersOwn(Protocol):
    """Offered by a feature that serves each caller servers of their own."""

    def union(self) -> Union | None:
        """Return the lists of the present caller's servers, or None."""


class Upstreams(Feature):
    """Serves upstreams through a gateway: every channel, bound, query and route covers the union of their components.

    Args:
        files: the files to read the configuration from again when they change; None where it stays as it is.
        started_s: the `time.monotonic()` of the start, from which on callers wait; None for when it is first served.
    """

    name = "upstreams"
    hears = (SessionEnded,)

    def __init__(self, config: GatewayConfig, files: ConfigFiles | None = None, started_s: float | None = None) -> None:
        self.config, self._files, self._started_s = config, files, started_s
        self._is_supervised = asyncio.Event()
        self._first_lists_end_s = 0.0  # the event loop's time from which no first list waits
        self._parent = os.getppid()  # taken early: it may be gone by the time that anything is served
        self._rules = files.rules() if files is not None else OperatorRules()
        self.turned_off: frozenset[str] = frozenset()
        """The upstreams that an operator has turned off while the gateway runs."""
        self._accepting = asyncio.Lock()

    def attach(self, host: Host) -> None:
        """List components from the upstreams' snapshots; nothing is started yet."""
        super().attach(host)
        operator, folder = host.operator, host.operator.settings.gateway_folder
        host.notify(_pinned(self.config))
        self._store = SnapshotStore(gateway_folder("snapshots", folder))
        self.upstreams = Supervised(
            self._for_everybody(),
            environ=with_folder(operator.environ, folder),
            store=self._store,
            logs=gateway_folder("logs", folder),
            on_change=lambda _: self.provider.renew(),
            before_import=import_state,
        )
        self.provider = UpstreamProvider(self.upstreams, lambda *of: self._rules.denials(*of))
        ids = self.provider.waiting.task_ids = TaskIds(host)
        self.tasks = Tasks(host, ids, self.provider.tools, self)
        self.subscriptions, self.skills = Subscriptions(host, self), Skills(host, self.provider, self)
        host.offer(WireMiddleware, lambda: self.tasks)
        host.offer(WireMiddleware, lambda: self.skills)
        self.provider.on_taken = partial(host.notify, UpstreamsRenewed())
        self.provider.of_caller = lambda: None if (own := find(host, CallersOwn)) is None else own.union()
        host.offer(Provider, lambda: self.provider)
        host.offer(Completions, lambda: self.provider)
        host.offer(Pending, lambda: self)
        host.offer(QuotaSource, lambda: self)
        host.offer(ResultSource, lambda: ResultSource(self.result_rules))
        host.offer(seam.ApproveSource, lambda: seam.ApproveSource(self.approve_rules))
        unseen = [each.config for each in self.upstreams if is_unseen(each)]
        self._late = {config.digest for config in unseen if self._store.is_late(config)}

    def quotas(self) -> Mapping[str, Quota]:
        """Return the quotas in the upstreams' configuration, by name."""
        return {each.config.name: each.config.quota for each in self.upstreams if each.config.quota is not None}

    def result_rules(self) -> Mapping[str, Mapping[str, ResultRule]]:
        """Return how results of the upstreams' tools are shortened, by upstream and by the tool's own name."""
        return {each.config.name: each.config.results for each in self.upstreams if each.config.results}

    def approve_rules(self) -> Mapping[str, ApproveRule]:
        """Return which of the upstreams' tools are called after a person's yes alone, by upstream."""
        return {each.config.name: each.config.approve for each in self.upstreams if each.config.approve is not None}

    async def bring_about(self) -> None:
        """Start and stop upstreams to match the configuration and the further servers of features."""
        await self.upstreams.reload(self._for_everybody())
        for name, what in (("quotas", self.quotas()), ("approvals", self.approve_rules())):
            if what and all(each.name != name for each in self.host.offered(Feature)):
                logger.warning("the %s of %s are held once the gateway starts anew", name, ", ".join(what))

    def _for_everybody(self) -> GatewayConfig:
        """Return the configuration of what runs for all callers alike, without servers of callers' own logins.

        Over stdio the user who launched the gateway is the only caller, and their login is the gateway's.
        """
        off = [] if self.host.transport == "stdio" else self.of_callers()
        every = [
            each.model_copy(update={"enabled": False}) if each in off or each.name in self.turned_off else each
            for each in self._every()
        ]
        return self.config.model_copy(update={"upstreams": tuple(every)})

    def _every(self) -> tuple[UpstreamConfig, ...]:
        wanted = [config for each in self.host.offered(MoreServers) for config in each.configs()]
        return (*self.config.upstreams, *wanted)

    def of_callers(self) -> list[UpstreamConfig]:
        """Return the servers that each caller logs in at with an account of their own."""
        off, every = self.turned_off, self._every()
        return [each for each in every if each.credentials == "caller" and each.enabled and each.name not in off]

    # -- while it runs -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Supervise the upstreams, make the first lists wait for them, and reload the files when they change.

        Over stdio it ends with its parent process.
        """
        if len(self._every()) > len(self.config.upstreams) or self.of_callers():  # not known before it was served
            await self.bring_about()
        started_s = asyncio.get_running_loop().time() if self._started_s is None else self._started_s
        self._first_lists_end_s = started_s + self.host.operator.settings.first_list_s
        async with asyncio.TaskGroup() as group:
            group.create_task(self.upstreams.run(self._is_supervised))
            group.create_task(self._follow_first_lists())
            group.create_task(self._follow_files())
            if self.host.transport == "stdio":
                group.create_task(watch_parent(lambda: os.kill(os.getpid(), signal.SIGTERM), self._parent))

    async def _follow_files(self) -> None:
        if self._files is not None:
            async for config, rules in self._files.changes():
                try:
                    await self.reload(config, rules)
                except Exception:  # the next edit is followed all the same
                    logger.exception("the configuration could not be taken")

    async def reload(self, config: GatewayConfig, rules: OperatorRules | None = None) -> None:
        """Serve another configuration, and other rules where they are not None; unchanged servers stay connected."""
        if rules is not None and rules != self._rules:
            self.host.notify(PolicyChanged("lock", f"{rules.lock_file.name}: what was accepted of upstreams"))
        if config != self.config:
            self.host.notify(PolicyChanged("config", f"{len(config.upstreams)} servers"))
        self.config, self._rules = config, rules or self._rules
        self.host.notify(ConfigTaken())
        self.host.notify(_pinned(config))
        await self._served_anew()

    async def turn(self, name: str, *, on: bool) -> None:
        """Turn an upstream on or off for everybody; it stays off until turned on or the gateway is restarted."""
        self.turned_off = self.turned_off - {name} if on else self.turned_off | {name}
        await self._served_anew()

    async def _served_anew(self) -> None:
        await self.bring_about()
        self.provider.renew()
        self.host.notify(ToolsChanged())  # the descriptions of servers may have changed without any list

    def changes(self, upstream: Upstream) -> list[Change]:
        """Return the differences of an upstream from what was accepted; none where nothing is locked."""
        lock, snapshot = self._rules.lock, upstream.snapshot
        return [] if lock is None or snapshot is None else changes(lock, [snapshot])

    async def accept(self, change: Change) -> None:
        """Accept a change of an upstream in the lock file, and serve it.

        Raises:
            InputError: the lock file can't be read, or written.
        """
        file = self._rules.lock_file

        def written() -> OperatorRules:
            write_lock(file, accept(read_lock(file) or {}, [change]))
            return OperatorRules(read_lock(file), file)

        async with self._accepting:  # each writes the file whole, with what was there
            await self.reload(self.config, await in_daemon_thread(written))

    # -- components that are not known yet -----------------------------------------------------------------------------

    def toolsets_to_come(self) -> Sequence[str]:
        """Return the toolsets of upstreams that were never reached, so that a path may name them already."""
        unseen = [each.config for each in self.upstreams if is_unseen(each)]
        return [name for each in (*unseen, *self.of_callers()) for name in (each.name, *each.tags)]

    def absent(self, bounds: Bounds) -> Sequence[str]:
        """Return the upstreams whose components are not all known yet, of those that the caller may learn of."""
        enabled = [each for each in self.upstreams if each.config.enabled]
        # A gateway says how many of its own upstreams it has not reached yet.
        lacking = [each for each in enabled if each.snapshot is None or each.snapshot.n_absent > 0]
        return [each.config.name for each in lacking if self.may_learn_of(each, bounds)]

    # -- first lists: many hosts list once and never again, so for some seconds they wait for what was never seen ------

    @property
    def _first_lists_wait(self) -> bool:
        return asyncio.get_running_loop().time() < self._first_lists_end_s

    def _waited_for(self) -> list[Upstream]:
        """Return the upstreams that were never seen, except those that failed or came late at an earlier start."""
        return [each for each in self.upstreams if is_unseen(each) and each.config.digest not in self._late]

    async def wait_for_first(self, caller: Selection, kind: ComponentKind, name: str | None) -> None:
        """Wait for components that were never seen, in the first seconds after the start.

        The time is the same for a denied name as for an unknown one (law L1): it waits for the upstreams that may have
        it and that the caller may learn of, unless it is a name that they may use.
        """
        if not self._first_lists_wait:
            return
        verdict = self.host.verdict(caller, shapes_lists=False)

        def is_wanted(upstream: Upstream) -> bool:
            prefix = self.provider.prefix_of(upstream.config.name)
            may_have = name is None or kind not in ("tool", "prompt") or name.startswith(prefix)
            return may_have and self.may_learn_of(upstream, verdict.bounds)

        if name is not None and any(is_unseen(each) and is_wanted(each) for each in self.upstreams):
            with UnderVerdict(verdict):
                if await self.host.component(kind, name) is not None:
                    return
        if wanted := list(filter(is_wanted, self._waited_for())):
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._first_lists_end_s):
                    await self._is_supervised.wait()
                    await asyncio.gather(*(each.was_tried.wait() for each in wanted))
                    await self.provider.taken()

    async def _follow_first_lists(self) -> None:
        """Log the progress of the upstreams that first lists wait for, and store those that fail or come late."""
        if not self._first_lists_wait or not (waited_for := self._waited_for()):
            return
        await self._is_supervised.wait()
        await asyncio.gather(*map(self._follow_first_list, waited_for))

    async def _follow_first_list(self, upstream: Upstream) -> None:
        """Log that an upstream has come; store one that failed or was late, so that later starts don't wait for it."""
        await Deadline(self._first_lists_end_s).wait(upstream.was_tried)
        name, snapshot = upstream.config.name, upstream.snapshot
        if snapshot is not None:
            logger.info("first lists: %s has come, %d tools", name, len(snapshot.tools))
        elif upstream in self.upstreams:  # it may be configured away, or anew, meanwhile
            what = "it is listed when it comes, and not waited for again"
            logger.warning("first lists do without %s from now on: %s", name, what)
            await in_daemon_thread(partial(self._store.note_late, upstream.config))

    def may_learn_of(self, upstream: Upstream, bounds: Bounds) -> bool:
        """Whether bounds may permit anything of an upstream that was never seen, by its name and its toolsets."""
        config = upstream.config
        capabilities = frozenset(config.capabilities) or None
        tags = (config.name, *config.tags)
        prefix = self.provider.prefix_of(config.name)
        return bounds.may_permit(entry("tool", prefix, tags=tags, read_only=True, capabilities=capabilities))

    async def know_everything(self) -> None:
        """Reach every upstream that was never reached, and wait until each has answered or failed; noted on stderr."""
        if unseen := [each.config.name for each in self.upstreams if is_unseen(each)]:
            print(f"asking what was never listed yet: {', '.join(unseen)}", file=sys.stderr)
        await reach(self.upstreams, is_unseen)

    # -- health, lines and greetings -----------------------------------------------------------------------------------

    def health(self) -> Mapping[str, Any]:
        """Return, under `upstreams`, the state of each upstream that the operator permits anything of.

        Everybody may read it: there is no address, path or text of an upstream in it, no name that the operator's
        bounds hide and no count of what they deny; nor a server that runs because somebody has a capability on.
        """
        parts = {"upstreams": self.told(self.host.verdict(NOTHING, shapes_lists=False).bounds)}
        refused = self._files.refused if self._files is not None else ()
        return {**parts, **dict.fromkeys(refused, NOT_TAKEN)}

    def told(self, bounds: Bounds) -> dict[str, dict[str, Any]]:
        """Return the upstreams that a caller with these bounds may learn of, each with its state and tool count."""
        permitted = self.provider.upstreams_of(bounds)
        states = {
            each.config.name: _state(each, permitted.get(each.config.name, 0))
            for each in self.upstreams
            if each.config.name in permitted or (each.snapshot is None and self.may_learn_of(each, bounds))
        }
        if self.host.transport != "stdio":
            states |= {each.name: {"state": "per caller"} for each in self.of_callers() if each.name in states}
        return states

    def start_lines(self) -> Sequence[str]:
        unseen = [each.config.name for each in self.upstreams if is_unseen(each)]
        lines = [f"not reached yet, and listed when they are: {', '.join(unseen)}"] if unseen else []
        if self._first_lists_wait and (waited_for := self._waited_for()):
            left_s = self._first_lists_end_s - asyncio.get_running_loop().time()
            names = ", ".join(each.config.name for each in waited_for)
            lines.append(f"first lists wait for what was never seen, {left_s:.1f} s at most: {names}")
        return [*lines, *left_out(sdk_client.PARTS), *self.provider.notices]

    async def after_request(self, request: Request, result: dict[str, Any], call: Call | None) -> dict[str, Any]:
        """Return a greeting with what the caller's upstreams support: updates to subscribe to, tasks, skills."""
        if request.method == "server/discover" and self.tasks.are_told(request):
            has = result["capabilities"]
            has["extensions"] = {**(has.get("extensions") or {}), **TASKS}
        resources = (result.get("capabilities") or {}).get("resources")
        if request.method not in ("initialize", "server/discover") or not isinstance(resources, dict):
            return result
        permitted = self.provider.upstreams_of(request.verdict.bounds)
        is_told = any(tells_updates(each) for each in self.upstreams if each.config.name in permitted)
        if request.method == "initialize":
            is_told = is_told and request.session is not None
        else:  # of the author's own resources they tell themselves, on streams
            own = [each for each in await self.host.components("resource") if not isinstance(each, OfUpstream)]
            is_told = is_told or bool(own)
            bounds, reached = request.verdict.bounds, self.provider.shown().reached.values()
            if any(shot.has_skills and self.may_learn_of(caller.upstream, bounds) for caller, shot, _ in reached):
                result["capabilities"].setdefault("extensions", {}).setdefault(SKILLS_EXTENSION, {})
        resources["subscribe"] = is_told
        return result

    def notify(self, event: Event) -> None:
        if isinstance(event, SessionEnded):
            self.provider.links.forget(event.session_id)

    async def instructions(self, request: Request) -> str | None:
        permitted = [component for kind in KINDS for component in await self.host.components(kind)]
        return self.provider.instructions(permitted, len(self.host.instructions or ""))

    def register_metrics(self, registry: CollectorRegistry) -> None:
        from agent_utilities.gateway.metrics import UpstreamCollector

        registry.register(UpstreamCollector(self.upstreams))


def is_unseen(upstream: Upstream) -> bool:
    """Whether it is not known what an upstream lists."""
    return upstream.config.enabled and upstream.snapshot is None


def _pinned(config: GatewayConfig) -> Pinned:
    """Return the pins of a configuration: the toolsets of the upstreams that are not lazy.

    Upstreams of callers' own logins are pinned too, since no index has them for a search.
    """
    pinned = [each.name for each in config.upstreams if not each.lazy or each.credentials == "caller"]
    pins = NameSet(toolsets=frozenset(map(fold, pinned)))
    return Pinned(pins, operators_tags(config.upstreams), AUTO)


def _state(upstream: Upstream, n_tools: int) -> dict[str, Any]:
    state = upstream.state
    facts: dict[str, Any] = {"state": state.name, "tools": n_tools}
    return {**facts, "cause": state.cause, "failures": state.n_failures} if state.cause else facts

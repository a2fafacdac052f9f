"""Upstreams: the servers of an `mcp.json`, bounded as one and started when they are called."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from agent_utilities.catalog.model import KINDS, ComponentKind, entry
from agent_utilities.compat import left_out, sdk_client
from agent_utilities.compat.fastmcp_server import import_state, low_level_server
from agent_utilities.gateway.components import OfUpstream, operators_tags
from agent_utilities.gateway.provider import UpstreamProvider
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
from agent_utilities.selection.active import AUTO
from agent_utilities.selection.model import NOTHING, NameSet, Selection, fold
from agent_utilities.server.agent_server import AgentServer
from agent_utilities.server.answers import has
from agent_utilities.server.events import Event, PolicyChanged, ToolsChanged
from agent_utilities.server.feature import NOT_TAKEN, Feature
from agent_utilities.server.request import Request
from agent_utilities.settings import Quota

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

logger = logging.getLogger("agent_utilities.gateway")


@dataclass(frozen=True, slots=True)
class UpstreamsRenewed(Event):
    """What upstreams list was taken anew, and is listed here."""


@dataclass(frozen=True, slots=True)
class ConfigTaken(Event):
    """The gateway's configuration is another from now on; its upstreams are brought about next."""


class Upstreams(Feature):
    """Puts upstreams behind a server: every channel, bound, query and route holds on the union of theirs.

    Args:
        files: the files that it is read from again when they change; None where it stays as it is.
        started_s: the `time.monotonic()` of the start, from which on callers wait; when it is first served where None.
    """

    name = "upstreams"

    def __init__(self, config: GatewayConfig, files: ConfigFiles | None = None, started_s: float | None = None) -> None:
        self.config, self._files, self._started_s = config, files, started_s
        self._is_supervised = asyncio.Event()
        self._first_lists_end_s = 0.0  # the event loop's time from which no first list waits
        self._parent = os.getppid()  # taken early: it may be gone by the time that anything is served
        self._rules = files.rules() if files is not None else OperatorRules()
        self.more_configs: Callable[[], Sequence[UpstreamConfig]] = tuple
        """Returns the servers that are wanted beside those of the configuration."""
        self.turned_off: frozenset[str] = frozenset()
        """Names of those that an operator has turned off while the gateway runs."""
        self._accepting = asyncio.Lock()

    def attach(self, host: AgentServer) -> None:
        """List what the upstreams' snapshots have; nothing is started yet."""
        super().attach(host)
        operator = host.surface.operator
        operator.has_configured_denies = True
        operator.defers_by_default = AUTO
        host.surface.pin(_pins(self.config), operators_tags(self.config.upstreams))
        folder = operator.settings.gateway_folder
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
        self.tasks = Tasks(host, ids, self.provider.tools)
        low_level_server(host).middleware.append(self.tasks)
        self.subscriptions, self.skills = Subscriptions(host), Skills(host, self.provider)
        self.provider.on_taken = partial(host.notify, UpstreamsRenewed())
        host.add_provider(self.provider)
        unseen = filter(is_unseen, self.upstreams)
        self._late = {each.config.digest for each in unseen if self._store.is_late(each.config)}
        host.add_completion_handler(self.provider.complete)

    def quotas(self) -> Mapping[str, Quota]:
        """Return how much upstreams may be called, by their names, where their configuration says it."""
        return {each.config.name: each.config.quota for each in self.upstreams if each.config.quota is not None}

    async def bring_about(self) -> None:
        """Have the upstreams of the configuration, and those that are wanted beside them, and no others."""
        await self.upstreams.reload(self._for_everybody())
        if (quotas := self.quotas()) and all(each.name != "quotas" for each in self.host.features):
            why = "there were none at the start; with any under [quota] in your settings file they are"
            logger.warning("the quotas of %s are not held: %s", ", ".join(quotas), why)

    def _for_everybody(self) -> GatewayConfig:
        """Return what runs for all callers alike: nothing of where each logs in themselves.

        Over stdio the one who launched it is the only caller, and their login the gateway's.
        """
        off = [] if self.host.transport == "stdio" else self.of_callers()
        every = [
            each.model_copy(update={"enabled": False}) if each in off or each.name in self.turned_off else each
            for each in (*self.config.upstreams, *self.more_configs())
        ]
        return self.config.model_copy(update={"upstreams": tuple(every)})

    def of_callers(self) -> list[UpstreamConfig]:
        """Return the servers that each caller logs in at with an account of their own."""
        off, every = self.turned_off, (*self.config.upstreams, *self.more_configs())
        return [each for each in every if each.credentials == "caller" and each.enabled and each.name not in off]

    # -- while it runs -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Supervise the upstreams, have the first lists wait for them, and take what the files say when they change.

        Over stdio it ends with whoever started it.
        """
        if self.more_configs() or self.of_callers():  # over what is served was not known before
            await self.bring_about()
        started_s = asyncio.get_running_loop().time() if self._started_s is None else self._started_s
        self._first_lists_end_s = started_s + self.host.surface.operator.settings.first_list_s
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
        """Serve another configuration, under other rules if given; what is the same in it stays connected."""
        if rules is not None and rules != self._rules:
            self.host.notify(PolicyChanged("lock", f"{rules.lock_file.name}: what was accepted of upstreams"))
        if config != self.config:
            self.host.notify(PolicyChanged("config", f"{len(config.upstreams)} servers"))
        self.config, self._rules = config, rules or self._rules
        self.host.notify(ConfigTaken())
        self.host.surface.pin(_pins(config), operators_tags(config.upstreams))
        await self._served_anew()

    async def turn(self, name: str, *, on: bool) -> None:
        """Have an upstream off for everybody until it is turned on again, or the gateway starts anew."""
        self.turned_off = self.turned_off - {name} if on else self.turned_off | {name}
        await self._served_anew()

    async def _served_anew(self) -> None:
        await self.bring_about()
        self.provider.renew()
        self.host.notify(ToolsChanged())  # what servers are said to be may have changed, and no list with it

    def changes(self, upstream: Upstream) -> list[Change]:
        """Return what of an upstream is not as it was accepted; nothing where nothing is locked."""
        lock, snapshot = self._rules.lock, upstream.snapshot
        return [] if lock is None or snapshot is None else changes(lock, [snapshot])

    async def accept(self, change: Change) -> None:
        """Accept something of an upstream as it is told here, in the file of the lock, and serve it.

        Raises:
            InputError: the file can't be read, or written.
        """
        file = self._rules.lock_file

        def written() -> OperatorRules:
            write_lock(file, accept(read_lock(file) or {}, [change]))
            return OperatorRules(read_lock(file), file)

        async with self._accepting:  # each writes the file whole, with what was there
            await self.reload(self.config, await in_daemon_thread(written))

    # -- what is not there yet ---------------------------------------------------------------------------------------

    def toolsets_to_come(self) -> Sequence[str]:
        """Return the toolsets of upstreams that were never reached: a path may name them, as it may when they were."""
        unseen = [each.config for each in self.upstreams if is_unseen(each)]
        return [name for each in (*unseen, *self.of_callers()) for name in (each.name, *each.tags)]

    def absent(self, bounds: Bounds) -> Sequence[str]:
        """Return the upstreams whose components are not all known yet, of those that the caller may learn of."""
        enabled = [each for each in self.upstreams if each.config.enabled]
        # A gateway tells how many of its own it has not reached yet.
        lacking = [each for each in enabled if each.snapshot is None or each.snapshot.n_absent > 0]
        return [each.config.name for each in lacking if self.may_learn_of(each, bounds)]

    # -- first lists: many hosts list once and never again, so for some seconds they wait for what was never seen ------

    @property
    def _first_lists_wait(self) -> bool:
        return asyncio.get_running_loop().time() < self._first_lists_end_s

    def _waited_for(self) -> list[Upstream]:
        """Return the upstreams that were never seen, but for those that failed or came late at an earlier start."""
        return [each for each in self.upstreams if is_unseen(each) and each.config.digest not in self._late]

    async def wait_for_first(self, caller: Selection, kind: ComponentKind, name: str | None) -> None:
        """Wait for what was never seen, in the first seconds after the start.

        Whether a name is denied or was never there makes no difference to how long it takes (law L1): it waits for the
        upstreams that may have it and that the caller may learn of, unless it is one that they may use.
        """
        if not self._first_lists_wait:
            return
        verdict = self.host.surface.verdict(caller, shapes_lists=False)

        def is_wanted(upstream: Upstream) -> bool:
            prefix = self.provider.prefix_of(upstream.config.name)
            may_have = name is None or kind not in ("tool", "prompt") or name.startswith(prefix)
            return may_have and self.may_learn_of(upstream, verdict.bounds)

        if name is not None and any(is_unseen(each) and is_wanted(each) for each in self.upstreams):
            with self.host.surface.under_verdict(verdict):
                if await has(self.host, kind, name):
                    return
        if wanted := list(filter(is_wanted, self._waited_for())):
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._first_lists_end_s):
                    await self._is_supervised.wait()
                    await asyncio.gather(*(each.was_tried.wait() for each in wanted))
                    await self.provider.taken()

    async def _follow_first_lists(self) -> None:
        """Tell how far the upstreams are that first lists wait for, and remember those that fail or come late."""
        if not self._first_lists_wait or not (waited_for := self._waited_for()):
            return
        await self._is_supervised.wait()
        await asyncio.gather(*map(self._follow_first_list, waited_for))

    async def _follow_first_list(self, upstream: Upstream) -> None:
        """Say that an upstream has come; remember it where it fails, or not in time: later starts don't wait for it."""
        await Deadline(self._first_lists_end_s).wait(upstream.was_tried)
        name, snapshot = upstream.config.name, upstream.snapshot
        if snapshot is not None:
            logger.info("first lists: %s has come, %d tools", name, len(snapshot.tools))
        elif upstream in self.upstreams:  # it may be configured away, or anew, meanwhile
            what = "it is listed when it comes, and not waited for again"
            logger.warning("first lists do without %s from now on: %s", name, what)
            await in_daemon_thread(partial(self._store.note_late, upstream.config))

    def may_learn_of(self, upstream: Upstream, bounds: Bounds) -> bool:
        """Whether bounds may leave anything of an upstream that was never seen: by its name, and its toolsets."""
        config = upstream.config
        capabilities = frozenset(config.capabilities) or None
        tags = (config.name, *config.tags)
        prefix = self.provider.prefix_of(config.name)
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
        told = {"upstreams": self.told(self.host.surface.verdict(NOTHING, shapes_lists=False).bounds)}
        refused = self._files.refused if self._files is not None else ()
        return {**told, **dict.fromkeys(refused, NOT_TAKEN)}

    def told(self, bounds: Bounds) -> dict[str, dict[str, Any]]:
        """Return what a caller with these bounds may learn of the upstreams: the state of each, and how many tools."""
        permitted = self.provider.upstreams_of(bounds)
        told = {
            each.config.name: _told(each, permitted.get(each.config.name, 0))
            for each in self.upstreams
            if each.config.name in permitted or (each.snapshot is None and self.may_learn_of(each, bounds))
        }
        if self.host.transport != "stdio":
            told |= {each.name: {"state": "per caller"} for each in self.of_callers() if each.name in told}
        return told

    def start_lines(self) -> Sequence[str]:
        unseen = [each.config.name for each in self.upstreams if is_unseen(each)]
        lines = [f"not reached yet, and listed when they are: {', '.join(unseen)}"] if unseen else []
        if self._first_lists_wait and (waited_for := self._waited_for()):
            left_s = self._first_lists_end_s - asyncio.get_running_loop().time()
            names = ", ".join(each.config.name for each in waited_for)
            lines.append(f"first lists wait for what was never seen, {left_s:.1f} s at most: {names}")
        return [*lines, *left_out(sdk_client.PARTS), *self.provider.notices]

    async def after(self, request: Request, result: dict[str, Any]) -> dict[str, Any]:
        """Return a greeting that says what the caller's upstreams have: updates to be asked for, tasks, skills."""
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

    def session_ended(self, session_id: str) -> None:
        self.provider.links.forget(session_id)

    async def instructions(self, request: Request) -> str | None:
        permitted = [component for kind in KINDS for component in await self.host.components(kind)]
        return self.provider.instructions(permitted, len(self.host.instructions or ""))

    def register_metrics(self, registry: CollectorRegistry) -> None:
        from agent_utilities.gateway.metrics import UpstreamCollector

        registry.register(UpstreamCollector(self.upstreams))


def is_unseen(upstream: Upstream) -> bool:
    """Whether it is not known what an upstream lists."""
    return upstream.config.enabled and upstream.snapshot is None


def _pins(config: GatewayConfig) -> NameSet:
    """Return the toolsets of the upstreams that are not lazy.

    Nor is what each caller has of their own: no index holds it, so that no search would find it.
    """
    pinned = [each.name for each in config.upstreams if not each.lazy or each.credentials == "caller"]
    return NameSet(toolsets=frozenset(map(fold, pinned)))


def _told(upstream: Upstream, n_tools: int) -> dict[str, Any]:
    state = upstream.state
    told: dict[str, Any] = {"state": state.name, "tools": n_tools}
    return {**told, "cause": state.cause, "failures": state.n_failures} if state.cause else told

"""Quotas: rate limits for persons, tools and servers. A call beyond one is refused, with the time to retry.

Calls are counted in windows of a minute that begin with the first call of each. A result's bytes are known only after
the call, and sliding windows would drop a number beyond the limit; here such a result is sent, and the next call
refused. Replicas that share a Redis count together there; concurrent calls are counted by each replica.
"""

from __future__ import annotations

import json
import logging
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from fastmcp.tools.base import Tool
from pydantic import Field, ValidationError

from agent_utilities.access.record.chain import n_bytes_of
from agent_utilities.compat.tasks import tool_of_task
from agent_utilities.errors import AgentUtilitiesError, SettingsError
from agent_utilities.policy.bounds import fits
from agent_utilities.runtime.waiting import in_daemon_thread
from agent_utilities.seam.caller import NOBODY
from agent_utilities.seam.components import origin_of
from agent_utilities.seam.events import Event, PolicyChanged
from agent_utilities.seam.feature import NOT_TAKEN, Feature, Refusal
from agent_utilities.seam.host import Host, QuotaSource, SharedState, find
from agent_utilities.seam.request import TOOL_OF_TASK, Call, Request, ToolCalled
from agent_utilities.selection.model import fold, nearest
from agent_utilities.selection.profiles import PROFILES, QUOTA, SettingsFiles
from agent_utilities.settings import Quota, Settings
from agent_utilities.state.counts import Counts, Wanted

if TYPE_CHECKING:
    import prometheus_client
    from prometheus_client import CollectorRegistry


logger = logging.getLogger("agent_utilities.quotas")

Kind = Literal["person", "tool", "server"]
KINDS: tuple[Kind, ...] = ("person", "tool", "server")

_WINDOW_S = 60
_N_COUNTED = 20_000
"""The most counts that are kept, two for each person; beyond that the least recent caller's begins anew."""
_NO_QUOTA = Quota()
_BOUNDS = _CALLS, _BYTES, _AT_ONCE = tuple(Quota.model_fields)
_WHAT = {_CALLS: "calls a minute", _BYTES: "bytes of results a minute", _AT_ONCE: "calls at once"}


class QuotaTable(Quota):
    """All quotas of a settings file; its own bounds are each person's. The smallest of those that fit holds."""

    profiles: dict[str, Quota] = Field(default_factory=dict)
    """The quotas of each person with a profile, by the profile's folded name."""
    tools: dict[str, Quota] = Field(default_factory=dict)
    """The quotas of each tool that a name or glob fits, for all callers together."""
    servers: dict[str, Quota] = Field(default_factory=dict)
    """The quotas of the servers that tools come from, for all callers together."""

    def of_person(self, profiles: Collection[str]) -> Quota:
        """Return the quota of a person with some profiles."""
        return smallest(self, *(quota for name, quota in self.profiles.items() if name in profiles))


def smallest(*quotas: Quota) -> Quota:
    """Combine quotas: the smallest number of each bound holds."""
    numbers = {bound: [n for quota in quotas if (n := getattr(quota, bound)) is not None] for bound in _BOUNDS}
    return Quota.model_construct(**{bound: min(limits) for bound, limits in numbers.items() if limits})


def of_name(quotas: Mapping[str, Quota], name: str) -> Quota:
    """Return the quota of a tool or a server: the smallest of those whose name or glob fits."""
    return smallest(*(quota for glob, quota in quotas.items() if fits(fold(name), frozenset((fold(glob),)))))


def quotas_of(settings: Settings, files: SettingsFiles) -> QuotaTable:
    """Return the quotas in an operator's settings.

    Raises:
        SettingsError: one can't be read.
    """
    try:
        return QuotaTable.model_validate(settings.quota)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    path = [QUOTA, *map(str, first["loc"])]
    if path[1] == PROFILES:
        path = [PROFILES, path[2], QUOTA, *path[3:]]
    *inside, key = path
    file = next((f"file {file.name}" for file in files.files if QUOTA in file.settings), "settings")
    where = f"{file}: {'.'.join(inside)}"
    known = (*_BOUNDS, "tools", "servers") if inside == [QUOTA] else _BOUNDS
    if first["type"] == "extra_forbidden":
        meant = nearest(key, known)
        hint = f"did you mean {meant}?" if meant else f"there are: {', '.join(known)}"
        raise SettingsError("unknown key", key, where, hint)
    if key in _BOUNDS:
        hint = "write a whole number above 0"
    elif key in known:
        hint = f'write [{QUOTA}.{key}."NAME"] with its bounds below'
    else:
        hint = f"write it as a table with any of: {', '.join(_BOUNDS)}"
    raise SettingsError(f"{key} can't be read", first["input"], where, hint)


@dataclass(frozen=True, slots=True)
class Bounded:
    """A person, tool or server that a call counts for, with its quota."""

    kind: Kind
    name: str
    quota: Quota

    @property
    def key(self) -> str:
        """The key of its counts."""
        return f"{self.kind} {self.name}"

    def limit(self, tool: str, bound: str) -> str:
        """Return the limit in words for the caller, without the name of a server (law L1)."""
        of = {"tool": tool, "server": f"the server of {tool}"}.get(self.kind)
        who = "you" if of is None else f"all callers of {of} together"
        return f"{who} may have {getattr(self.quota, bound)} {_WHAT[bound]}"


class Quotas(Feature):
    """Refuses calls beyond what the operator's settings and the gateway's configuration allow.

    A person is an issuer and its subject; all callers without a token are one. The quota of a tool or a server is for
    all callers together. Lists, searches and denied names are not counted.
    """

    name = "quotas"
    after = ("fleet", "upstreams")
    hears = (ToolCalled, PolicyChanged)

    def __init__(self) -> None:
        self._table, self._is_refused = QuotaTable(), False
        self._counts = Counts(_WINDOW_S, _N_COUNTED)
        self._under_way = Counter[str]()
        self._refusals: prometheus_client.Counter | None = None

    def attach(self, host: Host) -> None:
        """Read the quotas.

        Raises:
            SettingsError: one can't be read.
        """
        super().attach(host)
        self._table = quotas_of(host.operator.settings, host.operator.files)
        if (shared := find(host, SharedState)) is not None:
            from agent_utilities.state.shared_counts import SharedCounts

            self._counts = SharedCounts(shared.redis, _WINDOW_S, _N_COUNTED)

    # -- around calls ------------------------------------------------------------------------------------------------

    async def admit(self, request: Request, call: Call) -> None:
        """Count a call for its person, tool and server.

        Raises:
            Refusal: a quota of one of them is used up; then the call is counted for none.
        """
        bounded = await self._bounded(request, call.name)
        wanted = {
            Wanted(one.key, bound, n, limit): one
            for one in bounded
            for bound, n in ((_CALLS, 1), (_BYTES, 0))
            if (limit := getattr(one.quota, bound)) is not None
        }
        if not (full := self._counts.full(wanted)):
            for one in bounded:
                if one.quota.calls_at_once is not None and self._under_way[one.key] >= one.quota.calls_at_once:
                    raise self._refusal(call, one, _AT_ONCE, 1)
            request.values[self.name] = bounded  # whether it is made or not, `notify` hears of its end
            self._under_way.update(one.key for one in bounded)
            full = await self._counts.take(wanted)
        if full:
            self._leave(request)
            retry_s = {each: max(1, math.ceil(left_s)) for each, left_s in full.items()}
            last = max(retry_s, key=retry_s.__getitem__)
            raise self._refusal(call, wanted[last], last.what, retry_s[last])

    def _refusal(self, call: Call, one: Bounded, bound: str, retry_s: int) -> Refusal:
        """Log and count the refusal of a call, and return it."""
        logger.info("tools/call name=%r refused by quota=%s bound=%s", call.name, one.kind, bound)
        if self._refusals is not None:
            self._refusals.labels(one.kind).inc()
        return Refusal(f"refused by a quota: {one.limit(call.name, bound)}; try again in {retry_s} s")

    async def after_request(self, request: Request, result: dict[str, Any], call: Call | None) -> dict[str, Any]:
        """Count the bytes of a call's result; for a task, when its result is fetched."""
        if call is not None:
            await self._count_bytes(request.values.get(self.name, ()), result)
            return result
        tool, task = request.values.get(TOOL_OF_TASK), request.params.get("taskId")
        if tool is None and task is not None:
            tool, _ = await tool_of_task(self.host, str(task)) or (None, None)
        if tool is not None:
            await self._count_bytes(await self._bounded(request, tool), result)
        return result

    async def _count_bytes(self, bounded: Sequence[Bounded], result: Mapping[str, Any]) -> None:
        if counting := [one for one in bounded if one.quota.bytes_per_minute is not None]:
            n_bytes = await n_bytes_of(result)
            await self._counts.take([Wanted(one.key, _BYTES, n_bytes) for one in counting])

    def notify(self, event: Event) -> None:
        """Release the slots of a call that has ended, however it ended; read quotas again where rules changed."""
        match event:
            case ToolCalled():
                self._leave(event.request)
            case PolicyChanged("rules"):
                self.host.start(self._read_again())

    # -- what a call counts for ----------------------------------------------------------------------------------------

    async def _bounded(self, request: Request, tool: str) -> list[Bounded]:
        person = (request.caller or NOBODY).person
        bounded = [
            Bounded("person", json.dumps(person), self._table.of_person(self._profiles(request))),
            Bounded("tool", tool, of_name(self._table.tools, tool)),
        ]
        of_upstreams = {name: quota for each in self.host.offered(QuotaSource) for name, quota in each.quotas().items()}
        is_by_server = self._table.servers or of_upstreams
        if is_by_server and isinstance(component := await self.host.component("tool", tool), Tool):
            server = origin_of(component, self.host).server.name or self.host.name
            quota = smallest(of_name(self._table.servers, server), of_upstreams.get(server, _NO_QUOTA))
            bounded.append(Bounded("server", server, quota))
        return [one for one in bounded if one.quota != _NO_QUOTA]

    def _profiles(self, request: Request) -> frozenset[str]:
        """Return the folded names of all profiles of a request: the quotas of each hold, as its denies do."""
        grant = self.host.grant_of(request.caller) if self._table.profiles else None
        slots = (*self.host.operator.selection.slots, *request.selection.slots)
        values = [setting.value for (field, _), setting in slots if field == "profile"]
        named = frozenset(str(value[0]) for value in values if isinstance(value, tuple))
        return named if grant is None else named | grant.profiles

    def _leave(self, request: Request) -> None:
        """Release the slots of a call, and drop counters without a call under way."""
        for one in request.values.pop(self.name, ()):
            self._under_way[one.key] -= 1
            if not self._under_way[one.key]:
                del self._under_way[one.key]

    # -- status, and changes of the settings file ----------------------------------------------------------------------

    def start_lines(self) -> Sequence[str]:
        where = (
            "in this process"
            if find(self.host, SharedState) is None
            else "by all replicas together; calls at once by each"
        )
        return [f"calls are bounded by quotas, which are counted {where}"]

    def health(self) -> Mapping[str, Any]:
        return {"quotas": NOT_TAKEN} if self._is_refused else {}

    def register_metrics(self, registry: CollectorRegistry) -> None:
        import prometheus_client

        self._refusals = prometheus_client.Counter(
            "mcp_quota_refusals", "Calls refused by a quota.", ["quota"], registry=registry
        )
        for kind in KINDS:
            self._refusals.labels(kind)

    async def _read_again(self) -> None:
        operator = self.host.operator.again()
        try:
            table = await in_daemon_thread(lambda: quotas_of(operator.settings, operator.files))
        except AgentUtilitiesError as error:
            self._is_refused = True
            logger.error("%s; quotas stay as they were", error)
            return
        self._is_refused = False
        if table != self._table:
            self._table = table
            self.host.notify(PolicyChanged("quotas", "quotas of the settings file were read again"))

"""One request, from its first read to its last byte: made at the edge, and handed on as an argument."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import mcp_types
from fastmcp import FastMCP
from fastmcp.resources.template import match_uri_template
from fastmcp.server.dependencies import get_access_token
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter

from agent_utilities.catalog.model import KINDS, Catalog, ComponentKind
from agent_utilities.compat.fastmcp_server import mounted_server
from agent_utilities.policy.bounds import Bounds
from agent_utilities.policy.curation import Preferences
from agent_utilities.policy.decision import Decision
from agent_utilities.selection.merge import Effective, Narrowings, Within
from agent_utilities.selection.model import NOTHING, Selection, fold
from agent_utilities.server.events import Event
from agent_utilities.server.sessions import Caller, Client, Session, caller_of, of_token
from agent_utilities.server.surface.components import Component, name_of
from agent_utilities.server.surface.surface import Surface, UnderVerdict, Verdict, is_looking_up

if TYPE_CHECKING:
    from agent_utilities.server.agent_server import AgentServer

logger = logging.getLogger("agent_utilities.wire")

TIMES = "upstreams"
"""The key of a request's values that has how long it waited for a server behind, and was there: two numbers, in s."""
RELAYED = "relayed"
"""The key of a request's values that has the result of a server behind, to be handed on as it came."""
LISTED = "listed"
"""The key of a request's values that has its list of tools where that is made already: FastMCP's handler takes it."""
TOOL_OF_TASK = "tool of task"
"""The key of a request's values that has the name of the tool of whose background task, at a server behind, it is."""
HANDED_ON: Mapping[str, Any] = {"agent-utilities/handed-on": True}
"""The `_meta` of what stands for that result, while FastMCP and the SDK have it."""
_ABOUT_TOOLS = frozenset(("", "tools/list", "tools/call", "initialize", "server/discover"))


class Entered(NamedTuple):
    """A server that a request has entered.

    Args:
        host: the server.
        verdict: the bounds that hold there.
        alone: those of them that are not of a request that this one is made in.
    """

    host: AgentServer
    verdict: Verdict
    alone: Effective


@dataclass(frozen=True, eq=False, slots=True)
class Request:
    """What goes through all features.

    Args:
        selection: what the caller asks for.
        verdict: what holds for the request.
        method: as in the protocol; empty for a route or a report.
        params: the request's, as they came.
        session: what outlasts it; None where each request stands alone.
        client: how its client is told of changes; None where it is not to be told.
        caller: who sent it; None where its transport tells of nobody, such as stdio.
        values: by a feature's name, what it decided of the request: nobody else's to read.
        is_dry: whether it is only to be told what would be; nothing is to be kept, started or counted for it.
        page: what it lists, each as it goes out.
        entered: the servers that it, and the requests that it is made in, have entered: its own comes last.
    """

    selection: Selection
    verdict: Verdict
    method: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    session: Session | None = None
    client: Client | None = None
    caller: Caller | None = None
    values: dict[str, Any] = field(default_factory=dict)
    is_dry: bool = False
    page: list[dict[str, Any]] = field(default_factory=list)
    entered: tuple[Entered, ...] = ()

    @property
    def is_about_tools(self) -> bool:
        """Whether it matters to it which tools are deferred."""
        return self.method in _ABOUT_TOOLS

    @property
    def lists_tools(self) -> bool:
        """Whether its preferences choose what is listed."""
        return self.verdict.shapes_lists

    @property
    def words(self) -> str:
        """The words that the caller gave with it; those that an operator gave once for all are nobody's."""
        query = self.verdict.effective.query
        return self.verdict.effective.query_text or "" if query is not None and query.side == "caller" else ""

    def under(self, verdict: Verdict) -> Request:
        """Return the same request under another verdict."""
        return self if verdict is self.verdict else replace(self, verdict=verdict)

    def preferring(self, preferences: Preferences) -> Request:
        """Return the same request with other preferences."""
        if preferences is self.verdict.preferences:
            return self
        return replace(self, verdict=replace(self.verdict, preferences=preferences))


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool.

    Args:
        params: of the request, as the named tool is to be called with.
        is_wrapped: whether another tool's arguments asked for it, so that the request's headers say nothing of it.
        ok: whether it was answered without an error; False before it was.
    """

    params: Mapping[str, Any]
    is_wrapped: bool = False
    ok: bool = False

    @property
    def name(self) -> str:
        """The tool's name."""
        return str(self.params.get("name"))

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The tool's arguments; none where they are no object."""
        given = self.params.get("arguments")
        return given if isinstance(given, Mapping) else {}


@dataclass(frozen=True, slots=True)
class RequestBegan(Event):
    """A request's verdict is made, and it is about to be served."""

    request: Request


@dataclass(frozen=True, slots=True)
class ToolsListed(Event):
    """A list of tools that a caller was given.

    Args:
        asked: the method or route, such as `tools/list` or `GET /tools`.
        decision: what the list was made by.
        summary: what the caller is told of it beside the list.
        request: that it was made for.
    """

    asked: str
    decision: Decision
    summary: Mapping[str, Any]
    request: Request

    def log(self) -> None:
        """Log how it was asked for, and what its caller is told beside it."""
        if logger.isEnabledFor(logging.INFO):
            told = " ".join(f"{key}={value}" for key, value in self.summary.items() if key != "hint")
            logger.info("%s %s", self.asked, told)


@dataclass(frozen=True, slots=True)
class ToolCalled(Event):
    """A call of a tool, over.

    Args:
        name: as the caller spelled it.
        revision: of the surface it was made under.
        ok: whether the tool answered without an error.
        seconds: how long it took.
        decision: what its caller may use.
        request: that it was made by.
    """

    name: str
    revision: str
    ok: bool
    seconds: float
    decision: Decision
    request: Request


_request: ContextVar[Request | None] = ContextVar("agent_utilities_request", default=None)


def request_in_force() -> Request | None:
    """Return the request that is being served, or None without one: FastMCP hands nothing on to what it calls."""
    return _request.get()


def sender_of(request: object) -> Caller | None:
    """Return who is behind a request: who sent it by a token of their own, else who sent the one that it is made in."""
    sender, outer = caller_of(request), request_in_force()
    return sender if outer is None or (sender is not None and sender.token) else outer.caller or sender


@contextmanager
def serving(request: Request) -> Iterator[Request]:
    """Serve a request in a block: it, and its verdict, are in force."""
    token = _request.set(request)
    try:
        with UnderVerdict(request.verdict):
            yield request
    finally:
        _request.reset(token)


# -- what holds for a call that enters a server in the middle of another request: the bounds of that one too (law L1) --

_GET: dict[ComponentKind, str] = {
    "tool": "get_tool",
    "prompt": "get_prompt",
    "resource": "get_resource",
    "template": "get_resource_template",
}
_TOLD = ("fastmcp.delegate.original_", "fastmcp.proxy.backend_")
"""How the attributes begin by which a component of another server tells FastMCP's spans its name there."""


async def entering(
    host: AgentServer, request: Request, narrowings: Narrowings | None, outer: Request | None
) -> Request:
    """Return a request as it enters a server: narrowed by features, and by the one in force that it is made in."""
    surface, selection, lists = host.surface, request.selection, request.verdict.shapes_lists
    verdict = request.verdict
    if narrowings is not None:
        verdict = surface.verdict(selection, shapes_lists=lists, narrowings=narrowings)
    alone, before = verdict, () if outer is None else outer.entered
    if outer is not None:
        within = await bounds_of(outer, host, alone, request.method or "tools/list", request.params)
        narrowings = (*(host.features.bounds_for(selection) if narrowings is None else narrowings), *within)
        verdict = surface.verdict(selection, shapes_lists=lists, narrowings=narrowings)
        verdict = replace(verdict, outer=tuple(each.verdict for each in before))
    entered = (*before, Entered(host, verdict.bounds_alone, alone.effective))
    return replace(request, verdict=verdict, entered=entered)


async def bounds_of(
    outer: Request, host: AgentServer, alone: Verdict, method: str, params: Mapping[str, Any]
) -> tuple[Within, ...]:
    """Return what the request in force, and those that it is made in, take away from one that enters a server.

    Nothing where it is a proxy's, to serve that request: what comes of it is judged by the name that the caller knows.

    Args:
        host: the server that is entered.
        alone: what holds there by itself.
        method, params: what it is entered with.
    """
    is_list = method.endswith("/list")
    if is_looking_up() and (is_list or not _kinds_of(method)):  # a proxy's client greets before it lists
        return ()
    if await _is_of_proxy(outer, method, None if is_list else params):
        return ()
    kinds = _kinds_of(method) or KINDS
    return tuple([await _within(each, host, alone, kinds) for each in outer.entered])


def _kinds_of(method: str) -> Sequence[ComponentKind]:
    return [kind for kind in KINDS if method.startswith("resource" if kind == "template" else kind)]


async def _within(entered: Entered, host: AgentServer, alone: Verdict, kinds: Sequence[ComponentKind]) -> Within:
    """Return what a server that was entered before takes away, by its own names and by those of another.

    A name that a proxy leads to may be any server's: it denies there, and permits nowhere.
    """
    permitted, denied = set[str](), set[str]()
    for kind in kinds if entered.host is not host else ():
        catalog, components = await _listed(entered.host, kind, entered.verdict)
        decision = await entered.host.surface.decide_in_turns(kind, catalog, entered.verdict)
        for i, component in enumerate(components):
            for server, name in await _leading(kind, component):
                if server is host and i in decision.permitted_places:
                    permitted.add(fold(name))
                elif server in (host, None) and i not in decision.permitted_places:
                    denied.add(fold(name))
        # It may be mounted in this one: it holds its own bounds again by itself.
        for component in (await _listed(host, kind, alone))[1]:
            if any(server is entered.host for server, _ in await _leading(kind, component)):
                permitted.add(fold(name_of(kind, component)))
    return Within(entered.alone.bounds_only, frozenset(permitted), frozenset(denied))


async def _listed(host: AgentServer, kind: ComponentKind, verdict: Verdict) -> tuple[Catalog, Sequence[Component]]:
    with UnderVerdict(verdict, looks_up=True):
        catalog = await host.catalog(kind)
    return catalog, host.surface.components_of(kind, catalog)


async def _is_of_proxy(outer: Request, method: str, params: Mapping[str, Any] | None) -> bool:
    """Whether a request is made by the proxy that serves the one in force, for it: a list where it has no params."""
    key = "uri" if outer.method == "resources/read" else "name"
    if key not in outer.params or (params is not None and method != outer.method):
        return False
    for kind in _kinds_of(outer.method):
        with UnderVerdict(outer.verdict, looks_up=True):
            component = await getattr(outer.entered[-1].host, _GET[kind])(str(outer.params[key]))
        for server, name in await _leading(kind, component):
            asked = name if params is None else str(params.get(key))
            if server is None and (asked == name or match_uri_template(asked, name) is not None):
                return True
    return False


async def _leading(kind: ComponentKind, component: Component | None) -> list[tuple[FastMCP[Any] | None, str]]:
    """Return the servers that a component leads to, each with its name there; None for one that a proxy leads to."""
    steps = []
    with UnderVerdict(Surface.unbounded_everywhere(), looks_up=True):
        while component is not None:
            component = getattr(component, "parent_tool", component)  # what a transformed tool was made of
            told = component.get_span_attributes()
            if (name := next((told[key] for key in told if key.startswith(_TOLD)), None)) is None:
                break
            steps.append((server := mounted_server(component), str(name)))
            component = None if server is None else await getattr(server, _GET[kind])(name)
    return steps


# -- background tasks: their worker, maybe of another process, has no request in force ---------------------------------

_DAY_MS = 86_400_000
_TRIES, _TRY_S = 100, 0.05
"""How often, and how far apart, a task looks for its bounds: it may run before it is known to have been started."""


def _task_key(docket: Any, task_id: str) -> str:
    return str(docket.key(f"agent-utilities:bounds:{task_id}"))


async def keep_for_task(host: AgentServer, request: Request, result: Mapping[str, Any]) -> None:
    """Keep what bounds a request with the background task that it has started, if any, where the task looks."""
    is_own = result.get("resultType") == "task" and TOOL_OF_TASK not in request.values
    if is_own and (docket := host.docket) is not None and isinstance(task_id := result.get("taskId"), str):
        bounds = TypeAdapter(Effective).dump_json(request.verdict.effective.bounds_only)
        async with docket.redis() as redis:
            await redis.set(_task_key(docket, task_id), bounds, px=(result.get("ttlMs") or 0) + _DAY_MS)


async def request_of_task(host: AgentServer) -> Request | None:
    """Return the request that has started the background task that enters a server; None where no task does.

    Raises:
        MCPError: what bounds it is not known.
    """
    tasks = sys.modules.get("fastmcp_tasks.context")
    if tasks is None or (task := tasks.get_task_context()) is None:
        return None
    from docket.dependencies import current_docket

    docket, token = current_docket.get(), get_access_token()
    for _ in range(_TRIES):
        async with docket.redis() as redis:
            kept = await redis.get(_task_key(docket, task.task_id))
        if kept is not None:
            bounds = TypeAdapter(Effective).validate_json(kept)
            verdict = Verdict(host.surface, bounds, Bounds(bounds))
            caller = None if token is None else of_token(token)
            return Request(NOTHING, verdict, caller=caller, entered=(Entered(host, verdict, bounds),))
        await anyio.sleep(_TRY_S)
    raise MCPError(mcp_types.INTERNAL_ERROR, "the bounds of this background task are not known: nothing is permitted")


def hand_on(result: dict[str, Any]) -> dict[str, Any] | None:
    """Have the request in force answered with a result as it came; return the `_meta` of what stands for it meanwhile.

    None where no request of a server of ours is: then it must be given as the protocol's.
    """
    request = request_in_force()
    if request is None or RELAYED not in request.values:
        return None
    request.values[RELAYED] = result
    return dict(HANDED_ON)

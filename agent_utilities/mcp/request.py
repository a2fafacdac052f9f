"""One request, from its first read to its last byte: made at the edge, and handed on as an argument."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import mcp_types

from agent_utilities.mcp.events import Event
from agent_utilities.mcp.sessions import Caller, Client, Session, caller_of
from agent_utilities.mcp.surface.surface import UnderVerdict, Verdict
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import Selection
from agent_utilities.visibility.curation import Preferences
from agent_utilities.visibility.decision import Decision

if TYPE_CHECKING:
    from agent_utilities.mcp.agent_server import AgentServer

logger = logging.getLogger("agent_utilities.wire")

TIMES = "upstreams"
"""The key of a request's values that has how long it waited for a server behind, and was there: two numbers, in s."""
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
        page: the tools that it lists, each with what it is on the wire where that is known.
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
    page: list[tuple[mcp_types.Tool, dict[str, Any] | None]] = field(default_factory=list)
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
            told = " ".join(f"{key}={value}" for key, value in self.summary.items())
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

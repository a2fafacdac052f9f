"""One request, from its first read to its last byte: made at the edge, and passed on as an argument."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import mcp_types
from fastmcp.exceptions import FastMCPError
from mcp.shared.exceptions import MCPError

from agent_utilities.policy.curation import Preferences
from agent_utilities.policy.decision import Decision
from agent_utilities.seam.caller import Caller, caller_of
from agent_utilities.seam.events import Event
from agent_utilities.seam.session import Client, Session
from agent_utilities.seam.verdict import UnderVerdict, Verdict
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import Selection

_A = TypeVar("_A")
logger = logging.getLogger("agent_utilities.wire")

TIMES = "agent-utilities/upstreams"
"""The key of a request's values for the seconds that it waited for an upstream, and those that it took there."""
RELAYED = "agent-utilities/relayed"
"""The key of a request's values for an upstream's result, to be passed on unchanged."""
LISTED = "agent-utilities/listed"
"""The key of a request's values for its list of tools where that is made already: FastMCP's handler takes it."""
TOOL_OF_TASK = "agent-utilities/tool of task"
"""The key of a request's values for the name of the tool whose background task, at an upstream, it is about."""
RESULT_TOKENS = "agent-utilities/result tokens"
"""The key of a request's values for two numbers of its result: its tokens, and how many of them were given."""
TOOLS_USED = "agent-utilities/tools used"
"""The key of a request's values for the names of the tools whose results its own result is made of."""
LEFT_OUT = "agent-utilities/left out"
"""The key of a request's values for the names of the features whose preferences are left out."""
UNFIT = "agent-utilities/unfit"
"""The key of a request's values for the components that were changed or left out for its client: reasons by name."""
MAKE_CALL = "agent-utilities/make call"
"""The key of a call's values for the function that makes further calls on its behalf; see `make_call`."""
HANDED_ON: Mapping[str, Any] = {"agent-utilities/handed-on": True}
"""The `_meta` of the placeholder of that result, while FastMCP and the SDK handle it."""
_ABOUT_TOOLS = frozenset(("", "tools/list", "tools/call", "initialize", "server/discover"))


class Entered(NamedTuple):
    """A server that a request has entered.

    Args:
        host: the server.
        verdict: the bounds that hold there.
        alone: those of them that do not come from an enclosing request.
    """

    host: Any
    verdict: Verdict
    alone: Effective


@dataclass(frozen=True, eq=False, slots=True)
class Request:
    """A request, as it goes through all features.

    Args:
        selection: what the caller selects.
        verdict: the bounds and preferences that hold for the request.
        method: as in the protocol; empty for a route or a report.
        params: the request's, as they came.
        session: what outlasts it; None where each request stands alone.
        client: the client to notify of changes; None where it is not notified.
        caller: who sent it; None where its transport identifies nobody, such as stdio.
        values: what each feature decided of the request, by the feature's name; no other feature reads it. Keys of the
            server's own begin with `agent-utilities/`.
        is_dry: whether it only asks what would be; nothing is kept, started or counted for it.
        entered: the servers that it and its enclosing requests have entered; its own comes last.
        within: the id of the program that makes the call; empty where its caller does.
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
    entered: tuple[Entered, ...] = ()
    within: str = ""

    @property
    def is_about_tools(self) -> bool:
        """Whether the deferral of tools matters to it."""
        return self.method in _ABOUT_TOOLS

    @property
    def lists_tools(self) -> bool:
        """Whether its preferences choose what is listed."""
        return self.verdict.shapes_lists

    @property
    def words(self) -> str:
        """The words that the caller sent with it; a query that the operator configured does not count."""
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
        params: the parameters of the request, for the tool that is called.
        is_wrapped: whether it came in another tool's arguments, so that the request's headers say nothing of it.
        ok: whether it was answered without an error; False until then.
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
        arguments = self.params.get("arguments")
        return arguments if isinstance(arguments, Mapping) else {}


@dataclass(frozen=True, slots=True)
class RequestBegan(Event):
    """A request has its verdict, and is about to be served."""

    request: Request


@dataclass(frozen=True, slots=True)
class RequestOver(Event):
    """A request that began has ended, answered or not."""

    request: Request


@dataclass(frozen=True, slots=True)
class ToolsListed(Event):
    """A list of tools was made for a caller.

    Args:
        asked: the method or route, such as `tools/list` or `GET /tools`.
        decision: the decision that the list was made by.
        summary: what the caller reads beside the list.
        request: the request that it was made for.
    """

    asked: str
    decision: Decision
    summary: Mapping[str, Any]
    request: Request

    def log(self) -> None:
        """Log the method or route, and what the caller reads beside the list."""
        if logger.isEnabledFor(logging.INFO):
            summary = " ".join(f"{key}={value}" for key, value in self.summary.items() if key != "hint")
            logger.info("%s %s", self.asked, summary)


@dataclass(frozen=True, slots=True)
class ToolCalled(Event):
    """A call of a tool has ended.

    Args:
        name: as the caller spelled it.
        revision: the revision of the surface that it was made under.
        ok: whether the tool answered without an error.
        seconds: how long it took.
        decision: what its caller may use.
        request: the request that made it.
        is_asked: whether it was not made, since somebody is to answer a question first.
    """

    name: str
    revision: str
    ok: bool
    seconds: float
    decision: Decision
    request: Request
    is_asked: bool = False


@dataclass(frozen=True, slots=True)
class ResultRead(Event):
    """A caller read on in a result that had been shortened.

    Args:
        tool: the tool that gave the result.
        projection: what was selected of it, as a JMESPath expression of field names alone; empty for a range or a find.
        tokens: of the whole result.
        selected: the tokens of what was selected; 0 for a range or a find.
    """

    tool: str
    projection: str
    tokens: int
    selected: int


_request: ContextVar[Request | None] = ContextVar("agent_utilities_request", default=None)


def request_in_force() -> Request | None:
    """Return the request that is being served, or None; FastMCP passes none on to what it calls."""
    return _request.get()


def sender_of(request: object) -> Caller | None:
    """Return the caller behind a request: its sender where they have a token, else the enclosing request's caller."""
    sender, outer = caller_of(request), request_in_force()
    return sender if outer is None or (sender is not None and sender.token) else outer.caller or sender


@contextmanager
def serving(request: Request) -> Iterator[Request]:
    """Put a request and its verdict in force for a `with` block."""
    token = _request.set(request)
    try:
        with UnderVerdict(request.verdict):
            yield request
    finally:
        _request.reset(token)


async def make_call(request: Request, name: str, arguments: Mapping[str, Any], *, within: str) -> dict[str, Any]:
    """Make a call of a tool on behalf of a call that is being served, and return its result as it is sent.

    Verdict, quotas, record, logins and the author's middleware are those of a call that its caller sends, judged anew.

    Args:
        request: the call that is being served.
        within: an id of what makes the call, for the record.

    Raises:
        Asked: somebody is to answer a question first; the same call may then be made again.
        MCPError: the selection of the caller holds no more, or an upstream answered with an error.
    """
    make: Callable[..., Awaitable[dict[str, Any]]] = request.values[MAKE_CALL]
    return await make(name, arguments, within)


def hand_on(result: dict[str, Any]) -> dict[str, Any] | None:
    """Answer the request in force with an upstream's result, unchanged; return the `_meta` of its placeholder.

    None where no request of a server of ours is in force: the result must then be of the protocol's types.
    """
    request = request_in_force()
    if request is None or RELAYED not in request.values:
        return None
    request.values[RELAYED] = result
    return dict(HANDED_ON)


class RelayedError(FastMCPError):
    """An upstream's JSON-RPC error.

    FastMCP turns any other exception of a tool into an error of its own; this one it lets pass.
    """

    def __init__(self, error: mcp_types.ErrorData) -> None:
        super().__init__(error.message, log_level=logging.DEBUG)
        self.error = error


async def relayed(answer: Awaitable[_A]) -> _A:
    """Await an answer.

    Raises:
        MCPError: an upstream answered with this error.
    """
    try:
        return await answer
    except RelayedError as error:
        raise MCPError.from_error_data(error.error) from None

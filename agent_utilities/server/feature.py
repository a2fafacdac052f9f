"""The seam: what a feature may give a server, and within which limits. `docs/extending.md` shows how one is written.

The core keeps the laws whatever a feature does: a feature narrows and prefers, and can widen nothing. One that fails in
a bound has the request refused; one that fails in anything else is left out, and that is told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from fastmcp.tools.base import Tool, ToolResult
from pydantic import Field
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from agent_utilities.catalog.model import ComponentKind
from agent_utilities.errors import AgentUtilitiesError
from agent_utilities.policy.bounds import Bounds
from agent_utilities.policy.curation import Preferences
from agent_utilities.policy.decision import Decision
from agent_utilities.selection.merge import Narrowing
from agent_utilities.selection.model import NOTHING, Selection
from agent_utilities.server.events import Event
from agent_utilities.server.request import Call, Request
from agent_utilities.server.sessions import Caller

if TYPE_CHECKING:
    from fastmcp.server.auth import AuthProvider
    from prometheus_client import CollectorRegistry

    from agent_utilities.server.agent_server import AgentServer

ALWAYS_LOADED = {"anthropic/alwaysLoad": True}
"""`_meta` by which Claude Code keeps a tool out of its own tool search: it would hide the way to the others."""

Answer = Callable[[Mapping[str, Any]], Awaitable[ToolResult]]


class OwnTool(Tool):
    """A tool of a feature's own, made for one caller; bounds judge it by its name alone."""

    answer: Answer = Field(exclude=True)
    """What it does with its arguments."""
    purpose: str = Field(default="", exclude=True)
    """What it is for, as an operator's listing says it."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Answer a call."""
        return await self.answer(arguments)


class BoundError(AgentUtilitiesError, RuntimeError):
    """A feature could not tell its bounds, so that the request is refused (law L5)."""


class Refusal(AgentUtilitiesError, RuntimeError):
    """A call that is permitted and not made now; its caller is told why, and what would do."""


NOT_TAKEN = "its last edit was not taken, see the log; what it said before holds"
"""What `/ready` says of a file that is followed; everybody may read it, so no text of the file is told."""


class CallRecord(Protocol):
    """Where calls are recorded by the server itself, around each, so that no feature can leave one out."""

    of_http: Callable[[ASGIApp], ASGIApp]
    """Returns an application around another, which records what that refuses by itself."""

    async def began(self, request: Request, call: Call, decision: Decision, tied_to: str) -> None:
        """Record that a call is about to be served; a `Refusal` where it can't be recorded, and has to be."""

    def note(self, event: str, said: Mapping[str, Any], **own: str) -> None:
        """Record an event; what callers may have written stands in `said`, and texts of this server's own beside it."""


@dataclass(frozen=True)
class Grant:
    """What the operator permits one caller, beside what everybody may.

    Args:
        bounds: their profiles' fields, on the channels `rule` and `token`.
        may: their rights to what is no tool: `metrics`, `context`, `page.read`, `page.operate`.
        rule: the number of the rule that holds, from 1; None where none does.
        profiles: the folded names of the profiles that it is made of.
    """

    bounds: Selection = NOTHING
    may: frozenset[str] = frozenset()
    rule: int | None = None
    profiles: frozenset[str] = frozenset()


class Feature:
    """Something that a server can do beside keeping its bounds; every method has a default, which does nothing.

    A server has its features in an order, the one of its list, and asks them in it. Methods that are not overridden are
    not called at all.
    """

    name = ""
    """By which it is told of, and under which it keeps values of requests and sessions."""
    limit_s: float | None = 10.0
    """Seconds that `narrow` and `prefer` may take: then the request is refused, or served without the preference.

    None where they keep to a deadline of their own.
    """
    keeps: type | None = None
    """The kind of what it keeps of a session, a dataclass, where replicas of the server are to share that."""
    hears: tuple[type[Event], ...] = (Event,)
    """The kinds of events that `notify` is told of."""
    host: AgentServer

    # -- put in ------------------------------------------------------------------------------------------------------

    def attach(self, host: AgentServer) -> None:
        """Take the server that this is a feature of, and give it providers, pins and the like; called once."""
        self.host = host

    def check(self) -> None:
        """Refuse settings that can't be served, before anything is.

        Raises:
            InputError: a value that can't be read, or can't hold.
        """

    def auth(self) -> AuthProvider | None:
        """Return what verifies who calls over HTTP, where the author of the server gave nothing that does.

        Raises:
            InputError: its settings can't be read, or can't hold.
        """
        return None

    def grant(self, caller: Caller) -> Grant | None:
        """Return what one caller is permitted, beside what everybody is; None where it says nothing of callers.

        Asked at every request over HTTP: it must not wait.
        """
        return None

    async def run(self) -> None:
        """Work beside the server while it runs, then be cancelled; a failure is logged and the server goes on."""

    # -- what a request may use and is shown -------------------------------------------------------------------------

    def bounds_for(self, caller: Selection) -> Narrowing | None:
        """Return what is taken away from everybody who selects so, where no more is known of the request.

        Asked where there is no request too: for notices of changes, at the start, in reports. It must not wait.
        """
        return None

    async def narrow(self, request: Request) -> Narrowing | None:
        """Return what is taken away for one request, in place of what `bounds_for` said."""
        return self.bounds_for(request.selection)

    async def prefer(self, request: Request) -> Preferences:
        """Return what a list shows of what is permitted, given what features before this one made of it."""
        return request.verdict.preferences

    async def tools_at_head(self, request: Request, decision: Decision) -> Sequence[Tool]:
        """Return tools of its own that stand before a list of tools: `OwnTool`s, where no deny names them."""
        return ()

    async def tool(self, name: str, request: Request) -> Tool | None:
        """Return its own tool of a name that no permitted tool bears, or None."""
        return None

    def keeping_ms(self, request: Request, kind: ComponentKind) -> int | None:
        """Return the most milliseconds that a client may keep a list; None where nothing speaks against any number."""
        return None

    # -- around what is served ---------------------------------------------------------------------------------------

    async def admit(self, request: Request, call: Call) -> None:
        """Take note that a permitted call is about to be made; each that was admitted is told by `ToolCalled`.

        Raises:
            Refusal: it is not to be made now. So is a call where this fails otherwise.
        """

    async def before_call(self, request: Request, call: Call) -> Call:
        """Return the call to make: its name and arguments may be others, which are looked up under the bounds."""
        return call

    async def after_call(self, request: Request, call: Call, result: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a call of a permitted tool, with what is added to it."""
        return result

    async def after(self, request: Request, result: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request that neither lists nor calls, once what follows from it is done."""
        return result

    async def done(self, request: Request) -> None:
        """Do what follows once a request about tools is over, answered or not; it waits for this, so start the rest."""

    def notify(self, event: Event) -> None:
        """Take note of something that happened; returns at once."""

    def session_ended(self, session_id: str) -> None:
        """Take note that a session has ended."""

    # -- what is told ------------------------------------------------------------------------------------------------

    async def summary(self, request: Request, kind: ComponentKind, decision: Decision) -> Mapping[str, Any]:
        """Return what a caller is told beside a list, under keys of its own; nothing of what they may not use."""
        return {}

    async def instructions(self, request: Request) -> str | None:
        """Return what a model reads of it in the server's instructions, for one caller."""
        return None

    def start_lines(self) -> Sequence[str]:
        """Return what is said of it in the line at the start."""
        return ()

    def health(self) -> Mapping[str, Any]:
        """Return what `/ready` tells everybody of it."""
        return {}

    def register_metrics(self, registry: CollectorRegistry) -> None:
        """Register its metrics, which everybody may read who may read the server's."""

    def routes(self) -> Sequence[BaseRoute]:
        """Return its HTTP routes."""
        return ()

    # -- what is not there yet ---------------------------------------------------------------------------------------

    def absent(self, bounds: Bounds) -> Sequence[str]:
        """Return what a caller with these bounds may learn of that should be listed, and is not known yet."""
        return ()

    def toolsets_to_come(self) -> Sequence[str]:
        """Return toolsets that no component bears yet, and that a path or a bound may name all the same."""
        return ()

    async def wait_for_first(self, caller: Selection, kind: ComponentKind, name: str | None) -> None:
        """Wait for what was never seen and this caller may learn of, at the very start, for some seconds at most.

        Args:
            name: the name or URI that is looked up; None for a list.
        """

    async def know_everything(self) -> None:
        """Bring in what is not known yet, however long it takes, before an operator is shown everything."""

    async def report(self, selection: Selection, make: Callable[[], Awaitable[Request]]) -> Request:
        """Return a request for a report where no server runs, once what it needs was made ready."""
        return await make()

"""`Feature`, the base class of what extends a server. `docs/extending.md` shows how one is written.

The core enforces the laws whatever a feature does: a feature narrows and prefers, and can widen nothing. Where a
feature fails in a bound, the request is refused. Where it fails in anything else, it is left out, and that is logged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from fastmcp.tools.base import Tool, ToolResult
from pydantic import BaseModel, Field
from starlette.routing import BaseRoute

from agent_utilities.catalog.model import ComponentKind
from agent_utilities.errors import AgentUtilitiesError
from agent_utilities.errors import Asked as Asked
from agent_utilities.policy.curation import Preferences
from agent_utilities.policy.decision import Decision
from agent_utilities.seam.caller import Caller, Grant
from agent_utilities.seam.events import Event
from agent_utilities.seam.host import Host
from agent_utilities.seam.request import Call, Request
from agent_utilities.selection.merge import Narrowing
from agent_utilities.selection.model import Selection

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_T = TypeVar("_T")

ALWAYS_LOADED = {"anthropic/alwaysLoad": True}
"""The `_meta` that exempts a tool from Claude Code's own tool search, which would hide the way to the others."""

Answer = Callable[[Mapping[str, Any]], Awaitable[ToolResult]]


class OwnTool(Tool):
    """A tool that a feature makes for one caller; bounds judge it by its name alone."""

    answer: Answer = Field(exclude=True)
    """The function that answers a call, from its arguments."""
    purpose: str = Field(default="", exclude=True)
    """What it is for, in an operator's listing."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        return await self.answer(arguments)


class BoundError(AgentUtilitiesError, RuntimeError):
    """A feature could not determine its bounds, so the request is refused (law L5)."""


class Refusal(AgentUtilitiesError, RuntimeError):
    """A permitted call is refused for now; the message tells its caller why, and what would do."""


NOT_TAKEN = "its last edit was not taken, see the log; what it said before holds"
"""What `/ready` says of a watched file; it quotes no text of the file, since everybody may read it."""


class Feature:
    """A part of a server beside its bounds; every method has a default that does nothing.

    A server calls its features in the order of its list, sorted by the `before` and `after` of each. Methods that are
    not overridden are not called at all.
    """

    name = ""
    """Its name in messages, and its key in the values of requests and sessions."""
    settings: BaseModel | None = None
    """The settings that it declares: a model with defaults, replaced by the operator's before `attach` is called.

    Each field is a setting in files, an environment variable (`MCP_` and its name in capitals) and a command-line
    option, whose help is the field's description.
    """
    rights: tuple[str, ...] = ()
    """Rights that it checks; rules of access, and its own `grant`, may give them."""
    needs: tuple[type[Any], ...] = ()
    """Types that it depends on: each must be offered by the server or a feature, or be a feature's; see `needed`."""
    before: tuple[str, ...] = ()
    """Names of features that are called after it, where present."""
    after: tuple[str, ...] = ()
    """Names of features that are called before it, where present."""
    limit_s: float | None = 10.0
    """The deadline in seconds of each method that a request waits for: then it has failed, as the method says.

    None where they keep a deadline of their own.
    """
    keeps: type | None = None
    """The dataclass of what it keeps of a session, which replicas of the server then share."""
    hears: tuple[type[Event], ...] = (Event,)
    """The kinds of events that it is notified of."""
    host: Host

    # -- put in ------------------------------------------------------------------------------------------------------

    def attach(self, host: Host) -> None:
        """Keep the server that the feature is put into, and offer what it has for it; called once."""
        self.host = host

    def needed(self, kind: type[_T]) -> _T:
        """Return the first offer of a type that this feature `needs`."""
        return self.host.offered(kind)[0]

    def check(self) -> None:
        """Validate settings before anything is served.

        Raises:
            InputError: a value can't be read, or can't hold.
        """

    async def run(self) -> None:
        """Work beside the server while it runs, then be cancelled; a failure is logged and the server goes on."""

    # -- what a request may use and is shown -------------------------------------------------------------------------

    def grant(self, caller: Caller) -> Grant | None:
        """Return the bounds and rights of one caller, beside everybody's; None where it says nothing of callers.

        Where several features grant, the bounds of each hold. Called at every request over HTTP: it must not wait.
        """
        return None

    def bounds_for(self, caller: Selection) -> Narrowing | None:
        """Return the bounds that hold for a selection before its request is known.

        Called where there is no request too: for notices of changes, at the start, in reports. It must not wait.
        """
        return None

    async def narrow(self, request: Request) -> Narrowing | None:
        """Return the bounds that hold for one request, in place of `bounds_for`."""
        return self.bounds_for(request.selection)

    async def prefer(self, request: Request) -> Preferences:
        """Return the preferences of a request, starting from those of the features before this one."""
        return request.verdict.preferences

    async def tools_at_head(self, request: Request, decision: Decision) -> Sequence[Tool]:
        """Return tools of its own to put before a list of tools: `OwnTool`s; those that a deny names are left out."""
        return ()

    async def tool(self, name: str, request: Request) -> Tool | None:
        """Return its own tool of a name that no permitted tool has, or None."""
        return None

    def keeping_ms(self, request: Request, kind: ComponentKind) -> int | None:
        """Return the most milliseconds that a client may cache a list; None for no limit."""
        return None

    # -- around what is served ---------------------------------------------------------------------------------------

    async def admit(self, request: Request, call: Call) -> None:
        """Authorize a permitted call before it is made; the event `ToolCalled` follows each that was.

        Raises:
            Refusal: the call is refused for now. Any other exception refuses it too.
            Asked: somebody is to answer a question first. Features after this one are not called.
        """

    async def before_call(self, request: Request, call: Call) -> Call:
        """Return the call to make; where its name or arguments differ, they are looked up under the bounds."""
        return call

    async def after_request(self, request: Request, result: dict[str, Any], call: Call | None) -> dict[str, Any]:
        """Return the result of a request, with the feature's additions.

        Of a list it may change definitions, each under its name and in the same order.

        Args:
            result: as it is sent; nothing in it may be changed in place, since other callers are sent the same.
            call: the call of a permitted tool that was made; None for any other request.

        Raises:
            Refusal: the result is withheld; any other failure leaves it as it was.
        """
        return result

    def notify(self, event: Event) -> None:
        """Handle an event, without waiting."""

    # -- what it says of itself --------------------------------------------------------------------------------------

    async def summary(self, request: Request, kind: ComponentKind, decision: Decision) -> Mapping[str, Any]:
        """Return what a caller reads beside a list, under keys of its own; nothing about what they may not use."""
        return {}

    async def instructions(self, request: Request) -> str | None:
        """Return its part of the server's instructions for one caller's model, or None."""
        return None

    def start_lines(self) -> Sequence[str]:
        """Return its lines of the startup message."""
        return ()

    def health(self) -> Mapping[str, Any]:
        """Return its part of `/ready`, which everybody may read."""
        return {}

    def register_metrics(self, registry: CollectorRegistry) -> None:
        """Register its metrics; whoever may read the server's may read them."""

    def routes(self) -> Sequence[BaseRoute]:
        """Return its HTTP routes."""
        return ()

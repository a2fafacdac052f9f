"""`Host`, the interface of a server to its features, and the types that features may offer it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    from fastmcp.server.completions import CompletionHandler
    from fastmcp.tools.base import Tool
    from fastmcp.utilities.components import FastMCPComponent
    from key_value.aio.protocols import AsyncKeyValue
    from mcp.server.connection import Connection
    from mcp.server.context import HandlerResult, ServerRequestContext
    from mcp.server.subscriptions import ListenHandler, ServerEvent
    from starlette.types import ASGIApp

    from agent_utilities.catalog.model import Catalog, ComponentKind
    from agent_utilities.policy.bounds import Bounds
    from agent_utilities.policy.decision import Decision
    from agent_utilities.seam.caller import Caller, Grant
    from agent_utilities.seam.events import Event
    from agent_utilities.seam.request import Call, Request
    from agent_utilities.seam.session import Client, Session
    from agent_utilities.seam.verdict import Verdict
    from agent_utilities.selection.merge import Narrowings
    from agent_utilities.selection.model import Selection
    from agent_utilities.selection.profiles import SettingsFiles
    from agent_utilities.settings import ApproveRule, Quota, ResultRule, Settings
    from agent_utilities.state.redis_state import RedisState

_T = TypeVar("_T")


class Operator(Protocol):
    """The operator's configuration: files, environment and command line."""

    @property
    def settings(self) -> Settings:
        """The effective settings; raises a `SettingsError` where a value can't be read."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment that settings are read from."""

    @property
    def selection(self) -> Selection:
        """The operator's own selection, which bounds every caller's."""

    @property
    def files(self) -> SettingsFiles:
        """The settings files, as they were read at the start."""

    def again(self) -> Operator:
        """Return the configuration with files and environment read anew."""


class Host(Protocol):
    """A server, as its features see it."""

    @property
    def name(self) -> str:
        """The server's name."""

    @property
    def instructions(self) -> str | None:
        """The author's instructions for models."""

    @property
    def transport(self) -> str | None:
        """`stdio`, `http` or `sse`; None where it is not served, as in this process."""

    @property
    def address(self) -> tuple[str, int] | None:
        """The host and port that it is bound to, where it serves HTTP by itself."""

    @property
    def operator(self) -> Operator:
        """The operator's configuration."""

    # -- what is permitted -------------------------------------------------------------------------------------------

    def verdict(
        self, selection: Selection, *, shapes_lists: bool = False, narrowings: Narrowings | None = None
    ) -> Verdict:
        """Return the verdict on a selection, before its query is answered.

        Args:
            shapes_lists: whether its preferences choose what is listed.
            narrowings: the bounds of features; those that hold for every such selection where None.
        """

    async def decide(
        self, kind: ComponentKind, verdict: Verdict, components: Sequence[FastMCPComponent] | None = None
    ) -> Decision:
        """Return what a verdict permits and shows of some components, by default of those last listed to its caller.

        The decision is made in turns with the event loop, and cached by catalog and bounds.
        """

    def grant_of(self, caller: Caller | None) -> Grant | None:
        """Return the bounds and rights of a caller beside everybody's; None where no feature says anything of callers.

        Raises:
            BoundError: a feature could not determine them.
        """

    def selection_of(self, request: object) -> Selection:
        """Return the selection of an HTTP request, merged with its caller's grant.

        Raises:
            SelectionError: it can't be read.
            BoundError: a feature could not determine the caller's grant.
        """

    # -- what there is -----------------------------------------------------------------------------------------------

    async def components(self, kind: ComponentKind, of: Catalog | None = None) -> Sequence[FastMCPComponent]:
        """Return the components of a kind under the verdict in force, before the author's middleware.

        Args:
            of: a catalog whose components are returned, in its order; () where it was read too long ago.
        """

    async def component(self, kind: ComponentKind, name: str) -> FastMCPComponent | None:
        """Return what the present caller may use by a name or URI, or None; a URI may be that of a template."""

    async def listed_tools(self, *, where: Literal["always", "seen", "cut"] = "always") -> Sequence[Tool] | None:
        """Return the tools as the present caller is listed them, after the author's middleware.

        Args:
            where: return None instead where none of that middleware is called with lists (`seen`), or has a hook for
                lists of tools alone (`cut`).
        """

    def tool_facts(self, catalog: Catalog, place: int | str) -> ToolFacts:
        """Return the server, version and size of a catalog's tool, by its place or name; empty where unknown."""

    # -- requests ----------------------------------------------------------------------------------------------------

    async def request(
        self,
        selection: Selection,
        *,
        method: str = "",
        params: Mapping[str, Any] | None = None,
        session: Session | None = None,
        client: Client | None = None,
        caller: Caller | None = None,
        is_dry: bool = False,
        outer: Request | None = None,
    ) -> Request:
        """Return a request as all features narrowed and shaped it; one without a method lists tools.

        Args:
            outer: the enclosing request, whose bounds hold for it too, and whose preferences do not.

        Raises:
            BoundError: a feature could not determine its bounds.
        """

    async def instructions_for(self, request: Request) -> str | None:
        """Return the server's instructions for a caller's model."""

    def live_sessions(self, named_by: object = None, *, of_anyone: bool = False) -> list[tuple[Session, Caller | None]]:
        """Return the live sessions over HTTP, each with the caller who began it.

        Args:
            named_by: an HTTP request, to return only the session whose id it has, where its sender began that.
            of_anyone: return that session whoever began it.
        """

    # -- what features give one another ------------------------------------------------------------------------------

    def offer(self, kind: type[_T], make: Callable[[], _T | None]) -> None:
        """Offer the server, and other features, something by its type.

        The server takes `Provider`, `Completions` and `WireMiddleware` at once; it looks up `AuthProvider`,
        `CallRecord`, `Pending` and the like when it needs one.

        Args:
            make: returns the offer, or None where there is none now; called at every look-up.
        """

    def offered(self, kind: type[_T]) -> Sequence[_T]:
        """Return all offers of a type, and the features of a class."""

    def notify(self, event: Event) -> None:
        """Notify features and observers of an event; returns at once."""

    def start(self, work: Coroutine[None, None, None]) -> bool:
        """Start bounded work that no request waits for; return whether it was started."""


def find(host: Host, kind: type[_T]) -> _T | None:
    """Return the first offer of a type, or None."""
    return next(iter(host.offered(kind)), None)


# -- what features may offer the server --------------------------------------------------------------------------------


class Pending(Protocol):
    """Offered by a feature whose components are not all known at the start."""

    def absent(self, bounds: Bounds) -> Sequence[str]:
        """Return the servers that are not wholly listed yet, of those that a caller with these bounds may learn of."""

    def toolsets_to_come(self) -> Sequence[str]:
        """Return toolsets that no component has yet, and that a path or a bound may name."""

    async def wait_for_first(self, caller: Selection, kind: ComponentKind, name: str | None) -> None:
        """Wait, in the first seconds after the start, for components never seen that this caller may learn of.

        Args:
            name: the name or URI that is looked up; None for a list.
        """

    async def know_everything(self) -> None:
        """List all that is not known yet, without a deadline, before an operator is shown everything."""


class QuotaSource(Protocol):
    """Offered by a feature whose configuration has quotas of servers."""

    def quotas(self) -> Mapping[str, Quota]:
        """Return the quotas, by server name."""


class Completions(Protocol):
    """Offered by a feature that completes arguments of prompts and resources with a `CompletionHandler` of FastMCP."""

    @property
    def complete(self) -> CompletionHandler:
        """The handler."""


@dataclass(frozen=True, slots=True)
class ResultSource:
    """Offered by a feature whose configuration says how results of its servers' tools are shortened."""

    rules: Callable[[], Mapping[str, Mapping[str, ResultRule]]]
    """Returns the rules, by server and by the tool's own name there."""


@dataclass(frozen=True, slots=True)
class ApproveSource:
    """Offered by a feature whose configuration says, by server, which of its tools are called after a person's yes."""

    rules: Callable[[], Mapping[str, ApproveRule]]


@dataclass(frozen=True, slots=True)
class Approver:
    """Offered by the feature that asks for approval, for features that make calls on behalf of another one.

    Args:
        ask: asks for all questions at once, and returns None once each is answered, else what the caller is sent now.
            It takes the call on whose behalf the others are made, which may bring the answers (`inputResponses`); the
            ids of the questions, as `Asked.question` has them; the `requestState` of a result that asks; and what the
            caller is to do after a yes elsewhere.
    """

    ask: Callable[[Request, Sequence[str], str, str], Awaitable[Mapping[str, Any] | None]]


@dataclass(frozen=True, slots=True)
class CallOption:
    """Offered by a feature that takes an argument of `call_tool` beside the tool's own.

    Args:
        name: the argument's.
        schema: its JSON schema.
        key: the key of the call's `_meta` under which the feature reads it, as it does of a call without `call_tool`.
    """

    name: str
    schema: Mapping[str, Any]
    key: str


@dataclass(frozen=True, slots=True)
class SearchForm:
    """Offered by a feature that writes the tools that a search found in a form of its own, where a caller asks for it.

    Args:
        name: what the caller gives as `as`.
        write: returns the text on tools, by name, for the request of the search.
    """

    name: str
    write: Callable[[Request, Sequence[str]], Awaitable[str]]


class Reporting(Protocol):
    """Offered by a feature that has to get ready before a report on a query can be made without a running server."""

    async def report(self, selection: Selection, make: Callable[[], Awaitable[Request]]) -> Request:
        """Return the request of a report, made once the feature is ready."""


class WireMiddleware(Protocol):
    """Middleware of the MCP SDK's server, called after the server's own."""

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: Any) -> HandlerResult:
        """Serve a request, or pass it on."""


class Notices(Protocol):
    """Offered by the server: the bus of its notices, and its listeners."""

    @property
    def listen(self) -> ListenHandler:
        """The handler of `subscriptions/listen`."""

    def hears(self, connection: Connection, uris: Container[str]) -> None:
        """Notify a connection's client of updates of these resources, of each that it may read at that moment."""

    async def publish(self, event: ServerEvent) -> None:
        """Send an event to each stream whose caller may learn of it."""


class StartLink(Protocol):
    """Offered by the page: its link, for the startup message."""

    async def __call__(self) -> str:
        """Return the link once the address is bound; empty where nobody is to have it."""


@dataclass(frozen=True, slots=True)
class SharedState:
    """Offered where replicas share a Redis."""

    redis: RedisState


@dataclass(frozen=True, slots=True)
class RequestStates:
    """Offered where replicas share state: how they read one another's `requestState`, and where sessions are kept.

    Args:
        key: the 32 bytes of the key that seals `requestState`.
        values: the store of the values that authors keep in sessions.
    """

    key: bytes
    values: AsyncKeyValue


class CallRecord(WireMiddleware, Protocol):
    """Offered by the feature that records calls; the server calls it around each, so that no feature can omit one."""

    @property
    def of_http(self) -> Callable[[ASGIApp], ASGIApp]:
        """ASGI middleware that records what the application inside it refuses by itself."""

    async def began(
        self, request: Request, call: Call, decision: Decision, tied_to: str, *, is_asked: bool = False
    ) -> None:
        """Record that a call is about to be served, or waits for an answer.

        Raises:
            Refusal: recording is required, and failed.
        """

    def note(self, event: str, said: Mapping[str, Any], **own: str) -> None:
        """Record an event; `said` has the texts that callers may have written, `own` those of this server."""


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """The facts of a tool that stand beside its name.

    Args:
        server: the upstream that has it; empty for the server's own tools.
        version: empty for none.
        tokens: about how many it takes in a prompt, on every turn.
    """

    server: str = ""
    version: str = ""
    tokens: int = 0

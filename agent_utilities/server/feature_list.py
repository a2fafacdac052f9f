"""The features of one server, asked in their order; what they answer is held to the laws here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypeVar

from fastmcp.tools.base import Tool
from opentelemetry import trace

from agent_utilities.catalog.model import ComponentKind, entry
from agent_utilities.policy.curation import Preferences
from agent_utilities.policy.decision import Decision
from agent_utilities.selection.merge import Narrowing, Narrowings
from agent_utilities.selection.model import Selection
from agent_utilities.server.events import Event
from agent_utilities.server.feature import BoundError, Feature, Grant, OwnTool, Refusal
from agent_utilities.server.request import Call, Request
from agent_utilities.server.sessions import Caller
from agent_utilities.server.surface.operator import Operator

if TYPE_CHECKING:
    from fastmcp.server.auth import AuthProvider

    from agent_utilities.server.agent_server import AgentServer

logger = logging.getLogger("agent_utilities.features")
_observers_logger = logging.getLogger("agent_utilities.observers")

_T = TypeVar("_T")
Observer = Callable[[Event], None]


@dataclass(frozen=True)
class Later:
    """A feature that is imported only where the operator's settings want it.

    Args:
        place: its class, such as `agent_utilities.access.record.feature:Audit`.
        settings: those of which one that is set wants it.
        more: what it is made of.
        wanted: returns whether anything else wants it, asked once the features beside it are attached.
    """

    place: str
    settings: tuple[str, ...]
    more: tuple[Any, ...] = ()
    wanted: Callable[[], object] = lambda: False

    def made(self, operator: Operator) -> Feature | None:
        """Return the feature; None where nothing wants it."""
        is_wanted = any(getattr(operator.settings, name) for name in self.settings) or self.wanted()
        return resolve_name(self.place)(*self.more) if is_wanted else None


class FeatureList:
    """Asks features, each only where it has something to say."""

    def __init__(self, features: Iterable[Feature | Later]) -> None:
        self._given = tuple(features)
        self._others: list[tuple[Observer, tuple[type[Event], ...]]] = []
        self._take()

    def complete(self, host: AgentServer) -> None:
        """Import the features that were left for later and are wanted, and attach them; once.

        Raises:
            InputError: the operator's settings can't be read.
        """
        if len(before := self._features) == len(self._given):
            return
        every = [each if isinstance(each, Feature) else each.made(host.surface.operator) for each in self._given]
        self._given = tuple(each for each in every if each is not None)
        self._take()
        for each in self._features:
            if each not in before:
                each.attach(host)

    def _take(self) -> None:
        self._features = tuple(each for each in self._given if isinstance(each, Feature))
        methods = [name for name in vars(Feature) if not name.startswith("_") and callable(getattr(Feature, name))]
        self._with: dict[str, tuple[Any, ...]] = {
            name: tuple(each for each in self._features if getattr(type(each), name) is not getattr(Feature, name))
            for name in methods
        }
        self._listening: dict[type[Event], tuple[Observer, ...]] = {}

    def __iter__(self) -> Iterator[Feature]:
        return iter(self._features)

    def get(self, kind: type[_T]) -> _T | None:
        """Return the feature of a class, or None where the server does not have it."""
        return next((each for each in self._features if isinstance(each, kind)), None)

    # -- events: who fails is logged, and neither the request nor the others know of it -------------------------------

    def observe(self, observer: Observer, *kinds: type[Event]) -> None:
        """Tell somebody else of events too, of some kinds or of all."""
        self._others.append((observer, kinds or (Event,)))
        self._listening.clear()

    def notify(self, event: Event) -> None:
        """Tell all who listen to its kind of an event."""
        kind = type(event)
        if (listening := self._listening.get(kind)) is None:
            logs = [kind.log] if kind.log is not Event.log else []
            spans = [_add_to_span] if kind.span_event is not Event.span_event else []
            observers = [*((each.notify, each.hears) for each in self._with["notify"]), *self._others]
            heard = [observer for observer, kinds in observers if issubclass(kind, kinds)]
            listening = self._listening[kind] = (*logs, *spans, *heard)
        for observer in listening:
            try:
                observer(event)
            except Exception:
                _observers_logger.exception("an observer failed; the request goes on without it")

    # -- who calls: who fails has the request refused ------------------------------------------------------------------

    def auth(self) -> AuthProvider | None:
        """Return what verifies who calls over HTTP; None where no feature does."""
        return next((auth for each in self._with["auth"] if (auth := each.auth()) is not None), None)

    def grant(self, caller: Caller) -> Grant | None:
        """Return what a caller is permitted beside what everybody is; None where no feature says anything of callers.

        Raises:
            BoundError: a feature could not tell.
        """
        found: list[Grant] = []
        for each in self._with["grant"]:
            try:
                if (given := _of_kind(Grant | None, each.grant(caller))) is not None:
                    found.append(replace(given, bounds=given.bounds.granted))
            except Exception as error:
                raise _refused(each, error) from error
        if len(found) > 1:
            raise BoundError("more than one feature says what a caller may, so nothing is permitted")
        return found[0] if found else None

    async def admit(self, request: Request, call: Call) -> None:
        """Have features take note of a call before it is made.

        Raises:
            Refusal: it is not to be made now, or a feature could not tell.
        """
        for each in self._with["admit"]:
            try:
                await each.admit(request, call)
            except Refusal:
                raise
            except Exception as error:
                logger.exception("%s could not tell whether a call may be made, so it is not", _name(each))
                raise Refusal(f"{_name(each)} could not tell whether this call may be made; try again later") from error

    # -- bounds: who fails has the request refused -------------------------------------------------------------------

    def bounds_for(self, caller: Selection) -> Narrowings:
        """Return what is taken away from everybody who selects so.

        Raises:
            BoundError: a feature could not tell.
        """
        if not self._with["bounds_for"]:
            return ()
        return _narrowings(_bounds_of(each, caller) for each in self._with["bounds_for"])

    async def narrow(self, request: Request) -> Narrowings | None:
        """Return what is taken away for one request, in place of `bounds_for`; None where that says all.

        Raises:
            BoundError: a feature could not tell, or took too long.
        """
        if not self._with["narrow"]:
            return None
        found: list[Narrowing | None] = []
        for each in self._features:
            if each in self._with["narrow"]:
                try:
                    found.append(await _in_time(each, each.narrow(request)))
                except Exception as error:
                    raise _refused(each, error) from error
            elif each in self._with["bounds_for"]:
                found.append(_bounds_of(each, request.selection))
        return _narrowings(found)

    # -- preferences and what is told: who fails is left out ---------------------------------------------------------

    async def prefer(self, request: Request) -> Request:
        """Return a request whose preferences are what all features made of them."""
        for each in self._with["prefer"]:
            try:
                preferences = await _in_time(each, each.prefer(request))
                if type(preferences) is not Preferences:
                    raise TypeError(f"prefer() returned {type(preferences).__name__}")
                hash(preferences)  # it is to be part of a key
            except Exception:
                logger.exception("%s prefers nothing for this request: it failed", _name(each))
                request.values.setdefault("left_out", []).append(_name(each))
            else:
                request = request.preferring(preferences)
        return request

    async def tools_at_head(self, request: Request, decision: Decision) -> list[Tool]:
        """Return the tools of features' own before a list: none that bears a name of the catalog's, or is denied."""
        found = [tool for tools in await self._told("tools_at_head", list | tuple, request, decision) for tool in tools]
        return [tool for tool in found if _is_open(tool, request) and tool.name not in decision.permitted_names]

    async def tool(self, name: str, request: Request) -> Tool | None:
        """Return a feature's own tool of a name."""
        found: list[Tool] = [tool for tool in await self._told("tool", Tool | None, name, request) if tool is not None]
        return next((tool for tool in found if tool.name == name and _is_open(tool, request)), None)

    async def before_call(self, request: Request, call: Call) -> Call:
        """Return the call that features make of one."""
        return await self._through("before_call", call, Call, request)

    async def after_call(self, request: Request, call: Call, result: dict[str, Any]) -> dict[str, Any]:
        """Return what features make of a call's result."""
        return await self._through("after_call", result, dict, request, call)

    async def after(self, request: Request, result: dict[str, Any]) -> dict[str, Any]:
        """Return what features make of the result of a request that neither lists nor calls."""
        return await self._through("after", result, dict, request)

    async def done(self, request: Request) -> None:
        """Tell features that a request about tools is over."""
        await self._told("done", None, request)

    async def summary(self, request: Request, kind: ComponentKind, decision: Decision) -> Mapping[str, Any]:
        """Return what features tell beside a list."""
        return _joined(await self._told("summary", (dict, Mapping), request, kind, decision))

    async def instructions(self, request: Request) -> Sequence[str]:
        """Return what features say to models, in their order."""
        return [text for text in await self._told("instructions", str | None, request) if text]

    async def wait_for_first(self, caller: Selection, kind: ComponentKind, name: str | None = None) -> None:
        """Wait for what was never seen; see `Feature.wait_for_first`."""
        await self._told("wait_for_first", None, caller, kind, name)

    def keeping_ms(self, request: Request, kind: ComponentKind) -> int | None:
        """Return the most milliseconds that a list may be kept; a feature that fails has it not kept."""
        limits = self._said("keeping_ms", int | None, request, kind, otherwise=0)
        return max(0, min(given)) if (given := [limit for limit in limits if limit is not None]) else None

    def gathered(self, method: str, *arguments: Any) -> list[Any]:
        """Return all that features answer to a method that returns several things."""
        return [thing for answer in self._said(method, list | tuple, *arguments) for thing in answer]

    def health(self) -> dict[str, Any]:
        """Return what features tell everybody of themselves."""
        return _joined(self._said("health", (dict, Mapping)))

    def session_ended(self, session_id: str) -> None:
        """Tell features that a session has ended."""
        self._said("session_ended", None, session_id)

    def running(self) -> tuple[Feature, ...]:
        """Return the features that work beside the server."""
        return self._with["run"]

    async def report(self, selection: Selection, make: Callable[[], Awaitable[Request]]) -> Request:
        """Return a request for a report; see `Feature.report`."""
        for each in self._with["report"]:
            make = partial(each.report, selection, make)
        return await make()

    async def know_everything(self) -> None:
        """Bring in what is not known yet; see `Feature.know_everything`."""
        for each in self._with["know_everything"]:
            await each.know_everything()

    async def _told(self, method: str, kind: Any, *arguments: Any) -> list[Any]:
        """Return what features answer to a method, without those that fail or whose answer is of another kind."""
        answers = []
        for each in self._with[method]:
            try:
                answers.append(_of_kind(kind, await getattr(each, method)(*arguments)))
            except Exception:
                logger.exception("%s is left out of this request: it failed", _name(each))
        return answers

    async def _through(self, method: str, value: _T, kind: type[_T], *arguments: Any) -> _T:
        """Return what features make of a value, each of what the one before made of it."""
        for each in self._with[method]:
            try:
                value = _of_kind(kind, await getattr(each, method)(*arguments, value))
            except Exception:
                logger.exception("%s is left out of this request: it failed", _name(each))
        return value

    def _said(self, method: str, kind: Any, *arguments: Any, otherwise: Any = None) -> list[Any]:
        """Return what features answer to a method at once; something else, if given, for one that fails."""
        answers = []
        for each in self._with[method]:
            try:
                answers.append(_of_kind(kind, getattr(each, method)(*arguments)))
            except Exception:
                logger.exception("%s is left out: it failed", _name(each))
                answers += [] if otherwise is None else [otherwise]
        return answers


async def _in_time(feature: Feature, answer: Awaitable[_T]) -> _T:
    if feature.limit_s is None:
        return await answer
    async with asyncio.timeout(feature.limit_s):
        return await answer


def _add_to_span(event: Event) -> None:
    if (told := event.span_event()) is not None and (span := trace.get_current_span()).is_recording():
        name, attributes = told
        span.add_event(name, {f"agent_utilities.{key}": value for key, value in attributes.items()})


def _of_kind(kind: Any, answer: Any) -> Any:
    if kind is not None and not isinstance(answer, kind):
        raise TypeError(f"it returned {type(answer).__name__}")
    return answer


def _joined(told: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {key: value for each in told for key, value in each.items()}


def _is_open(tool: Tool, request: Request) -> bool:
    """Whether a tool is a feature's own, and may be listed and called by name."""
    return isinstance(tool, OwnTool) and request.verdict.bounds.permits_entry_tool(
        entry("tool", tool.name), by_caller=False
    )


def _bounds_of(feature: Feature, caller: Selection) -> Narrowing | None:
    try:
        return feature.bounds_for(caller)
    except Exception as error:
        raise _refused(feature, error) from error


def _narrowings(found: Iterable[Narrowing | None]) -> Narrowings:
    given = [each for each in found if each is not None]
    for each in given:
        if type(each) is not Narrowing:
            raise BoundError(f"a feature's bounds are {type(each).__name__}, not a Narrowing")
    return tuple(given)


def _refused(feature: Feature, error: Exception) -> BoundError:
    logger.error("%s could not tell its bounds, so the request is refused", _name(feature), exc_info=error)
    return BoundError(f"the bounds of {_name(feature)} are not known, so nothing is permitted; see the server's log")


def _name(feature: Feature) -> str:
    return feature.name or type(feature).__name__

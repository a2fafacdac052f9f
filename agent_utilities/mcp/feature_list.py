"""The features of one server, asked in their order; what they answer is held to the laws here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from fastmcp.tools.base import Tool
from starlette.routing import BaseRoute

from agent_utilities.catalog.model import ComponentKind, entry
from agent_utilities.mcp.events import Event, Observers
from agent_utilities.mcp.feature import BoundError, Feature, OwnTool
from agent_utilities.mcp.request import Call, Request
from agent_utilities.selection.model import Selection
from agent_utilities.visibility.bounds import Bounds
from agent_utilities.visibility.curation import Preferences
from agent_utilities.visibility.decision import Decision
from agent_utilities.visibility.narrowing import Narrowing, Narrowings

logger = logging.getLogger("agent_utilities.features")

_T = TypeVar("_T")


class FeatureList:
    """Asks features, each only where it has something to say.

    Args:
        features: in the order in which they are asked.
        observers: told of events, beside those features that listen.
    """

    def __init__(self, features: Iterable[Feature], observers: Observers) -> None:
        self._features = tuple(features)
        self._observers = observers
        methods = [name for name in vars(Feature) if not name.startswith("_") and callable(getattr(Feature, name))]
        self._with: dict[str, tuple[Any, ...]] = {
            name: tuple(each for each in self._features if getattr(type(each), name) is not getattr(Feature, name))
            for name in methods
        }
        for each in self._with["notify"]:
            observers.add(each.notify)

    def __iter__(self) -> Iterator[Feature]:
        return iter(self._features)

    def get(self, kind: type[_T]) -> _T | None:
        """Return the feature of a class, or None where the server does not have it."""
        return next((each for each in self._features if isinstance(each, kind)), None)

    def notify(self, event: Event) -> None:
        """Tell features and observers of an event."""
        self._observers.notify(event)

    # -- bounds: who fails has the request refused -------------------------------------------------------------------

    def bounds_for(self, caller: Selection) -> Narrowings:
        """Return what is taken away from everybody who selects so.

        Raises:
            BoundError: a feature could not tell.
        """
        if not self._with["bounds_for"]:
            return ()
        return _narrowings(self._bound(each, partial(each.bounds_for, caller)) for each in self._with["bounds_for"])

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
                    async with asyncio.timeout(each.limit_s):
                        found.append(await each.narrow(request))
                except Exception as error:
                    raise _refused(each, error) from error
            elif each in self._with["bounds_for"]:
                found.append(self._bound(each, partial(each.bounds_for, request.selection)))
        return _narrowings(found)

    @staticmethod
    def _bound(feature: Feature, ask: Callable[[], _T]) -> _T:
        try:
            return ask()
        except Exception as error:
            raise _refused(feature, error) from error

    # -- preferences and what is told: who fails is left out ---------------------------------------------------------

    async def prefer(self, request: Request) -> Request:
        """Return a request whose preferences are what all features made of them."""
        for each in self._with["prefer"]:
            try:
                async with asyncio.timeout(each.limit_s):
                    preferences = await each.prefer(request)
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
        found: list[Tool] = []
        for each in self._with["tools_at_head"]:
            found += await self._told(each, each.tools_at_head(request, decision), (), list | tuple)
        return [tool for tool in found if _is_open(tool, request) and tool.name not in decision.permitted_names]

    async def tool(self, name: str, request: Request) -> Tool | None:
        """Return a feature's own tool of a name."""
        for each in self._with["tool"]:
            tool: Tool | None = await self._told(each, each.tool(name, request), None, Tool | None)
            if tool is not None and tool.name == name and _is_open(tool, request):
                return tool
        return None

    async def before_call(self, request: Request, call: Call) -> Call:
        """Return the call that features make of one."""
        for each in self._with["before_call"]:
            call = await self._told(each, each.before_call(request, call), call, Call)
        return call

    async def after_call(self, request: Request, call: Call, result: dict[str, Any]) -> dict[str, Any]:
        """Return what features make of a call's result."""
        for each in self._with["after_call"]:
            result = await self._told(each, each.after_call(request, call, result), result, dict)
        return result

    async def after(self, request: Request, result: dict[str, Any]) -> dict[str, Any]:
        """Return what features make of the result of a request that neither lists nor calls."""
        for each in self._with["after"]:
            result = await self._told(each, each.after(request, result), result, dict)
        return result

    async def done(self, request: Request) -> None:
        """Tell features that a request about tools is over."""
        for each in self._with["done"]:
            await self._told(each, each.done(request), None, None)

    async def summary(self, request: Request, kind: ComponentKind, decision: Decision) -> Mapping[str, Any]:
        """Return what features tell beside a list."""
        told: dict[str, Any] = {}
        for each in self._with["summary"]:
            told |= await self._told(each, each.summary(request, kind, decision), {}, (dict, Mapping))
        return told

    async def instructions(self, request: Request) -> Sequence[str]:
        """Return what features say to models, in their order."""
        texts = [
            await self._told(each, each.instructions(request), None, str | None) for each in self._with["instructions"]
        ]
        return [text for text in texts if text]

    def keeping_ms(self, request: Request, kind: ComponentKind) -> int | None:
        """Return the most milliseconds that a list may be kept."""
        asked = [(each, partial(each.keeping_ms, request, kind)) for each in self._with["keeping_ms"]]
        limits = [self._said(each, ask, 0, int | None) for each, ask in asked]
        return max(0, min(given)) if (given := [limit for limit in limits if limit is not None]) else None

    def gathered(self, method: str, *arguments: Any) -> list[Any]:
        """Return all that features answer to a method that returns several things."""
        answers = (
            self._said(each, partial(getattr(each, method), *arguments), (), list | tuple)
            for each in self._with[method]
        )
        return [thing for answer in answers for thing in answer]

    def health(self) -> dict[str, Any]:
        """Return what features tell everybody of themselves."""
        told: dict[str, Any] = {}
        for each in self._with["health"]:
            told |= self._said(each, each.health, {}, (dict, Mapping))
        return told

    def session_ended(self, session_id: str) -> None:
        """Tell features that a session has ended."""
        for each in self._with["session_ended"]:
            self._said(each, partial(each.session_ended, session_id), None, None)

    async def wait_for_first(self, caller: Selection, kind: ComponentKind, name: str | None = None) -> None:
        """Wait for what was never seen; see `Feature.wait_for_first`."""
        for each in self._with["wait_for_first"]:
            await self._told(each, each.wait_for_first(caller, kind, name), None, None)

    def check(self) -> None:
        """Refuse settings that can't be served; see `Feature.check`."""
        for each in self._with["check"]:
            each.check()

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

    def routes(self) -> list[BaseRoute]:
        """Return their HTTP routes."""
        return self.gathered("routes")

    def absent(self, bounds: Bounds) -> list[str]:
        """Return what a caller may learn of that should be listed, and is not known yet."""
        return self.gathered("absent", bounds)

    @staticmethod
    async def _told(feature: Feature, answer: Awaitable[Any], otherwise: Any, kind: Any) -> Any:
        """Return what a feature answers, or something else where it fails or what it answers is of another kind."""
        try:
            return _of_kind(kind, await answer)
        except Exception:
            logger.exception("%s is left out of this request: it failed", _name(feature))
            return otherwise

    @staticmethod
    def _said(feature: Feature, ask: Callable[[], Any], otherwise: Any, kind: Any) -> Any:
        try:
            return _of_kind(kind, ask())
        except Exception:
            logger.exception("%s is left out: it failed", _name(feature))
            return otherwise


def _of_kind(kind: Any, answer: Any) -> Any:
    if kind is not None and not isinstance(answer, kind):
        raise TypeError(f"it returned {type(answer).__name__}")
    return answer


def _is_open(tool: Tool, request: Request) -> bool:
    """Whether a tool is a feature's own, and may be listed and called by name."""
    return isinstance(tool, OwnTool) and request.verdict.bounds.permits_entry_tool(
        entry("tool", tool.name), by_caller=False
    )


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

"""Calls the features of one server in their order, and checks their answers against the laws."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, get_type_hints

from fastmcp.tools.base import Tool
from pydantic import BaseModel
from pydantic_core import to_json

from agent_utilities.catalog.model import ComponentKind, entry
from agent_utilities.errors import SettingsError
from agent_utilities.policy.curation import Preferences
from agent_utilities.policy.decision import Decision
from agent_utilities.runtime.waiting import in_turns, is_failure, left_out
from agent_utilities.seam.caller import Caller, Grant
from agent_utilities.seam.feature import Asked, BoundError, Feature, OwnTool, Refusal
from agent_utilities.seam.host import Host
from agent_utilities.seam.request import LEFT_OUT, Call, Request
from agent_utilities.selection.merge import Narrowing, Narrowings
from agent_utilities.selection.model import NOTHING, Selection
from agent_utilities.server.feature_answers import as_json, as_list, as_routes, joined, listed, new_in, of_kind
from agent_utilities.server.feature_order import Later, in_order, loaded, name_of
from agent_utilities.server.observers import Observers
from agent_utilities.server.surface.operator import Operator
from agent_utilities.server.surface.visibility_transform import admitted

logger = logging.getLogger("agent_utilities.features")

_T = TypeVar("_T")
_PREFERENCES: dict[str, Any] = get_type_hints(Preferences)


class FeatureList:
    """The features of a server; calls each only for the methods that it overrides."""

    def __init__(
        self,
        features: Iterable[Feature | Later],
        offer: Callable[[type, Callable[[], Any]], None] = lambda kind, make: None,
    ) -> None:
        self._sources, self._offer = tuple(features), offer
        self._registered: list[Feature] = []
        self._attached: list[Feature] = []
        self.observers = Observers()
        """The observers of events, the features among them."""
        self.notify, self.observe = self.observers.notify, self.observers.observe
        self._is_declared = self._is_complete = False
        self._take()

    def _take(self) -> None:
        self._features = in_order([each for each in self._sources if isinstance(each, Feature)])
        self._having: dict[object, tuple[Feature, ...]] = {}
        self.observers.notify_features(self._with(Feature.notify))

    def declare(self, operator: Operator) -> None:
        """Load the features that the operator names, and register the settings that all features declare; once.

        Raises:
            SettingsError: a feature does not exist, or can't be loaded.
        """
        if not self._is_declared:
            self._is_declared = True
            names, source = operator.named_features
            self._sources += tuple(loaded(source, name) for name in names)
            self._take()
            operator.declare(type(each.settings) for each in self._features if each.settings is not None)

    def attach(self, host: Host) -> None:
        """Attach the features that are loaded and not attached yet; one that fails is tried again with the next start.

        Raises:
            InputError: a feature rejects the operator's settings.
        """
        for each in self._features:
            if each not in self._registered:
                self._registered.append(each)
                for kind in type(each).__mro__[: type(each).__mro__.index(Feature) + 1]:
                    self._offer(kind, lambda feature=each: feature)  # type: ignore[misc]
        for each in self._features:
            if each not in self._attached:
                each.attach(host)
                self._attached.append(each)
        for each in self._features:
            if lacking := [kind.__name__ for kind in each.needs if not host.offered(kind)]:
                hint = f"put a feature in that offers {', '.join(lacking)}"
                raise SettingsError("it stands on what this server does not have", name_of(each), "features", hint)

    def complete(self, host: Host, operator: Operator) -> None:
        """Import the deferred features that are needed, and attach them; once.

        Raises:
            InputError: the operator's settings can't be read, or a feature rejects them.
        """
        if self._is_complete:
            return
        self.declare(operator)
        every = [each if isinstance(each, Feature) else each.made(operator) for each in self._sources]
        self._sources = tuple(each for each in every if each is not None)
        self._take()
        for each in self._features:
            if each.settings is not None:
                each.settings = _read(each, type(each.settings), operator)
        self.attach(host)
        self._is_complete = True

    def __iter__(self) -> Iterator[Feature]:
        return iter(self._features)

    def _with(self, method: Callable[..., Any]) -> tuple[Feature, ...]:
        """Return the features that override a method of `Feature`."""
        if (having := self._having.get(method)) is None:
            name = method.__name__
            having = tuple(each for each in self._features if getattr(type(each), name) is not method)
            self._having[method] = having
        return having

    # -- callers: a failure refuses the request ------------------------------------------------------------------------

    def grant(self, caller: Caller) -> Grant | None:
        """Return the bounds and rights of a caller beside everybody's; None where no feature says anything of callers.

        The bounds of each feature's grant hold; a grant gives only rights of its own feature.

        Raises:
            BoundError: a feature could not determine its grant, or two set the same bound.
        """
        grants: list[Grant] = []
        for each in self._with(Feature.grant):
            try:
                if (grant := of_kind(Grant | None, each.grant(caller))) is not None:
                    may = frozenset(each.rights).intersection(grant.may)
                    grants.append(replace(grant, bounds=grant.bounds.granted, may=may))
            except BaseException as error:
                raise _refused(each, error) from error
        if len(grants) < 2:
            return grants[0] if grants else None
        slots = [entry for grant in grants for entry in grant.bounds.slots]
        if len({slot for slot, _ in slots}) < len(slots):
            raise BoundError("two features grant bounds on the same field, so nothing is permitted; narrow by one")
        return Grant(
            Selection(tuple(slots)) if slots else NOTHING,
            frozenset().union(*(grant.may for grant in grants)),
            next((grant.rule for grant in grants if grant.rule is not None), None),
            frozenset().union(*(grant.profiles for grant in grants)),
        )

    async def admit(self, request: Request, call: Call) -> None:
        """Have features authorize a call before it is made.

        Raises:
            Refusal: a feature refuses the call, or failed.
            Asked: a feature asks somebody first.
        """
        for each in self._with(Feature.admit):
            try:
                await _in_time(each, each.admit(request, call))
            except (Refusal, Asked):
                raise
            except BaseException as error:
                if not is_failure(error):
                    raise
                logger.exception("%s could not tell whether a call may be made, so it is not", name_of(each))
                raise Refusal(
                    f"{name_of(each)} could not tell whether this call may be made; try again later"
                ) from error

    # -- bounds: a failure refuses the request -------------------------------------------------------------------------

    def bounds_for(self, caller: Selection) -> Narrowings:
        """Return the bounds that hold for a selection before its request is known.

        Raises:
            BoundError: a feature could not determine its bounds.
        """
        if not (having := self._with(Feature.bounds_for)):
            return ()
        return _narrowings(_bounds_of(each, caller) for each in having)

    async def narrow(self, request: Request) -> Narrowings | None:
        """Return the bounds that hold for one request, in place of `bounds_for`; None where no feature has others.

        Raises:
            BoundError: a feature could not determine its bounds, or took too long.
        """
        if not (narrowing := self._with(Feature.narrow)):
            return None
        bounds: list[Narrowing | None] = []
        for each in self._features:
            if each in narrowing:
                try:
                    bounds.append(await _in_time(each, each.narrow(request)))
                except BaseException as error:
                    raise _refused(each, error) from error
            elif each in self._with(Feature.bounds_for):
                bounds.append(_bounds_of(each, request.selection))
        return _narrowings(bounds)

    # -- all else: a feature that fails is left out --------------------------------------------------------------------

    async def prefer(self, request: Request) -> Request:
        """Return a request with the preferences of all features."""
        for each in self._with(Feature.prefer):
            try:
                preferences = await _in_time(each, each.prefer(request))
                if type(preferences) is not Preferences:
                    raise TypeError(f"prefer() returned {type(preferences).__name__}")
                hash(preferences)  # it is to be part of a key
                if wrong := [n for n, kind in _PREFERENCES.items() if not isinstance(getattr(preferences, n), kind)]:
                    raise TypeError(f"prefer() returned what can't be {', '.join(wrong)}")
            except BaseException as error:
                if not is_failure(error):
                    raise
                logger.exception("%s prefers nothing for this request: it failed", name_of(each))
                request.values.setdefault(LEFT_OUT, []).append(name_of(each))
            else:
                request = request.preferring(preferences)
        return request

    async def tools_at_head(self, request: Request, decision: Decision) -> list[Tool]:
        """Return the features' own tools before a list, without those that have a catalog's name or are denied."""

        async def head(feature: Feature) -> Sequence[Tool]:
            tools = as_list(await feature.tools_at_head(request, decision))
            async for tool in in_turns(tools):
                to_json(tool.to_mcp_tool(name=tool.name))  # one that can't be listed would fail the whole list
            return await admitted(tools)

        heads = await self._answers(Feature.tools_at_head, as_list, head)
        tools = [tool for head in heads for tool in head]
        return [tool for tool in tools if _is_open(tool, request) and tool.name not in decision.permitted_names]

    async def tool(self, name: str, request: Request) -> Tool | None:
        """Return the tool of a name that a feature has itself, or None."""
        for each in self._with(Feature.tool):
            with left_out(each):
                tool: Tool | None = of_kind(Tool | None, await _in_time(each, each.tool(name, request)))
                if tool is not None and tool.name == name and _is_open(tool, request):
                    return tool
        return None

    async def before_call(self, request: Request, call: Call) -> Call:
        """Return a call as features have changed it."""
        for each in self._with(Feature.before_call):
            with left_out(each):
                changed = of_kind(Call, await _in_time(each, each.before_call(request, call)))
                of_kind(Mapping, changed.params)
                call = changed
        return call

    async def after_request(self, request: Request, result: dict[str, Any], call: Call | None) -> dict[str, Any]:
        """Return the result of a request, with the features' additions; a list's components stay the same.

        Raises:
            Refusal: a feature withholds the result.
        """
        refusal: Refusal | None = None
        for each in self._with(Feature.after_request):
            with left_out(each):
                handed = {
                    key: copy(value) if isinstance(value, dict | list) else value for key, value in result.items()
                }
                try:
                    changed = of_kind(dict, await _in_time(each, each.after_request(request, handed, call)))
                    if listed(request.method, changed) != listed(request.method, result):
                        raise ValueError("it changed which components are listed")
                    to_json(list(new_in(changed, result)))
                    result = changed
                except Refusal as withheld:  # the others are called all the same: what they count is counted
                    refusal = withheld
        if refusal is not None:
            raise refusal
        return result

    async def summary(self, request: Request, kind: ComponentKind, decision: Decision) -> Mapping[str, Any]:
        """Return the features' parts of the summary beside a list."""
        return joined(await self._answers(Feature.summary, as_json, lambda each: each.summary(request, kind, decision)))

    async def instructions(self, request: Request) -> Sequence[str]:
        """Return the features' parts of the instructions for models, in order."""
        texts = await self._answers(
            Feature.instructions, partial(of_kind, str | None), lambda each: each.instructions(request)
        )
        return [text for text in texts if text]

    async def _answers(
        self, method: Any, read: Callable[[Any], _T], ask: Callable[[Feature], Awaitable[Any]]
    ) -> list[_T]:
        answers: list[_T] = []
        for each in self._with(method):
            with left_out(each):
                answers.append(read(await _in_time(each, ask(each))))
        return answers

    def keeping_ms(self, request: Request, kind: ComponentKind) -> int | None:
        """Return the most milliseconds that a list may be cached; 0 where a feature fails."""
        limits: list[int] = []
        for each in self._with(Feature.keeping_ms):
            limit_ms: int | None = 0
            with left_out(each):
                limit_ms = of_kind(int | None, each.keeping_ms(request, kind))
            limits += [] if limit_ms is None else [max(0, limit_ms)]
        return min(limits, default=None)

    def start_lines(self) -> list[str]:
        """Return the features' lines of the startup message."""
        return [line for lines in self._at_once(Feature.start_lines, as_list) for line in lines]

    def routes(self) -> list[Any]:
        return [route for routes in self._at_once(Feature.routes, as_routes) for route in routes]

    def health(self) -> dict[str, Any]:
        """Return the features' parts of `/ready`."""
        return joined(self._at_once(Feature.health, as_json))

    def register_metrics(self, registry: Any) -> None:
        for each in self._with(Feature.register_metrics):
            with left_out(each):
                each.register_metrics(registry)

    def _at_once(self, method: Callable[[Any], Any], read: Callable[[Any], _T]) -> list[_T]:
        answers: list[_T] = []
        for each in self._with(method):
            with left_out(each):
                answers.append(read(getattr(each, method.__name__)()))
        return answers

    def running(self) -> tuple[Feature, ...]:
        """Return the features with work beside the server."""
        return self._with(Feature.run)


def _read(feature: Feature, kind: type[BaseModel], operator: Operator) -> BaseModel:
    try:
        return operator.declared(kind)
    except BaseException as error:
        if isinstance(error, SettingsError) or not is_failure(error):
            raise
        what = f"its settings can't be read: {type(error).__name__}"
        raise SettingsError(what, kind.__name__, name_of(feature), "see its validators") from error


async def _in_time(feature: Feature, answer: Awaitable[_T]) -> _T:
    async with asyncio.timeout(feature.limit_s):
        return await answer


def _is_open(tool: Tool, request: Request) -> bool:
    """Whether a tool is a feature's own, and may be listed and called by name."""
    return isinstance(tool, OwnTool) and request.verdict.bounds.permits_entry_tool(
        entry("tool", tool.name), by_caller=False
    )


def _bounds_of(feature: Feature, caller: Selection) -> Narrowing | None:
    try:
        return feature.bounds_for(caller)
    except BaseException as error:
        raise _refused(feature, error) from error


def _narrowings(bounds: Iterable[Narrowing | None]) -> Narrowings:
    narrowings = [each for each in bounds if each is not None]
    for each in narrowings:
        if type(each) is not Narrowing:
            raise BoundError(f"a feature's bounds are {type(each).__name__}, not a Narrowing")
    return tuple(narrowings)


def _refused(feature: Feature, error: BaseException) -> BoundError:
    if not is_failure(error):
        raise error
    logger.error("%s could not tell its bounds, so the request is refused", name_of(feature), exc_info=error)
    return BoundError(f"the bounds of {name_of(feature)} are not known, so nothing is permitted; see the server's log")

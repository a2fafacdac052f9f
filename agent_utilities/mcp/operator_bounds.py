"""What a server says when it starts: what its operator's bounds come to, names in them that fit nothing, and its size.

A misspelt deny leaves open what it was to close. On the command line, which is this server's alone, it ends the launch;
in the environment, which many servers may share, it is a warning, unless `MCP_STRICT` is set. Names are judged on what
every provider lists at the start; only where components come later, or a provider can't be listed, a misspelt name is a
warning until they have come. A misspelt allow-list leaves nothing open, and is a warning; but a toolset in an
allow-list of tools, which it does not permit (law L3), is refused as such a deny is.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from fastmcp import FastMCP
from fastmcp.server.providers import Provider
from fastmcp.server.providers.aggregate import AggregateProvider
from fastmcp.server.transforms import Namespace, ToolTransform
from fastmcp.server.transforms.visibility import Visibility, is_enabled
from fastmcp.tools.base import Tool

from agent_utilities.catalog.entry_tools import EVERY_NAME as ENTRY_NAMES
from agent_utilities.catalog.model import KINDS, Catalog, ComponentKind, entry
from agent_utilities.compat.fastmcp_server import as_over_stdio, parts_of, whole_lifespan
from agent_utilities.errors import SelectionError
from agent_utilities.mcp.surface.components import LISTING, as_models_read, bearing_of, entry_of
from agent_utilities.mcp.surface.surface import TOOL_SEARCH, Surface, Verdict
from agent_utilities.mcp.surface.visibility_transform import DynamicVisibilityTransform
from agent_utilities.mcp.tool_origin import KeptProvider
from agent_utilities.selection.channels import spelled
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import NOTHING, Channel, NameSet, Setting
from agent_utilities.visibility.bounds import UnfitName, finish, unfit_names
from agent_utilities.visibility.decision import Decision, decide

if TYPE_CHECKING:
    from agent_utilities.mcp.agent_server import AgentServer

logger = logging.getLogger("agent_utilities.start")

_RENAMING = (Namespace, ToolTransform, Visibility, DynamicVisibilityTransform)
"""Transforms that leave nothing out of a list, or that hide by these very bounds."""
_LIST_S = 5.0
"""Seconds that a provider has to list what it has, before the server starts without knowing it."""
_MAX_SHOWN = 8


class OperatorBounds:
    """Says what a server's operator permits, and keeps the names that fit nothing until something does.

    Args:
        server: the server; its features say more at the start, and which toolsets are to come: names that begin like
            them are no misspelling.
    """

    def __init__(self, server: AgentServer) -> None:
        self._server = server
        self._unfit: tuple[UnfitName, ...] = ()
        self._seen: set[str] = set()
        self._is_announced = False
        self.said = asyncio.Event()
        """Set once it was said what holds, so that the server serves."""
        self._size_at_start: str | None = None
        self.greeted = asyncio.Event()
        """Set once it was said where it is served, and what holds: not before its address is bound."""
        self._greeting: list[tuple[int, str]] = []

    async def announce(self, *, on_stderr: bool, log_level: str | None = None, waits: bool = False) -> None:
        """Say what holds, once a server; called when its lifespan has been entered and nothing is served yet.

        Args:
            on_stderr: whether the process is ours, so that stderr is; else it is logged.
            waits: whether its address is yet to be bound: then what holds is said by `greet`.
            log_level: the least severe line wanted on stderr; a deny that fits nothing is warned of in any case.

        Raises:
            SelectionError: a deny of the command line fits nothing and nothing can come that it fits, or one of the
                environment does, and `MCP_STRICT` is set.
        """
        from agent_utilities.catalog.context import n_tokens, open_warning  # not before the server starts

        if self._is_announced:
            return
        self._is_announced = True
        if not waits:
            self.greeted.set()
        verdict = self._server.surface.verdict(NOTHING, shapes_lists=True)
        try:
            self._unfit, there = await self._judged()
            listed = there
            if next(_mounted(self._server), None) is not None:  # what their operators hide is not listed
                listed = await components(self._server, "tool", past_mounted=False, asks_others=there.asked_others)
            catalog = Catalog(tuple(entry_of("tool", tool) for tool in listed.components))
            decision = decide(catalog, verdict.effective.bounds_only, verdict.preferences)
            n_tools = len({tool.name for tool in there.components})
            what_holds = self._what_holds(decision, n_tools, is_complete=there.is_whole)
            costs = {tool.name: n_tokens(as_models_read(tool)) for tool in listed.components}
            large = await self._size_warning(verdict, decision, listed.components, costs)
        except Exception:
            logger.exception("a listing failed: what the operator's bounds come to is not known")
            self.said.set()
            return
        self._size_at_start = open_warning(defers=decision.defers) if large else None
        if there.is_whole:
            _refuse(self._ending_in(self._unfit))
        of_launch = logging.getLogger("agent_utilities").level or logging.INFO
        wanted = logging.getLevelNamesMapping().get((log_level or "").upper(), of_launch)
        least = wanted if on_stderr else logging.NOTSET
        for line in (*self._server.left_out, *(str(_error([name])) for name in self._unfit)):
            _say(logging.WARNING, line, on_stderr=on_stderr)
        told = [(logging.INFO, what_holds), (logging.INFO, f"{self._server.name}: {_size(decision, costs)}")]
        told += [(logging.WARNING, f"{self._server.name}: {large}")] if large else []
        self._greeting = [(level, line) for level, line in told if least <= level]
        if not waits:
            for level, line in self._greeting:
                _say(level, line, on_stderr=on_stderr)
        self.said.set()

    def greet(self, where: str = "") -> None:
        """Say on stderr what holds, once, and the endpoint where nobody else says it: its address is bound now."""
        if not self.greeted.is_set():
            if where and any(level == logging.INFO for level, _ in self._greeting):
                _say(logging.INFO, f"{self._server.name}: Uvicorn running on {where}", on_stderr=True)
            for level, line in self._greeting:
                _say(level, line, on_stderr=True)
            self.greeted.set()

    async def _size_warning(
        self, verdict: Verdict, decision: Decision, tools: Sequence[Tool], costs: Mapping[str, int]
    ) -> str | None:
        """Return the warning of what is listed to a caller who asks for nothing; None where that is little."""
        from agent_utilities.catalog.context import ListedTool, surface_warning

        if verdict.preferences.query is not None:  # the operator's query cuts what is listed
            return None
        for transform in self._server.transforms:
            if isinstance(transform, Visibility):  # it marks tools that the author disabled
                tools = await transform.list_tools(tools)
        listed = []
        for tool in {tools[i].name: tools[i] for i in decision.visible if is_enabled(tools[i])}.values():
            bearing = bearing_of("tool", tool)
            listed.append(ListedTool(bearing.tags, bearing.read_only, costs[tool.name]))
        can_defer = verdict.bounds.permits_entry_tool(TOOL_SEARCH, by_caller=False)
        return surface_warning(listed, can_defer=can_defer, defers=decision.defers)

    async def check(self) -> None:
        """Refuse what ends a launch, where nothing is launched.

        Raises:
            SelectionError: as `announce`.
        """
        unfit, _ = await self._judged()
        if self._ending_in(unfit) and not any(isinstance(each, KeptProvider) for each in _tree(self._server)):
            async with whole_lifespan(self._server):  # an author's may add what a name fits
                unfit, there = await self._judged()
            if there.is_whole:
                _refuse(self._ending_in(unfit))

    def _ending_in(self, unfit: Sequence[UnfitName]) -> list[UnfitName]:
        is_strict = self._server.surface.operator.settings.strict
        return [
            name for name in unfit if (name.denies or name.toolsets) and (is_strict or _channel(name.setting) == "cli")
        ]

    async def _judged(self) -> tuple[tuple[UnfitName, ...], Found]:
        """Return the operator's names that fit nothing that is there, and the tools that are there.

        Other servers are asked for theirs only where a name would fit nothing else.
        """
        settings = self._server.surface.verdict(NOTHING, shapes_lists=False).effective
        tools = await components(self._server, "tool", asks_others=False)
        if not finish(unfit_names(settings, "operator", [entry_of("tool", tool) for tool in tools.components])):
            return (), tools
        others = [await components(self._server, kind, asks_others=False) for kind in KINDS if kind != "tool"]
        unfit = await self._unfit_in(settings, [tools, *others])
        if unfit and not tools.asked_others:
            there = [await components(self._server, kind) for kind in KINDS]
            tools = there[KINDS.index("tool")]
            unfit = await self._unfit_in(settings, there)
        return unfit, tools

    async def _unfit_in(self, settings: Effective, there: Sequence[Found]) -> tuple[UnfitName, ...]:
        """Return the operator's names that fit nothing that is there.

        What a server that is mounted hides by its own operator's bounds is there too. A name in the environment, which
        that server may read as well, fits under the name that it has there.
        """
        names = [entry_of(each.kind, component) for each in there for component in each.components]
        names += [entry("tool", f"{name}_", tags=[name]) for name in self._server.features.gathered("toolsets_to_come")]
        names += [entry("tool", name) for name in ENTRY_NAMES]
        asks = {"asks_others": there[0].asked_others}
        found = [await components(kid, kind, **asks) for kid in _mounted(self._server) for kind in KINDS]
        hidden = [*names, *(entry_of(each.kind, component) for each in found for component in each.components)]
        by_channel = {"cli": names, "env": hidden, "file": hidden}
        return tuple(
            name
            for channel, channel_entries in by_channel.items()
            for name in finish(unfit_names(settings, "operator", channel_entries))
            if _channel(name.setting) == channel
        )

    def unfit(self) -> tuple[UnfitName, ...]:
        """Return the names that have fitted nothing since the start, in what was listed since."""
        if self._unfit:
            settings = self._server.surface.verdict(NOTHING, shapes_lists=False).effective
            for catalog in self._server.surface.catalogs.all():
                if catalog.digest not in self._seen:
                    self._seen.add(catalog.digest)
                    unfit = finish(unfit_names(settings, "operator", catalog.entries))
                    still = {(name.name, name.setting) for name in unfit}
                    self._unfit = tuple(name for name in self._unfit if (name.name, name.setting) in still)
        return self._unfit

    def n_unfit(self, *, denies: bool) -> int:
        """Return how many denies, or names in allow-lists, have fitted nothing."""
        return sum(name.denies is denies for name in self.unfit())

    def warnings(self) -> list[str]:
        """Return what `/ready` warns of: everybody may read it, so it bears no name."""
        from agent_utilities.catalog.context import is_large, open_warning  # as above

        counts = [("deny" if denies else "allow-list", self.n_unfit(denies=denies)) for denies in (True, False)]
        warnings = [
            f"names in the operator's {what} settings that fit nothing: {n}; see what was logged at the start"
            for what, n in counts
            if n
        ]
        if self._size_at_start is not None:
            return [*warnings, self._size_at_start]
        surface = self._server.surface
        verdict = surface.verdict(NOTHING, shapes_lists=True)
        for catalog in surface.catalogs.all() if verdict.preferences.query is None else ():
            if catalog.entries and catalog.entries[0].kind == "tool":
                decision = surface.decision("tool", catalog, verdict)
                if is_large(len(decision.visible_names)):  # by number, as callers were listed it
                    return [*warnings, open_warning(defers=decision.defers)]
        return warnings

    def _what_holds(self, decision: Decision, n_tools: int, *, is_complete: bool) -> str:
        counted = f"{len(decision.permitted_names)} of {n_tools} tools permitted"
        later = "" if is_complete else ", and such as come later"
        rules = {rule.text for rule in decision.refusals if rule and rule.name in ("not_read_only", "may_destroy")}
        if rules and not decision.permitted:  # many tools say nothing of themselves
            counted += f": they are {', or '.join(sorted(rules))}"
        told = (*self._server.surface.operator.notices, *self._server.features.gathered("start_lines"))
        missing = "".join(f"; {line}" for line in told)
        bounds = "; ".join(_spelled(decision.effective)) or "no bounds"
        return f"{self._server.name}: {counted}{later}; {bounds}{missing}"


@dataclass(frozen=True)
class Found:
    """What a server has of a kind, past its bounds.

    Args:
        is_whole: whether that is all it will have, as far as its providers tell.
        asked_others: whether it has no provider that would have had to ask another server, or that was done.
    """

    kind: ComponentKind
    components: list[Any]
    is_whole: bool
    asked_others: bool


async def components(
    server: AgentServer, kind: ComponentKind, *, past_mounted: bool = True, asks_others: bool = True
) -> Found:
    """Return all that a server has of a kind, past its bounds, `auth` checks and the author's `disable`.

    Args:
        past_mounted: whether past the bounds of servers mounted in it too.
        asks_others: whether to ask servers elsewhere, which may take long, or start a process.
    """
    found: list[Any] = list(server.author_injected_tools()) if kind == "tool" else []
    is_whole = asked_others = True
    verdict = server.surface.unbounded_everywhere() if past_mounted else server.surface.unbounded()
    with server.surface.under_verdict(verdict), as_over_stdio():
        for provider in server.providers:
            if not asks_others and any(map(_is_proxy, _tree(provider))):
                is_whole = asked_others = False
                continue
            listed, is_all = await _listed(provider, kind)
            is_whole = is_whole and is_all and not any(map(_may_have_more, _tree(provider)))
            found += listed
        for transform in server.transforms:
            if isinstance(transform, Namespace | ToolTransform):
                found = list(await getattr(transform, LISTING[kind])(found))
        if asked_others and not all(isinstance(each, _RENAMING) for each in server.transforms):
            found += await getattr(FastMCP, LISTING[kind])(server, run_middleware=False)  # as they make it
    return Found(kind, found, is_whole, asked_others)


async def _listed(provider: Provider, kind: ComponentKind) -> tuple[Sequence[Any], bool]:
    """Return what a provider lists, and whether that is all it has: whoever fails to list within it is told of."""
    groups = [each for each in _tree(provider) if isinstance(each, AggregateProvider)]
    strategies = [group.provider_error_strategy for group in groups]
    for group in groups:
        group.provider_error_strategy = "raise"
    try:
        async with asyncio.timeout(_LIST_S):
            return await getattr(provider, LISTING[kind])(), True
    except Exception as error:
        told = "%r lists no %ss (%s): what the operator's bounds come to is not known there"
        logger.warning(told, provider, kind, " ".join(f"{type(error).__name__} {error}".split()))
    finally:
        for group, strategy in zip(groups, strategies, strict=True):
            group.provider_error_strategy = strategy
    with suppress(Exception):
        async with asyncio.timeout(_LIST_S):
            return await getattr(provider, LISTING[kind])(), False
    return (), False


def _tree(provider: Provider) -> Iterator[Provider]:
    """Yield a provider and those that it lists through, at any depth."""
    yield provider
    for part in parts_of(provider):
        yield from _tree(part)


def _may_have_more(provider: Provider) -> bool:
    """Whether a provider lists what it knows by now, or a transform on it may hide what it has."""
    return isinstance(provider, KeptProvider) or not all(isinstance(each, _RENAMING) for each in provider.transforms)


def _mounted(server: Provider) -> Iterator[AgentServer]:
    """Yield the servers with bounds of their own that are mounted in a server, at any depth."""
    for part in _tree(server):
        if part is not server and isinstance(getattr(part, "surface", None), Surface):
            yield cast("AgentServer", part)


def _refuse(ending: Sequence[UnfitName]) -> None:
    """Raise for the denies among names that end a launch, else for the others."""
    if ending:
        raise _error([name for name in ending if name.denies] or ending)


def _error(names: Sequence[UnfitName]) -> SelectionError:
    """Return what to tell of names that fit nothing, all of them denies or one of an allow-list."""
    near = ", ".join(dict.fromkeys(meant for name in names if (meant := _meant(name)) is not None))
    hint = f"did you mean {near}?" if near else "--list shows what there is; MCP_DISABLED_* may name what comes later"
    what = "a deny that fits nothing" if names[0].denies else "an allow-list that names what is not there"
    if names[0].toolsets:
        what = f"{'a deny' if names[0].denies else 'an allow-list'} of tools that names a toolset"
    sources = dict.fromkeys(origin for name in names for origin in name.setting.origins)
    return SelectionError(what, ", ".join(name.name for name in names), ", ".join(sources), hint)


def _meant(name: UnfitName) -> str | None:
    """Return what was probably meant: a toolset as its channel spells one, else the nearest name, or None."""
    if not name.toolsets:
        return name.nearest
    channel = _channel(name.setting)
    return f"{spelled(name.toolsets, channel)}{' ' if channel == 'cli' else '='}{name.name}"


def _channel(setting: Setting) -> Channel:
    channels: dict[str, Channel] = {"option": "cli", "file": "file"}
    return channels.get(setting.origins[0].partition(" ")[0], "env")


def _spelled(settings: Effective) -> Iterator[str]:
    """Yield each bound as it was given, such as `--disabled-tags write (cli)`."""
    flags = [flag for flag in (settings.read_only, settings.no_destructive) if flag is not None]
    for setting in (*chain.from_iterable(settings.lists), *flags):
        told = ", ".join(origin.partition(" ")[2] for origin in setting.origins)
        if isinstance(setting.value, NameSet):
            names = setting.value.spelled()
            more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
            told += f" {','.join(names[:_MAX_SHOWN])}{more}"
        yield f"{told} ({_channel(setting)})"


def _size(decision: Decision, costs: Mapping[str, int]) -> str:
    of_all, listed = sum(costs.values()), sum(costs[name] for name in decision.visible_names)
    told = f"{len(decision.visible_names)} listed, about {listed:,} tokens on every turn"
    return told + (f", of {len(costs)} with {of_all:,}" if listed < of_all else "")


def _say(level: int, message: str, *, on_stderr: bool) -> None:
    if on_stderr:
        prefix = "WARNING: " if level >= logging.WARNING else ""
        print(f"{prefix}{' '.join(message.split())}", file=sys.stderr)
    else:
        logger.log(level, "%s", message)


def _is_proxy(provider: Provider) -> bool:
    """Whether a provider asks another server; the module of those brings clients along, and is not imported to tell."""
    module = sys.modules.get("fastmcp.server.providers.proxy")
    return module is not None and isinstance(provider, module.ProxyProvider)

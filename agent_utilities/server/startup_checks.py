"""Checks for names in an operator's bounds that fit nothing: some end a launch, the others are warnings.

A misspelt deny leaves its target open. On the command line, which is this server's alone, it ends the launch;
in the environment, which many servers may share, it is a warning, unless `MCP_STRICT` is set. Names are judged on what
every provider lists at the start; only where components come later, or a provider can't be listed, a misspelt name is a
warning until they have come. A misspelt allow-list leaves nothing open, and is a warning; but a toolset in an
allow-list of tools, which it does not permit (law L3), is refused as such a deny is.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from fastmcp import FastMCP
from fastmcp.server.providers import Provider
from fastmcp.server.providers.aggregate import AggregateProvider
from fastmcp.server.transforms import Namespace, ToolTransform
from fastmcp.server.transforms.visibility import Visibility
from fastmcp.tools.base import Tool

from agent_utilities.catalog.model import KINDS, ComponentKind, entry
from agent_utilities.compat.fastmcp_server import as_over_stdio, parts_of, whole_lifespan
from agent_utilities.errors import SelectionError
from agent_utilities.policy.bounds import UnfitName, finish, unfit_names
from agent_utilities.policy.entry_names import EVERY_NAME as ENTRY_NAMES
from agent_utilities.seam.components import LISTING, KeptProvider, entry_of
from agent_utilities.selection.channels import spelled
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import NOTHING, Channel, Setting
from agent_utilities.server.surface.surface import Surface
from agent_utilities.server.surface.visibility_transform import DynamicVisibilityTransform

if TYPE_CHECKING:
    from agent_utilities.server.agent_server import AgentServer

logger = logging.getLogger("agent_utilities.start")

_RENAMING = (Namespace, ToolTransform, Visibility, DynamicVisibilityTransform)
"""Transforms that leave nothing out of a list, or that hide by these same bounds."""
_LIST_S = 5.0
"""Seconds that a provider has to list its components, before the server starts without them."""


class OperatorBounds:
    """Checks the names in a server's operator bounds, and keeps those that fit nothing until something fits.

    Args:
        server: the server; its features name the toolsets to come: a name that begins like one is no misspelling.
    """

    def __init__(self, server: AgentServer) -> None:
        self._server = server
        self._unfit: tuple[UnfitName, ...] = ()
        self._seen: set[str] = set()
        self._is_judged = False
        self.is_known = False
        """Whether the names are checked, so that the server is ready."""
        self.at_start: AtStart | None = None
        self.size_at_start: str | None = None
        """The warning of `/ready` that the surface was large at the start."""

    async def judge(self) -> None:
        """Check the operator's names against all components, once a server, within its lifespan and before it serves.

        Raises:
            SelectionError: a deny of the command line fits nothing and nothing can come that it fits, or one of the
                environment does, and `MCP_STRICT` is set.
        """
        if self._is_judged:
            return
        self._is_judged = True
        try:
            self._unfit, there = await self._judged()
            listed = there
            if next(_mounted(self._server), None) is not None:  # what their operators hide is not listed
                listed = await components(self._server, "tool", past_mounted=False, asks_others=there.asked_others)
        except Exception:
            logger.exception("a listing failed: what the operator's bounds come to is not known")
        else:
            if there.is_whole:
                _refuse(self._ending_in(self._unfit))
            self.at_start = AtStart(listed.components, len({tool.name for tool in there.components}), there.is_whole)
        self.is_known = True

    def problems(self) -> list[str]:
        """Return a message for each name that fits nothing."""
        return [str(_error([name])) for name in self._unfit]

    async def check(self) -> None:
        """Raise for names that would end a launch, without a launch.

        Raises:
            SelectionError: as `judge`.
        """
        unfit, _ = await self._judged()
        if self._ending_in(unfit) and not any(isinstance(each, KeptProvider) for each in _tree(self._server)):
            async with whole_lifespan(self._server):  # an author's may add what a name fits
                unfit, there = await self._judged()
            if there.is_whole:
                _refuse(self._ending_in(unfit))

    def _ending_in(self, unfit: Sequence[UnfitName]) -> list[UnfitName]:
        is_strict = self._server.surface.operator.settings.strict
        held = [name for name in unfit if is_strict or channel_of(name.setting) == "cli"]
        return [name for name in held if name.denies or name.toolsets]

    async def _judged(self) -> tuple[tuple[UnfitName, ...], Inventory]:
        """Return the operator's names that fit no component, and the tools that there are.

        Other servers are listed only where a name would fit nothing else.
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

    async def _unfit_in(self, settings: Effective, there: Sequence[Inventory]) -> tuple[UnfitName, ...]:
        """Return the operator's names that fit no component.

        Components that a mounted server's own operator hides count too. A name in the environment, which that server
        may read as well, also fits by a component's name there.
        """
        names = [entry_of(each.kind, component) for each in there for component in each.components]
        names += [entry("tool", f"{name}_", tags=[name]) for name in self._server.pending.toolsets_to_come()]
        names += [entry("tool", name) for name in ENTRY_NAMES]
        asks = {"asks_others": there[0].asked_others}
        inventories = [await components(kid, kind, **asks) for kid in _mounted(self._server) for kind in KINDS]
        hidden = [*names, *(entry_of(each.kind, component) for each in inventories for component in each.components)]
        by_channel = {"cli": names, "env": hidden, "file": hidden}
        return tuple(
            name
            for channel, channel_entries in by_channel.items()
            for name in finish(unfit_names(settings, "operator", channel_entries))
            if channel_of(name.setting) == channel
        )

    def unfit(self) -> tuple[UnfitName, ...]:
        """Return the names that have fitted no component since the start, by what was listed since."""
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
        """Return the number of denies, or of names in allow-lists, that have fitted nothing."""
        return sum(name.denies is denies for name in self.unfit())

    def warnings(self) -> list[str]:
        """Return the warnings of `/ready`; they have no names, since everybody may read them."""
        from agent_utilities.catalog.context import is_large, open_warning  # as above

        counts = [("deny" if denies else "allow-list", self.n_unfit(denies=denies)) for denies in (True, False)]
        warnings = [
            f"names in the operator's {what} settings that fit nothing: {n}; see what was logged at the start"
            for what, n in counts
            if n
        ]
        if self.size_at_start is not None:
            return [*warnings, self.size_at_start]
        surface = self._server.surface
        verdict = surface.verdict(NOTHING, shapes_lists=True)
        for catalog in surface.catalogs.all() if verdict.preferences.query is None else ():
            if catalog.entries and catalog.entries[0].kind == "tool":
                decision = surface.decision("tool", catalog, verdict)
                if is_large(len(decision.visible_names)):  # by number, as callers were listed it
                    return [*warnings, open_warning(defers=decision.defers)]
        return warnings


class AtStart(NamedTuple):
    """The tools that a server had when it started, without its own bounds, and their number without anybody's.

    Args:
        is_whole: whether these are all that it will have, as far as its providers know.
    """

    tools: Sequence[Tool]
    n_tools: int
    is_whole: bool


@dataclass(frozen=True)
class Inventory:
    """The components of a kind that a server has, without its bounds.

    Args:
        is_whole: whether these are all that it will have, as far as its providers know.
        asked_others: whether the components of other servers are among them, or it has no provider of such.
    """

    kind: ComponentKind
    components: list[Any]
    is_whole: bool
    asked_others: bool


async def components(
    server: AgentServer, kind: ComponentKind, *, past_mounted: bool = True, asks_others: bool = True
) -> Inventory:
    """Return all components of a kind that a server has, without its bounds, `auth` checks and the author's `disable`.

    Args:
        past_mounted: whether to leave out the bounds of mounted servers too.
        asks_others: whether to list servers elsewhere, which may take long, or start a process.
    """
    every: list[Any] = list(server.author_injected_tools()) if kind == "tool" else []
    is_whole = asked_others = True
    verdict = server.surface.unbounded_everywhere() if past_mounted else server.surface.unbounded()
    with server.surface.under_verdict(verdict), as_over_stdio():
        for provider in server.providers:
            if not asks_others and any(map(_is_proxy, _tree(provider))):
                is_whole = asked_others = False
                continue
            listed, is_all = await _listed(provider, kind)
            is_whole = is_whole and is_all and not any(map(_may_have_more, _tree(provider)))
            every += listed
        for transform in server.transforms:
            if isinstance(transform, Namespace | ToolTransform):
                every = list(await getattr(transform, LISTING[kind])(every))
        if asked_others and not all(isinstance(each, _RENAMING) for each in server.transforms):
            every += await getattr(FastMCP, LISTING[kind])(server, run_middleware=False)  # as they make it
    return Inventory(kind, every, is_whole, asked_others)


async def _listed(provider: Provider, kind: ComponentKind) -> tuple[Sequence[Any], bool]:
    """Return what a provider lists, and whether that is all it has; failures within it are logged."""
    groups = [each for each in _tree(provider) if isinstance(each, AggregateProvider)]
    strategies = [group.provider_error_strategy for group in groups]
    for group in groups:
        group.provider_error_strategy = "raise"
    try:
        async with asyncio.timeout(_LIST_S):
            return await getattr(provider, LISTING[kind])(), True
    except Exception as error:
        message = "%r lists no %ss (%s): what the operator's bounds come to is not known there"
        logger.warning(message, provider, kind, " ".join(f"{type(error).__name__} {error}".split()))
    finally:
        for group, strategy in zip(groups, strategies, strict=True):
            group.provider_error_strategy = strategy
    with suppress(Exception):
        async with asyncio.timeout(_LIST_S):
            return await getattr(provider, LISTING[kind])(), False
    return (), False


def _tree(provider: Provider) -> Iterator[Provider]:
    """Yield a provider and the providers below it, at any depth."""
    yield provider
    for part in parts_of(provider):
        yield from _tree(part)


def _may_have_more(provider: Provider) -> bool:
    """Whether a provider may list more later, or a transform on it may hide components."""
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
    """Return the error for names that fit nothing: denies, or one of an allow-list."""
    near = ", ".join(dict.fromkeys(meant for name in names if (meant := _meant(name)) is not None))
    hint = f"did you mean {near}?" if near else "--list shows what there is; MCP_DISABLED_* may name what comes later"
    what = "a deny that fits nothing" if names[0].denies else "an allow-list that names what is not there"
    if names[0].toolsets:
        what = f"{'a deny' if names[0].denies else 'an allow-list'} of tools that names a toolset"
    sources = dict.fromkeys(origin for name in names for origin in name.setting.origins)
    return SelectionError(what, ", ".join(name.name for name in names), ", ".join(sources), hint)


def _meant(name: UnfitName) -> str | None:
    """Return the probable intent: a toolset as its channel spells one, else the nearest name, or None."""
    if not name.toolsets:
        return name.nearest
    channel = channel_of(name.setting)
    return f"{spelled(name.toolsets, channel)}{' ' if channel == 'cli' else '='}{name.name}"


def channel_of(setting: Setting) -> Channel:
    channels: dict[str, Channel] = {"option": "cli", "file": "file"}
    return channels.get(setting.origins[0].partition(" ")[0], "env")


def _is_proxy(provider: Provider) -> bool:
    """Whether a provider is a proxy; the module of those loads clients, and is not imported to find out."""
    module = sys.modules.get("fastmcp.server.providers.proxy")
    return module is not None and isinstance(provider, module.ProxyProvider)

"""What a server says when it starts, in one block: where it serves, what holds and what it costs, and what is wrong."""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

from fastmcp.server.transforms.visibility import Visibility, is_enabled
from fastmcp.tools.base import Tool

from agent_utilities.catalog.model import Catalog
from agent_utilities.policy.decision import Decision, decide
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import NOTHING, NameSet
from agent_utilities.server.operator_bounds import AtStart, OperatorBounds, channel_of
from agent_utilities.server.surface.components import as_models_read, bearing_of, entry_of
from agent_utilities.server.surface.surface import TOOL_SEARCH, Verdict

if TYPE_CHECKING:
    from agent_utilities.server.agent_server import AgentServer

logger = logging.getLogger("agent_utilities.start")

WARNING = "WARNING: "
"""What a line that is wrong begins with, where it has no word of its own, such as `left out: `."""
_MAX_SHOWN = 8


class Greeting:
    """Gathers what is to be said, and says it once: over HTTP when the address is bound, since it may be taken.

    Args:
        server: the server; its features say more.
    """

    def __init__(self, server: AgentServer) -> None:
        self._server, self.bounds = server, OperatorBounds(server)
        self._told: list[tuple[int, str]] = []
        self._is_said = False
        self.is_ours = False
        """Whether the process is ours, so that stderr is; else all is logged."""
        self.logs_alike = False
        """Whether the web server's log lines are in our format, so that where it runs is ours to say."""
        self.page: Callable[[], Awaitable[str]] | None = None
        """Returns where the server's page is, once its address is bound; empty where nobody is to be told."""

    def tell(self, line: str, level: int = logging.WARNING) -> None:
        """Have something said in the block, or now if it was said; what is wrong begins with what it is."""
        self._told.append((level, line))
        if self._is_said:
            self._say_told()

    async def say(self, log_level: str | None = None, where: str = "") -> None:
        """Say all of it, once; only now is it counted what tools cost, which keeps nobody waiting.

        Args:
            log_level: the least severe line wanted on stderr; what is wrong with names or a file is said in any case.
            where: the endpoint, where nobody else says it.

        Raises:
            SelectionError: as `OperatorBounds.judge`, which over HTTP comes before the address is bound.
        """
        if self._is_said:
            return
        await self.bounds.judge()
        of_launch = logging.getLogger("agent_utilities").level or logging.INFO
        wanted = logging.getLevelNamesMapping().get((log_level or "").upper(), of_launch)
        least = wanted if self.is_ours else logging.NOTSET
        there, lines = self.bounds.at_start, list[tuple[int, str]]()
        if where and least <= logging.INFO:
            lines.append((logging.INFO, f"{self._server.name}: Uvicorn running on {where}"))
        if self.page is not None and (page := await self.page()):
            lines.append((logging.INFO, f"page: {page}"))
        if there is not None and least <= logging.WARNING:
            try:
                lines += [line for line in await self._what_holds(there) if least <= line[0]]
            except Exception:  # an author's transform may fail; it is served all the same
                logger.exception("what the operator's bounds come to can't be said")
        wrong = [f"{WARNING}{line}" for line in (*self._server.left_out, *self.bounds.told())]
        self._told = [*lines, *sorted(self._told, key=lambda told: told[0]), *((logging.WARNING, w) for w in wrong)]
        self._say_told()

    def end(self) -> None:
        """Say what is wrong, where a start ended before anything was said."""
        if not self._is_said:
            self._told = [told for told in self._told if told[0] >= logging.WARNING]
            self._say_told()

    def _say_told(self) -> None:
        told, self._told, self._is_said = [(level, " ".join(line.split())) for level, line in self._told], [], True
        if not self.is_ours:
            for level, line in told:
                logger.log(level, "%s", line.removeprefix(WARNING))
        elif told:
            with suppress(OSError):  # its reader has gone, or its disk is full: it is served all the same
                print("\n".join(line for _, line in told), file=sys.stderr, flush=True)

    async def _what_holds(self, there: AtStart) -> list[tuple[int, str]]:
        from agent_utilities.catalog.context import n_tokens, open_warning  # not before the server starts

        server, name = self._server, self._server.name
        verdict = server.surface.verdict(NOTHING, shapes_lists=True)
        catalog = Catalog(tuple(entry_of("tool", tool) for tool in there.tools))
        decision = decide(catalog, verdict.effective.bounds_only, verdict.preferences)
        costs = {tool.name: n_tokens(as_models_read(tool)) for tool in there.tools}
        told = [(logging.INFO, f"{name}: {_permitted(decision, there)}")]
        if costs or there.is_whole:
            told.append((logging.INFO, f"{name}: {_size(decision, costs)}"))
        notes = (*server.surface.operator.notices, *server.features.gathered("start_lines"))
        told += [(logging.INFO, f"note: {note}") for note in notes]
        if large := await self._size_warning(verdict, decision, there.tools, costs):
            self.bounds.size_at_start = open_warning(defers=decision.defers)
            told.append((logging.WARNING, f"{WARNING}{name}: {large}"))
        return told

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


def _permitted(decision: Decision, there: AtStart) -> str:
    counted = f"{len(decision.permitted_names)} of {there.n_tools} tools permitted"
    later = "" if there.is_whole else ", and such as come later"
    rules = {rule.text for rule in decision.refusals if rule and rule.name in ("not_read_only", "may_destroy")}
    if rules and not decision.permitted:  # many tools say nothing of themselves
        counted += f": they are {', or '.join(sorted(rules))}"
    return f"{counted}{later}; {'; '.join(_spelled(decision.effective)) or 'no bounds'}"


def _spelled(settings: Effective) -> Iterator[str]:
    """Yield each bound as it was given, such as `--disabled-tags write (cli)`."""
    flags = [flag for flag in (settings.read_only, settings.no_destructive) if flag is not None]
    for setting in (*chain.from_iterable(settings.lists), *flags):
        told = ", ".join(origin.partition(" ")[2] for origin in setting.origins)
        if isinstance(setting.value, NameSet):
            names = setting.value.spelled()
            more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
            told += f" {','.join(names[:_MAX_SHOWN])}{more}"
        yield f"{told} ({channel_of(setting)})"


def _size(decision: Decision, costs: Mapping[str, int]) -> str:
    of_all, listed = sum(costs.values()), sum(costs[name] for name in decision.visible_names)
    told = f"{len(decision.visible_names)} listed, about {listed:,} tokens on every turn"
    return told + (f", of {len(costs)} with {of_all:,}" if listed < of_all else "")

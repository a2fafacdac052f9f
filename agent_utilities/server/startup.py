"""The startup message of a server: where it serves, its bounds, the cost of its tools, and warnings."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

from fastmcp.server.transforms.visibility import Visibility, is_enabled
from fastmcp.tools.base import Tool

from agent_utilities.catalog.model import Catalog
from agent_utilities.policy.decision import Decision, decide
from agent_utilities.policy.entry_names import SEARCH_ENTRY
from agent_utilities.seam.components import as_models_read, bearing_of, entry_of
from agent_utilities.seam.host import StartLink, find
from agent_utilities.seam.verdict import Verdict
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import NOTHING, NameSet
from agent_utilities.server.startup_checks import AtStart, OperatorBounds, channel_of

if TYPE_CHECKING:
    from agent_utilities.server.agent_server import AgentServer

logger = logging.getLogger("agent_utilities.start")

WARNING = "WARNING: "
"""The prefix of warnings that have none of their own, such as `left out: `."""
_MAX_SHOWN = 8


class Greeting:
    """Collects the lines of the startup message and prints them once; over HTTP once the address is bound.

    Args:
        server: the server; its features add lines.
    """

    def __init__(self, server: AgentServer) -> None:
        self._server, self.bounds = server, OperatorBounds(server)
        self._lines: list[tuple[int, str]] = []
        self._is_said = False
        self.is_ours = False
        """Whether the process is ours, so that lines go to stderr; otherwise they are logged."""
        self.logs_alike = False
        """Whether the web server logs in our format, so that we print its address."""

    def tell(self, line: str, level: int = logging.WARNING) -> None:
        """Add a line to the message, or print it now if the message was printed; a warning begins with its kind."""
        self._lines.append((level, line))
        if self._is_said:
            self._print()

    async def say(self, log_level: str | None = None, where: str = "") -> None:
        """Print the message, once; what tools cost is counted only now, which delays no request.

        Args:
            log_level: the least severe line for stderr; warnings of names and files are printed in any case.
            where: the endpoint, where nothing else logs it.

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
        if (link := find(self._server, StartLink)) is not None and (page := await link()):
            lines.append((logging.INFO, f"page: {page}"))
        if there is not None and least <= logging.WARNING:
            try:
                lines += [line for line in await self._what_holds(there) if least <= line[0]]
            except Exception:  # an author's transform may fail; it is served all the same
                logger.exception("what the operator's bounds come to can't be said")
        wrong = [f"{WARNING}{line}" for line in (*self._server.left_out, *self.bounds.problems())]
        self._lines = [*lines, *sorted(self._lines, key=lambda line: line[0]), *((logging.WARNING, w) for w in wrong)]
        self._print()

    def end(self) -> None:
        """Print the warnings of a start that ended before its message was printed."""
        if not self._is_said:
            self._lines = [line for line in self._lines if line[0] >= logging.WARNING]
            self._print()

    def _print(self) -> None:
        lines, self._lines, self._is_said = [(level, " ".join(line.split())) for level, line in self._lines], [], True
        if not self.is_ours:
            for level, line in lines:
                logger.log(level, "%s", line.removeprefix(WARNING))
        elif lines:
            with suppress(OSError):  # its reader has gone, or its disk is full: it is served all the same
                print("\n".join(line for _, line in lines), file=sys.stderr, flush=True)

    async def _what_holds(self, there: AtStart) -> list[tuple[int, str]]:
        from agent_utilities.catalog.context import n_tokens, open_warning  # not before the server starts

        server, name = self._server, self._server.name
        verdict = server.surface.verdict(NOTHING, shapes_lists=True)
        catalog = Catalog(tuple(entry_of("tool", tool) for tool in there.tools))
        decision = decide(catalog, verdict.effective.bounds_only, verdict.preferences)
        costs = {tool.name: n_tokens(as_models_read(tool)) for tool in there.tools}
        lines = [(logging.INFO, f"{name}: {_permitted(decision, there)}")]
        if costs or there.is_whole:
            lines.append((logging.INFO, f"{name}: {_size(decision, costs)}"))
        notes = (*server.surface.operator.notices, *server.features.start_lines())
        lines += [(logging.INFO, f"note: {note}") for note in notes]
        if large := await self._size_warning(verdict, decision, there.tools, costs):
            self.bounds.size_at_start = open_warning(defers=decision.defers)
            lines.append((logging.WARNING, f"{WARNING}{name}: {large}"))
        return lines

    async def _size_warning(
        self, verdict: Verdict, decision: Decision, tools: Sequence[Tool], costs: Mapping[str, int]
    ) -> str | None:
        """Return the warning of a large list for a caller without a selection, or None."""
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
        can_defer = verdict.bounds.permits_entry_tool(SEARCH_ENTRY, by_caller=False)
        return surface_warning(listed, can_defer=can_defer, defers=decision.defers)


def _permitted(decision: Decision, there: AtStart) -> str:
    counted = f"{len(decision.permitted_names)} of {there.n_tools} tools permitted"
    later = "" if there.is_whole else ", and such as come later"
    rules = {rule.text for rule in decision.refusals if rule and rule.name in ("not_read_only", "may_destroy")}
    if rules and not decision.permitted:  # many tools have no annotations
        counted += f": they are {', or '.join(sorted(rules))}"
    return f"{counted}{later}; {'; '.join(_spelled(decision.effective)) or 'no bounds'}"


def _spelled(settings: Effective) -> Iterator[str]:
    """Yield each bound as it was spelled, such as `--disabled-tags write (cli)`."""
    flags = [flag for flag in (settings.read_only, settings.no_destructive) if flag is not None]
    for setting in (*chain.from_iterable(settings.lists), *flags):
        bound = ", ".join(origin.partition(" ")[2] for origin in setting.origins)
        if isinstance(setting.value, NameSet):
            names = setting.value.spelled()
            more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
            bound += f" {','.join(names[:_MAX_SHOWN])}{more}"
        yield f"{bound} ({channel_of(setting)})"


def _size(decision: Decision, costs: Mapping[str, int]) -> str:
    of_all, listed = sum(costs.values()), sum(costs[name] for name in decision.visible_names)
    text = f"{len(decision.visible_names)} listed, about {listed:,} tokens on every turn"
    return text + (f", of {len(costs)} with {of_all:,}" if listed < of_all else "")

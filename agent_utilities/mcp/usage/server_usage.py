"""The usage log of one server: opened when it starts, written behind its requests, read for what it teaches."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from agent_utilities.catalog.model import Catalog
from agent_utilities.catalog.tokens import n_tokens
from agent_utilities.mcp.surface.surface import Surface
from agent_utilities.mcp.tool_origin import ToolOrigin
from agent_utilities.mcp.usage.subject import subject_of_request
from agent_utilities.resolution.learning import EVERYBODY, NOBODY, UsageSource
from agent_utilities.runtime.threads import in_daemon_thread
from agent_utilities.settings import Settings

if TYPE_CHECKING:
    from agent_utilities.mcp.usage.recorder import ToolSource
    from agent_utilities.usage.keys import Keys
    from agent_utilities.usage.learned import Learned
    from agent_utilities.usage.log import UsageLog

logger = logging.getLogger("agent_utilities.usage")

Mode = Literal["off", "counts", "words"]

_LISTS_EVERY_S = 10.0


class UsageHost(Protocol):
    """A server whose usage is logged."""

    surface: Surface

    @property
    def name(self) -> str:
        """The server's name, as clients see it."""
        ...

    def origin_of(self, tool: Any) -> ToolOrigin:
        """Return where a tool comes from; a server without a name for the server's own."""
        ...


class ServerUsage:
    """Logs what is called on a server, where its operator has not turned that off.

    Args:
        host: the server.
    """

    def __init__(self, host: UsageHost) -> None:
        self._host = host
        self.counts_by_default = False
        """Whether calls are counted where nobody says: a gateway sets it."""
        self._log: UsageLog | None = None
        self._keys: Keys | None = None

    @property
    def _settings(self) -> Settings:
        return self._host.surface.operator.settings

    @property
    def mode(self) -> Mode:
        """What is logged."""
        given = self._settings.usage
        if given == "auto":
            return "counts" if self.counts_by_default else "off"
        return given

    @property
    def path(self) -> Path:
        """The log's file."""
        from agent_utilities.usage.location import usage_file

        return usage_file(self._host.name, self._settings.usage_file)

    @property
    def notices(self) -> list[str]:
        """What is told of it at the start, a line each."""
        if self.mode == "off":
            return []
        what = "calls, and the words that led to them," if self.mode == "words" else "calls"
        return [f"{what} are logged in {self.path}; MCP_USAGE=off logs none"]

    # -- for whom ----------------------------------------------------------------------------------------------------

    @property
    def _is_of_subjects(self) -> bool:
        return self._settings.usage_scope == "subject"

    def subject(self) -> str:
        """Return whom the present request counts for, as a salted hash; empty where it counts for everybody."""
        if not self._is_of_subjects:
            return ""
        subject = subject_of_request()
        return NOBODY if subject is None or self._keys is None else self._keys.subject_key(subject)

    async def _open_keys(self) -> None:
        """Read what subjects are hashed with; without it nobody's calls teach anything."""
        from agent_utilities.usage.errors import UsageError
        from agent_utilities.usage.keys import open_keys

        try:
            self._keys = await in_daemon_thread(partial(open_keys, self.path))
        except UsageError as error:
            logger.warning("%s; calls are logged for nobody, and teach nothing", error)

    # -- writing -----------------------------------------------------------------------------------------------------

    async def run(self, on_news: Callable[[], None]) -> None:
        """Log until cancelled; returns at once where that is off.

        Args:
            on_news: called when events were written.
        """
        if self.mode == "off":
            return
        from agent_utilities.mcp.usage.recorder import Recorder
        from agent_utilities.usage.bounds import UsageBounds
        from agent_utilities.usage.log import UsageLog

        settings, observers = self._settings, self._host.surface.observers
        log = self._log = UsageLog(self.path, UsageBounds(settings.usage_days, settings.usage_rows))
        recorder = Recorder(
            self._host.name,
            log.record,
            source_of=self.source_of,
            subject=self.subject if self._is_of_subjects else _everybody,
            tokens_of=self.tokens_of,
            keeps_words=self.mode == "words",
        )
        if self._is_of_subjects:
            await self._open_keys()
        observers.add(recorder)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(log.run())
                group.create_task(_tell_news(log, on_news))
                try:
                    while True:
                        with suppress(TimeoutError):
                            async with asyncio.timeout(_LISTS_EVERY_S):
                                await recorder.is_full.wait()
                        await recorder.record_lists()
                finally:
                    await recorder.record_lists()  # the log writes them before it ends
        finally:
            observers.remove(recorder)
            self._log = None

    def _component(self, catalog: Catalog, place: int) -> Any:
        components = self._host.surface.components_of("tool", catalog)
        return components[place] if components else None

    def source_of(self, catalog: Catalog, name: str) -> ToolSource:
        """Return where a tool of a catalog comes from; nothing where that is not known any more."""
        places = catalog.places_by_own_name.get(name, ())
        tool = self._component(catalog, places[-1]) if places else None
        if tool is None:
            return "", ""
        return self._host.origin_of(tool).server.name, str(tool.version or "")

    def tokens_of(self, catalog: Catalog, place: int) -> int:
        """Return what the tool at a place of a catalog takes in a prompt; 0 where it is not known any more."""
        tool = self._component(catalog, place)
        if tool is None:
            return 0
        described = {"description": tool.description} if tool.description is not None else {}
        return n_tokens({"name": tool.name, **described, "inputSchema": tool.parameters})

    async def flushed(self) -> None:
        """Wait until what was recorded so far is written, or lost for good; returns at once where nothing is logged."""
        if self._log is not None:
            await self._log.flushed()

    # -- reading -----------------------------------------------------------------------------------------------------

    def source(self) -> UsageSource | None:
        """Return where it is known from what was called; None where nothing is logged, or nothing to be learned."""
        if self.mode == "off" or self._settings.curation != "recency":
            return None
        return UsageSource(partial(_read, self.path, self._host.name), is_shared=not self._is_of_subjects)

    def health(self) -> dict[str, Any]:
        """Return what `/ready` tells of the log."""
        if self._log is None:
            return {"status": "off"}
        return {"mode": self.mode, **self._log.health()}


def _everybody() -> str:
    return EVERYBODY


async def _tell_news(log: UsageLog, on_news: Callable[[], None]) -> None:
    """Tell of each batch that is written."""
    while True:
        known = log.generation
        await log.until(partial(_has_grown, log, known))
        on_news()


def _has_grown(log: UsageLog, known: int) -> bool:
    return log.generation != known


def _read(path: Path, server: str, scope: str) -> Learned:
    from agent_utilities.usage.reading import read_learned

    return read_learned(path, server, scope, time.time_ns() // 1_000_000)

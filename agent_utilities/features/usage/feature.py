"""The usage log of one server: opened when it starts, written behind its requests, read for what it teaches."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cachetools import LRUCache
from fastmcp.server.dependencies import get_access_token

from agent_utilities.catalog.model import Catalog
from agent_utilities.features.usage.trail import NOT_USED, SessionUse
from agent_utilities.mcp.events import Event
from agent_utilities.mcp.feature import Feature
from agent_utilities.mcp.request import Request, RequestBegan, ToolCalled, ToolsListed
from agent_utilities.runtime.waiting import in_daemon_thread, in_turns
from agent_utilities.selection.model import ANSWERED
from agent_utilities.usage.model import (
    EVERYBODY,
    NOBODY,
    Call,
    Listed,
    Search,
    UsageBounds,
    UsageSource,
    usage_file,
)
from agent_utilities.usage.model import Event as LogEvent
from agent_utilities.visibility.decision import Decision

if TYPE_CHECKING:
    from agent_utilities.settings import Settings
    from agent_utilities.usage.log import UsageLog
    from agent_utilities.usage.model import Learned

logger = logging.getLogger("agent_utilities.usage")

Mode = Literal["off", "counts", "words"]

_LISTS_EVERY_S = 10.0
_N_TOKENS = 20_000
_N_DECISIONS = 1_000
"""The most lists, each another, that are counted before what they hold is recorded."""


@dataclass(frozen=True, slots=True)
class ToolsSought(Event):
    """Words that tools were searched by.

    Args:
        words: the model's. They are not to be logged as they are.
        found: names of the tools that were found.
        request: that it was done for.
    """

    words: str
    found: Collection[str]
    request: Request


class Usage(Feature):
    """Logs what is called on a server, where its operator has not turned that off, and keeps what sessions did.

    Args:
        counts_by_default: whether calls are counted where nobody says, as on a gateway.
    """

    name = "usage"

    def __init__(self, *, counts_by_default: bool = False) -> None:
        self._counts_by_default = counts_by_default
        self.on_news: Callable[[], None] = lambda: None
        """Called when events were written."""
        self._log: UsageLog | None = None
        self._salt: bytes | None = None
        """What subjects are hashed with."""
        self._recorder: Recorder | None = None

    @property
    def _settings(self) -> Settings:
        return self.host.surface.operator.settings

    @property
    def mode(self) -> Mode:
        """What is logged."""
        given = self._settings.usage
        if given == "auto":
            return "counts" if self._counts_by_default else "off"
        return given

    @property
    def path(self) -> Path:
        """The log's file."""
        return usage_file(self.host.name, self._settings.usage_file)

    def start_lines(self) -> Sequence[str]:
        """Return where calls are logged, if they are."""
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
            return EVERYBODY
        from agent_utilities.usage.keys import subject_key

        subject = subject_of_request()
        return NOBODY if subject is None or self._salt is None else subject_key(self._salt, subject)

    async def _read_salt(self) -> None:
        """Read what subjects are hashed with; without it nobody's calls teach anything."""
        from agent_utilities.usage.errors import UsageError
        from agent_utilities.usage.keys import read_salt

        try:
            self._salt = await in_daemon_thread(partial(read_salt, self.path))
        except UsageError as error:
            logger.warning("%s; calls are logged for nobody, and teach nothing", error)

    # -- what sessions did -------------------------------------------------------------------------------------------

    def called(self, request: Request) -> tuple[str, ...]:
        """Return the tools that a request's session called, the last one first."""
        return () if request.session is None else request.session.get(self.name, NOT_USED).called

    def notify(self, event: Event) -> None:
        """Take note of what sessions ask for and call, and record it; nothing where nothing is logged."""
        if (recorder := self._recorder) is None:
            return
        match event:
            case RequestBegan(request):
                if request.session is not None and (words := request.words):
                    request.session.update(self.name, NOT_USED, lambda use: use.asked(words))
            case ToolCalled():
                self._called(recorder, event)
            case ToolsListed():
                recorder.listed(event.decision)
                self._sought_by_list(recorder, event)
            case ToolsSought(words, found, request):
                session = request.session
                recorder.sought(words, len(found), "" if session is None else session.id)
                if session is not None:
                    session.update(self.name, NOT_USED, lambda use: use.found_by(words, found))

    def _called(self, recorder: Recorder, call: ToolCalled) -> None:
        session = call.request.session
        use = NOT_USED if session is None else session.get(self.name, NOT_USED)
        words = call.request.words if session is None else use.words_for(call.name)
        recorder.called(call, "" if session is None else session.id, use.n_turns, words)
        if session is not None and call.ok and call.name in call.decision.permitted_names:
            session.update(self.name, NOT_USED, lambda use: use.used(call.name))

    def _sought_by_list(self, recorder: Recorder, listed: ToolsListed) -> None:
        """Record that tools were sought by a list's words: once a turn, where there are sessions."""
        decision, request = listed.decision, listed.request
        is_asked = decision.status in ANSWERED or decision.status == "no_match"
        if not is_asked or not (words := request.words) or request.method != "tools/list":
            return
        session = request.session
        if session is not None:
            if session.get(self.name, NOT_USED).is_sought:
                return
            session.update(self.name, NOT_USED, SessionUse.sought)
        n_found = len(decision.preferences.resolution.tools) if decision.status in ANSWERED else 0
        recorder.sought(words, n_found, "" if session is None else session.id)

    # -- writing -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Log until cancelled; returns at once where that is off."""
        if self.mode == "off":
            return
        from agent_utilities.usage.log import UsageLog

        settings = self._settings
        log = self._log = UsageLog(self.path, UsageBounds(settings.usage_days, settings.usage_rows))
        log.on_written = lambda: self.on_news()
        recorder = self._recorder = Recorder(self, log.record, keeps_words=self.mode == "words")
        if self._is_of_subjects:
            await self._read_salt()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(log.run())
                try:
                    while True:
                        await asyncio.sleep(_LISTS_EVERY_S)
                        await recorder.record_lists()
                finally:
                    await recorder.record_lists()  # the log writes them before it ends
        finally:
            self._log = self._recorder = None

    def _component(self, catalog: Catalog, place: int) -> Any:
        components = self.host.surface.components_of("tool", catalog)
        return components[place] if components else None

    def source_of(self, catalog: Catalog, name: str) -> tuple[str, str]:
        """Return the upstream of a tool, empty for a server's own, and its version; nothing where it is not known."""
        places = catalog.places_by_own_name.get(name, ())
        tool = self._component(catalog, places[-1]) if places else None
        if tool is None:
            return "", ""
        return self.host.origin_of(tool).server.name, str(tool.version or "")

    def tokens_of(self, catalog: Catalog, place: int) -> int:
        """Return what the tool at a place of a catalog takes in a prompt; 0 where it is not known any more."""
        tool = self._component(catalog, place)
        if tool is None:
            return 0
        from agent_utilities.catalog.tokens import n_tokens  # where calls are logged

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
        return UsageSource(partial(_read, self.path, self.host.name), is_shared=not self._is_of_subjects)

    def log_health(self) -> dict[str, Any]:
        """Return what is told of the log."""
        return {"status": "off"} if self._log is None else {"mode": self.mode, **self._log.health()}

    def health(self) -> Mapping[str, Any]:
        """Return what `/ready` tells of the log; nothing where nothing is logged."""
        return {} if self.mode == "off" else {"usage": self.log_health()}


class Recorder:
    """Makes events of what it is told.

    Args:
        usage: tells where a tool comes from, what it takes in a prompt, and whom a call counts for.
        record: takes an event.
        keeps_words: whether the words that led to a call are kept.
    """

    def __init__(self, usage: Usage, record: Callable[[LogEvent], None], *, keeps_words: bool) -> None:
        self._usage, self._record, self._keeps_words = usage, record, keeps_words
        self._server = usage.host.name
        self._tokens: LRUCache[bytes, int] = LRUCache(_N_TOKENS)
        self._lists: dict[int, tuple[Decision, int]] = {}
        """Decisions that lists were made by, and how many, by the decision's identity."""

    def called(self, call: ToolCalled, session: str, n_turns: int, words: str) -> None:
        """Record a call of a tool that its caller may use; a name of anything else is nobody's to keep."""
        if call.name not in call.decision.permitted_names:
            return
        upstream, version = self._usage.source_of(call.decision.catalog, call.name)
        words = words if self._keeps_words else ""
        made = (_now_ms(), self._server, call.name, upstream, version, session, n_turns)
        self._record(Call(*made, call.ok, 1000 * call.seconds, call.revision, self._usage.subject(), words))

    def sought(self, words: str, n_found: int, session: str) -> None:
        """Record a search, and whether it found anything."""
        words = words if self._keeps_words else ""
        self._record(Search(_now_ms(), self._server, n_found, session, self._usage.subject(), words))

    def listed(self, decision: Decision) -> None:
        """Count a list; the tools in it are recorded by `record_lists`, since there may be thousands."""
        _, n = self._lists.get(id(decision), (decision, 0))
        if n or len(self._lists) < _N_DECISIONS:
            self._lists[id(decision)] = decision, n + 1

    async def record_lists(self) -> None:
        """Record how often each tool was listed since the last time, in turns with the event loop (law L7)."""
        lists, self._lists = self._lists, {}
        shown: dict[str, tuple[Catalog, int, int]] = {}
        for decision, n in lists.values():
            catalog = decision.catalog
            async for i in in_turns(decision.visible):
                name = catalog.entries[i].name
                shown[name] = catalog, i, n + (shown[name][2] if name in shown else 0)
        now_ms = _now_ms()
        async for name, (catalog, i, n_lists) in in_turns(shown.items()):
            upstream, _ = self._usage.source_of(catalog, name)
            self._record(Listed(now_ms, self._server, name, upstream, n_lists, self._n_tokens(catalog, i)))

    def _n_tokens(self, catalog: Catalog, i: int) -> int:
        stamp = catalog.entries[i].stamp
        n_tokens = self._tokens.get(stamp)
        if n_tokens is None:
            n_tokens = self._tokens[stamp] = self._usage.tokens_of(catalog, i)
        return n_tokens


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _read(path: Path, server: str, scope: str) -> Learned:
    from agent_utilities.usage.learning import read_learned

    return read_learned(path, server, scope, _now_ms())


def subject_of_request() -> str | None:
    """Return what tells the present caller's subject from all others; None where they did not authenticate.

    The subject of one issuer is not that of another, nor a client's own that of a user.
    """
    token = get_access_token()
    if token is None:
        return None
    claims = token.claims or {}
    subject, issuer = claims.get("sub"), claims.get("iss")
    parts = ("sub", issuer, subject) if subject else ("client", issuer, token.client_id)
    return json.dumps(parts, default=str)  # whatever is in a part, it can't pass for two of them

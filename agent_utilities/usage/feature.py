"""The usage feature: logs the calls, lists and searches of a server, and keeps what each session did."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fastmcp.server.dependencies import get_access_token

from agent_utilities.catalog.model import Catalog
from agent_utilities.policy.decision import Decision
from agent_utilities.runtime.waiting import in_daemon_thread, in_turns
from agent_utilities.seam.events import Event
from agent_utilities.seam.feature import Feature
from agent_utilities.seam.host import SharedState, find
from agent_utilities.seam.request import RESULT_TOKENS, Request, RequestBegan, ResultRead, ToolCalled, ToolsListed
from agent_utilities.selection.model import ANSWERED
from agent_utilities.usage.model import (
    EVERYBODY,
    N_NEAR,
    NOBODY,
    Call,
    Listed,
    Read,
    Search,
    UsageBounds,
    UsageSource,
    usage_file,
)

if TYPE_CHECKING:
    from agent_utilities.settings import Settings
    from agent_utilities.usage.log import UsageLog
    from agent_utilities.usage.model import Event as UsageEvent
    from agent_utilities.usage.model import Learned

LONGEST = 5_000
"""The most characters of words that are kept. It is more than are searched for secrets before they are written, so that
a text cut here is seen to go on: a secret that is cut in its middle would not look like one."""


@dataclass(frozen=True, slots=True)
class SessionUse:
    """The words and calls of a session so far; each method returns the value after one more step.

    Args:
        n_turns: the number of turns.
        words: the words of the last turn.
        called: names of the tools that it called with success, the last one first; at most 8.
        is_sought: whether a list of this turn was recorded as a search already.
        searched: the words of the last search.
        found: the names of the tools that it found.
    """

    n_turns: int = 0
    words: str = ""
    called: tuple[str, ...] = ()
    is_sought: bool = False
    searched: str = ""
    found: frozenset[str] = frozenset()

    def heard(self, words: str) -> SessionUse:
        """Add the words of a request: they open a turn unless they are those of the last one."""
        words = words[:LONGEST]
        if not words or words == self.words:
            return self
        return SessionUse(self.n_turns + 1, words, self.called)

    def sought(self) -> SessionUse:
        """Mark that a list of this turn was recorded as a search."""
        return self if self.is_sought else replace(self, is_sought=True)

    def found_by(self, words: str, names: Collection[str]) -> SessionUse:
        """Add a search: its words, and the names of the tools that it found."""
        return replace(self, searched=words[:LONGEST], found=frozenset(names))

    def words_for(self, tool: str) -> str:
        """Return the words that led to a call: those of the search that found the tool, else those of the turn."""
        return self.searched if tool in self.found else self.words

    def used(self, tool: str) -> SessionUse:
        """Add a call that succeeded."""
        if self.called[:1] == (tool,):
            return self
        return replace(self, called=(tool, *(name for name in self.called if name != tool))[:N_NEAR])


NOT_USED = SessionUse()
"""The value of a new session."""


logger = logging.getLogger("agent_utilities.usage")

Mode = Literal["off", "counts", "words"]

_LISTS_EVERY_S = 10.0
_N_DECISIONS = 1_000
"""The most distinct lists that are counted until their tools are recorded."""


@dataclass(frozen=True, slots=True)
class ToolsSought(Event):
    """Tools were searched by words.

    Args:
        words: the model's words; they must not be logged as they are.
        found: names of the tools that were found.
        request: the request that searched.
    """

    words: str
    found: Collection[str]
    request: Request


@dataclass(frozen=True, slots=True)
class UsageLogged(Event):
    """An event was logged, which other replicas log too."""

    event: UsageEvent


@dataclass(frozen=True, slots=True)
class UsageWritten(Event):
    """Logged events were written, so that there may be something to learn."""


class Usage(Feature):
    """Logs the calls on a server, unless its operator turned that off, and keeps what sessions did.

    Args:
        counts_by_default: whether calls are counted without a setting, as on a gateway.
    """

    name = "usage"
    keeps = SessionUse
    hears = (RequestBegan, ToolCalled, ToolsListed, ToolsSought, ResultRead)

    def __init__(self, *, counts_by_default: bool = False) -> None:
        self._counts_by_default = counts_by_default
        self.log: UsageLog | None = None
        """The open log; None where nothing is logged."""
        self._salt: bytes | None = None
        """The salt of the hashes of subjects."""
        self._lists: Counter[Decision] = Counter()
        """The number of lists by each decision."""

    @property
    def _settings(self) -> Settings:
        return self.host.operator.settings

    @property
    def mode(self) -> Mode:
        """How much is logged: nothing, calls, or calls with words."""
        setting = self._settings.usage
        if setting == "auto":
            return "counts" if self._counts_by_default else "off"
        return setting

    @property
    def path(self) -> Path:
        """The log's file."""
        return usage_file(self.host.name, self._settings.usage_file)

    def start_lines(self) -> Sequence[str]:
        if self.mode == "off":
            return []
        what = "calls, and the words that led to them," if self.mode == "words" else "calls"
        return [f"{what} are logged in {self.path}; MCP_USAGE=off logs none"]

    # -- subjects ------------------------------------------------------------------------------------------------------

    @property
    def _is_of_subjects(self) -> bool:
        return self._settings.usage_scope == "subject"

    def subject(self) -> str:
        """Return the subject that the present request counts for, as a salted hash; empty where it is everybody's."""
        if not self._is_of_subjects:
            return EVERYBODY
        from agent_utilities.usage.model import subject_key

        subject = subject_of_request()
        return NOBODY if subject is None or self._salt is None else subject_key(self._salt, subject)

    # -- what sessions did -------------------------------------------------------------------------------------------

    def called(self, request: Request) -> tuple[str, ...]:
        """Return the tools that a request's session called, the last one first."""
        return () if request.session is None else request.session.get(self.name, NOT_USED).called

    def notify(self, event: Event) -> None:
        """Record words, calls, lists, searches and reads, in the log and for the session, where anything is logged."""
        if self.log is None:
            return
        match event:
            case RequestBegan(request):
                if words := request.words:
                    self._note(request, lambda use: use.heard(words))
            case ToolCalled():
                self._called(self.log, event)
            case ToolsListed():
                # What is in it is recorded by `record_lists`: there may be thousands of tools.
                if event.decision in self._lists or len(self._lists) < _N_DECISIONS:
                    self._lists[event.decision] += 1
                self._sought_by_list(self.log, event)
            case ToolsSought(words, names, request):
                self._sought(self.log, words, len(names), request)
                self._note(request, lambda use: use.found_by(words, names))
            case ResultRead(tool, projection, tokens, selected):
                self.log.record(Read(_now_ms(), self.host.name, tool, projection, tokens, selected))

    def _record(self, log: UsageLog, event: UsageEvent) -> None:
        log.record(event)
        self.host.notify(UsageLogged(event))

    def _note(self, request: Request, step: Callable[[SessionUse], SessionUse]) -> None:
        if request.session is not None:
            request.session.update(self.name, NOT_USED, step)

    def _called(self, log: UsageLog, call: ToolCalled) -> None:
        """Record a call of a permitted tool; other names are not kept."""
        if call.name not in call.decision.permitted_names:
            return
        session = call.request.session
        words, n_turns = words_of(call.request, call.name)
        n_tokens, n_given = call.request.values.get(RESULT_TOKENS, (0, 0))
        facts = self.host.tool_facts(call.decision.catalog, call.name)
        self._record(
            log,
            Call(
                at_ms=_now_ms(),
                server=self.host.name,
                tool=call.name,
                upstream=facts.server,
                version=facts.version,
                session="" if session is None else session.id,
                turn=n_turns,
                ok=call.ok,
                ms=1000 * call.seconds,
                revision=call.revision,
                subject=self.subject(),
                request=words if self.mode == "words" else "",
                result_tokens=n_tokens,
                given_tokens=n_given,
            ),
        )
        if call.ok:
            self._note(call.request, lambda use: use.used(call.name))

    def _sought_by_list(self, log: UsageLog, listed: ToolsListed) -> None:
        """Record a list's words as a search: once a turn, where there are sessions."""
        decision, request = listed.decision, listed.request
        is_answered = decision.status in ANSWERED
        is_sought = request.session is not None and request.session.get(self.name, NOT_USED).is_sought
        if not (is_answered or decision.status == "no_match") or is_sought or request.method != "tools/list":
            return
        if words := request.words:
            self._note(request, SessionUse.sought)
            self._sought(log, words, len(decision.preferences.resolution.tools) if is_answered else 0, request)

    def _sought(self, log: UsageLog, words: str, n_found: int, request: Request) -> None:
        session = "" if request.session is None else request.session.id
        words = words if self.mode == "words" else ""
        self._record(log, Search(_now_ms(), self.host.name, n_found, session, self.subject(), words))

    async def record_lists(self) -> None:
        """Record how often each tool was listed since the last time, in turns with the event loop (law L7)."""
        if (log := self.log) is None:
            return
        lists, self._lists = self._lists, Counter()
        shown: dict[str, tuple[Catalog, int, int]] = {}
        for decision, n in lists.items():
            catalog = decision.catalog
            async for i in in_turns(decision.visible):
                name = catalog.entries[i].name
                shown[name] = catalog, i, n + (shown[name][2] if name in shown else 0)
        now_ms = _now_ms()
        async for name, (catalog, i, n_lists) in in_turns(shown.items()):
            facts = self.host.tool_facts(catalog, i)
            self._record(log, Listed(now_ms, self.host.name, name, facts.server, n_lists, facts.tokens))

    # -- writing -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Log until cancelled; returns at once where logging is off."""
        if self.mode == "off":
            return
        from agent_utilities.usage.log import UsageLog
        from agent_utilities.usage.model import UsageError, read_salt

        settings = self._settings
        log = self.log = UsageLog(self.path, UsageBounds(settings.usage_days, settings.usage_rows))
        log.on_written = lambda: self.host.notify(UsageWritten())
        if self._is_of_subjects:
            try:
                shared = find(self.host, SharedState)
                self._salt = (
                    shared.redis.derived("subjects")
                    if shared
                    else await in_daemon_thread(partial(read_salt, self.path))
                )
            except UsageError as error:
                logger.warning("%s; calls are logged for nobody, and teach nothing", error)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(log.run())
                try:
                    while True:
                        await asyncio.sleep(_LISTS_EVERY_S)
                        await self.record_lists()
                finally:
                    await self.record_lists()  # the log writes them before it ends
        finally:
            self.log = None

    # -- reading -----------------------------------------------------------------------------------------------------

    def source(self) -> UsageSource | None:
        """Return the source to learn from; None where nothing is logged, or learning is off."""
        if self.mode == "off" or self._settings.curation != "recency":
            return None
        return UsageSource(partial(_read, self.path, self.host.name), is_shared=not self._is_of_subjects)

    def log_health(self) -> dict[str, Any]:
        """Return the state of the log, for `/ready`."""
        return {"status": "off"} if self.log is None else {"mode": self.mode, **self.log.health()}

    def health(self) -> Mapping[str, Any]:
        return {} if self.mode == "off" else {"usage": self.log_health()}


def words_of(request: Request, tool: str) -> tuple[str, int]:
    """Return the words that led a request to a tool, and the number of its session's turns; 0 without a session."""
    if request.session is None:
        return request.words, 0
    use = request.session.get(Usage.name, NOT_USED)
    return use.words_for(tool), use.n_turns


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _read(path: Path, server: str, scope: str) -> Learned:
    from agent_utilities.usage.learning import read_learned

    return read_learned(path, server, scope, _now_ms())


def subject_of_request() -> str | None:
    """Return a unique key of the present caller's subject; None where they did not authenticate.

    It differs between issuers, and between a client's own subject and a user's.
    """
    token = get_access_token()
    if token is None:
        return None
    claims = token.claims or {}
    subject, issuer = claims.get("sub"), claims.get("iss")
    parts = ("sub", issuer, subject) if subject else ("client", issuer, token.client_id)
    return json.dumps(parts, default=str)  # so that no text in one part can pass for two parts

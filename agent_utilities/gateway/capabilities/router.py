"""Route a user's words to a capability: strip what they pasted, then compare the rest with triggers.

Pasted lines are those that a program wrote, such as stack traces, logs, JSON, tables and code. Their subject is not
the user's: a log that names a database calls for no query. So only the text around them is read. A pasted line is
recognized by its form, whatever program wrote it: how few of its words are plain ones, how it begins, whether it stands
in columns.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from itertools import groupby

from agent_utilities.catalog.words import STOPWORDS, words
from agent_utilities.errors import RankerError
from agent_utilities.gateway.capabilities.model import LEAST_CHARACTERS, Gate, Route, routed
from agent_utilities.query.ranking.embedding import Embedder, read_request
from agent_utilities.query.ranking.minilm import ADAPTED_NAME, PLAIN_NAME
from agent_utilities.query.ranking.open import Rankers
from agent_utilities.query.ranking.triggers import TriggerIndex
from agent_utilities.query.resolution.catalog_ranker import RETRY_S
from agent_utilities.runtime.caches import BoundedCache, key_of
from agent_utilities.runtime.waiting import in_daemon_thread, start_in_daemon_thread

# XML allows no `<` within a tag, not even in quotes, so that every character is looked at for one tag only: the time
# is linear, whatever the text. `a < b`, `Map<int, string>` and `<bob@example.org>` are no tags.
_TAG = re.compile(
    r"<(?P<end>/?)(?P<name>[A-Za-z_][\w.-]*+(?::[\w.-]++)?+)(?=[\s/>])"
    r"(?:(?:[^<>\"']|\"[^\"<]*+\"|'[^'<]*+')*+>|[^<>]*+>)"
)
_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
"""Elements of HTML that are never closed."""


def intent_text(text: str) -> str:
    """Return a message without its XML blocks and pasted lines; unchanged where it has neither.

    A tag that is never closed is prose or code (`centre a <div>`, `List<int>`) and stays. At the start of a line it
    opens a block whose end was cut off: everything after it is dropped, as it may not be the user's.

    >>> intent_text('<log level="x">kubectl: refused</log> why is a < b for List<int>?')
    'why is a < b for List<int>?'
    """
    if "<" in text and (blocks := _blocks(text)):
        starts, ends = zip(*blocks, strict=True)
        said = (text[end:start].strip() for end, start in zip((0, *ends), (*starts, len(text)), strict=True))
        text = "\n".join(filter(None, said))
    return without_pastes(text)


def _blocks(text: str) -> list[tuple[int, int]]:
    """Return where the outermost blocks start and end, in order."""
    opened: list[tuple[str, int]] = []
    n_opened = Counter[str]()
    blocks: list[tuple[int, int]] = []
    for tag in _TAG.finditer(text):
        name, start = tag["name"].lower(), tag.start()
        if name in _VOID or (not tag["end"] and tag.group().endswith("/>")):
            continue
        if not tag["end"]:
            opened.append((name, start))
            n_opened[name] += 1
        elif n_opened[name]:
            last = ""
            while last != name:  # what was opened within it is closed too
                last, start = opened.pop()
                n_opened[last] -= 1
            while blocks and blocks[-1][0] > start:
                blocks.pop()
            blocks.append((start, tag.end()))
    cut_off = next((start for _, start in opened if _starts_line(text, start)), None)
    if cut_off is None:
        return blocks
    return [block for block in blocks if block[0] < cut_off] + [(cut_off, len(text))]


def _starts_line(text: str, place: int) -> bool:
    line_start = max(text.rfind("\n", 0, place), text.rfind("\r", 0, place)) + 1
    return not text[line_start:place].strip(" \t")


_N_CHARACTERS = 240
"""Characters of a line that are looked at."""
_MANY, _N_COLUMNS, _N_IN_A_ROW = 3, 3, 3
_MOST, _LARGE, _SMALL = 0.6, 0.4, 0.15
"""Shares of words that are not plain: of few words, where there are three of them, and beside lines of a program."""

_PLAIN = re.compile(
    r"""[("'\u201c\u2018*_]*+(?![^\W\d_]*[a-z][A-Z])[^\W\d_]++(?:['\u2019/-][^\W\d_]++)*+[)"'\u201d\u2019*_.,;:!?\u2026]*+\Z
    |.*[^\W\x00-\x7f]""",
    re.VERBOSE,
)
"""A word as people write it: without capitals, marks and digits inside. Scripts without spaces are words too."""
_NUMBER = re.compile(r"[^\w{}\[\]|\\]*+(?:v?\d++(?:[.,:/-]\d++){0,2}\w{0,2}[^\w\s]*+)?\Z")
"""A number, a date, a version, or marks alone: people and programs write them alike."""
_BEGINNING = re.compile(
    r"""\s*+(?:
      \[?\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}[T\ ,]+\d\d?:\d\d | \[?\d\d?:\d\d:\d\d | \[\s*\d+\.\d+\]
    | (?:[A-Z][a-z]{2}\ )?[A-Z][a-z]{2}\ [ \d]\d\ \d\d:\d\d
    | [\[<(]?(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL|SEVERE)(?:[\]>):]|\s+[\[(\d])
    | [\w.$]*(?:Error|Exception|Warning)\b[^\s:]*: | (?:[eE]rror|panic|fatal)(?:\[\w+\])?: | [A-Z]{2,}[-_]?\d+:
    | (?:Uncaught|Unhandled|Exception\ in|Caused\ by:|Traceback\ \(|File\ "|npm\ (?:ERR!|WARN))
    | at\ [\w.$<>]+\( | thread\ '\w+'\ panicked | [\w./\\-]*[a-zA-Z][:(]\d+[,:)] | [\w./-]+:\ [\w./-]+(?:\ \d+)?:\s
    | [\[{]\s*["\[{] | [\]}][\]}),;]*+\s*\Z | <[?!] | ([-=_*\#~+])\1{4} | (?!https?:)\S{60}
    )""",
    re.VERBOSE,
)
"""Of a line that begins with a time, a level, an error, a place in a file, JSON or a rule, or with no word at all."""
_LIKELY = re.compile(r"(?![-*•] \w)\W|[A-Z]{3,}\b|[\w-]+(?: [\w-]+)?:(?:\s+\S+){0,4}\s*\Z|.*[^\s.!?:;](?: {2,}|\t)\S")
"""Of a line that is indented, has a key, or stands in two columns; a person's list has one space after each mark."""
_COLUMN_END = re.compile(r"\S(?: {2,}|\t)(?=\S)")
_FENCE = re.compile(r"[ \t]*(```|~~~)")


class _Look(IntEnum):
    BLANK = 0
    PROSE = 1
    LIKELY = 2
    PASTED = 3


def without_pastes(text: str) -> str:
    r"""Return a message without pasted lines; unchanged where it has none.

    >>> without_pastes('why is this?\nKeyError: "id"\n  File "a.py", line 3, in get\nplease open an issue')
    'why is this?\nplease open an issue'
    """
    lines = text.split("\n")
    looks = _looks(lines)
    if _Look.PASTED not in looks:
        return text
    paragraphs = groupby(range(len(lines)), lambda place: looks[place] is _Look.BLANK)
    kept = [place for is_blank, places in paragraphs if not is_blank for place in _said(looks, list(places))]
    return "\n".join(lines[place].strip() for place in kept)


def _looks(lines: Sequence[str]) -> list[_Look]:
    """Return the look of each line; all lines between fences are pasted."""
    looks, fence = [], ""
    said = ["", *(line[:_N_CHARACTERS].strip() for line in lines), ""]
    for place, line in enumerate(lines):
        mark = opened[1] if (opened := _FENCE.match(line)) else ""
        is_alone = not said[place] and not said[place + 2]
        looks.append(_Look.PASTED if mark or fence else _look(line[:_N_CHARACTERS], is_alone))
        if mark and fence in ("", mark):
            fence = "" if fence else mark
    for place in range(len(looks) - _N_IN_A_ROW + 1):
        row = slice(place, place + _N_IN_A_ROW)
        if min(looks[row]) >= _Look.LIKELY:
            looks[row] = [_Look.PASTED] * _N_IN_A_ROW
    return looks


def _look(line: str, is_alone: bool) -> _Look:
    said = line.strip()
    if not said or _BEGINNING.match(line):
        return _Look.PASTED if said else _Look.BLANK
    words = said.split()
    others = [word for word in words if not (word.isalpha() and word.islower())]
    unsure = [word for word in others if not _NUMBER.match(word)]
    n_odd = sum(not _PLAIN.match(word) for word in unsure)
    share = n_odd / max(1, len(words) - len(others) + len(unsure))
    is_odd = share >= _LARGE if n_odd >= _MANY else share > _MOST and not is_alone
    if is_odd or (n_odd and said[-1] in "{;") or len(_COLUMN_END.findall(said)) >= _N_COLUMNS - 1:
        return _Look.PASTED
    return _Look.LIKELY if share >= _SMALL or _LIKELY.match(line) else _Look.PROSE


def _said(looks: Sequence[_Look], places: Sequence[int]) -> Iterator[int]:
    """Yield the lines of a paragraph that its user wrote: prose before and after its pasted lines."""
    certain = [place for place in places if looks[place] is _Look.PASTED]
    if not certain:
        yield from places if any(looks[place] is _Look.PROSE for place in places) else ()
        return
    first, last = certain[0], certain[-1]
    while first > places[0] and looks[first - 1] is _Look.LIKELY:
        first -= 1
    while last < places[-1] and looks[last + 1] is _Look.LIKELY:
        last += 1
    yield from (place for place in places if not first <= place <= last)


logger = logging.getLogger("agent_utilities.capabilities")

# The gate that a capability must clear to be activated by words, one for each way of comparing. A gate holds only for
# the model that it was measured with: cosines of another are on another scale. A model that has no gate here is not
# used, and words are compared in its place, under their own gate.
BY_WORDS = Gate(threshold=0.13, margin=0.002, margin_of_one=0.5)
"""Words alone."""

BY_MODEL: Mapping[str, Gate] = {
    PLAIN_NAME: Gate(threshold=0.1, margin=0.002, margin_of_one=1.15),
    ADAPTED_NAME: Gate(threshold=0.08, margin=0.002, margin_of_one=1.15),
}
"""Vectors and words, by the model's name. `benchmarks/capability_routing.py` and docs/ranking.md have what they were
measured by."""

_VECTORS_S = 1.0
"""Seconds within which a message must be embedded; else words alone are compared."""
_N_REMEMBERED_CHARACTERS = 8_192
_ROUTES_BYTES = 2 << 20
_SCORE_BYTES = 200

Triggers = Mapping[str, tuple[str, ...]]
_Key = tuple[bytes, frozenset[str]]


@dataclass(frozen=True, eq=False)
class _Ready:
    """Indexed triggers.

    Args:
        embedder: embeds messages to be compared with them; None where words alone are compared.
        cause: why words alone are compared, where vectors were configured.
    """

    index: TriggerIndex
    embedder: Embedder | None = None
    cause: str = ""
    routes: BoundedCache[_Key, Route] = field(default_factory=lambda: BoundedCache(_ROUTES_BYTES, _weigh))


class CapabilityRouter:
    """Routes users' messages to capabilities; by words alone while there are no vectors.

    Nothing is indexed on the request path: `use` does it in a thread. Scores depend only on what a caller may use, so
    that they tell nothing of other capabilities.

    Args:
        embedder: the ranker's own; None compares words alone.
        cause: why nothing is ever routed; empty where routing is on.
    """

    def __init__(self, embedder: Embedder | None = None, *, cause: str = "") -> None:
        self._embedder, self._off = embedder, cause
        self._retry_at = float("inf")
        self._triggers: Triggers | None = None
        self._ready: _Ready | None = None
        self._lock = threading.Lock()
        self._preparing: Future[None] | None = None
        self._threads = ThreadPoolExecutor(2, "route")

    @classmethod
    def of(cls, rankers: Rankers) -> CapabilityRouter:
        """Return a router that uses the embedder of the tools' ranker."""
        if rankers.is_off:
            return cls(cause="ranking is off")
        return cls(None if rankers.by_meaning is None else rankers.by_meaning.embedder)

    @property
    def is_ready(self) -> bool:
        """Whether the last triggers are indexed, as well as they can be for now."""
        return self._ready is not None and self._preparing is not None and self._preparing.done()

    @property
    def cause(self) -> str:
        """Why nothing is routed, or by words alone; empty where neither is so."""
        if self._off:
            return self._off
        return "the triggers are not read yet" if self._ready is None else self._ready.cause

    def use(self, triggers: Triggers) -> None:
        """Replace the triggers; returns at once, and changed ones are indexed in a thread."""
        by_name = {name: tuple(texts) for name, texts in triggers.items() if texts}
        if not self._off and by_name != self._triggers:
            self._triggers = by_name
            self._prepare_behind(by_name)

    async def wait_until_ready(self) -> None:
        """Wait until the last triggers are indexed, by words alone where they can't be embedded."""
        if self._preparing is not None:
            await asyncio.wrap_future(self._preparing)

    async def route(self, text: str, usable: frozenset[str]) -> Route:
        """Return where a message leads among the capabilities that its user may use; never raises, blocks nothing."""
        ready = self._ready
        if ready is None:
            return Route(cause=self.cause)
        self._try_again()
        key = (key_of(text), usable) if len(text) <= _N_REMEMBERED_CHARACTERS else None
        if key is not None and (known := ready.routes.get(key)) is not None:
            return known
        try:
            route = await self._in_time(ready, text, usable)
        except Exception:
            logger.exception("can't route to a capability")
            return Route(cause="routing failed; the log says why")
        if key is not None and (ready.embedder is None or not route.by_words):
            ready.routes.keep(key, route)
        return route

    async def _in_time(self, ready: _Ready, text: str, usable: frozenset[str]) -> Route:
        """Return a route by vectors, or by words where the message is not embedded in time."""
        loop = asyncio.get_running_loop()
        if ready.embedder is not None:
            by_meaning = loop.run_in_executor(self._threads, _by_meaning, ready.index, ready.embedder, text, usable)
            with suppress(TimeoutError, RankerError, UnicodeError):
                async with asyncio.timeout(_VECTORS_S):
                    return await by_meaning
        return await in_daemon_thread(partial(_by_words, ready.index, text, usable))  # not behind a model that hangs

    def close(self) -> None:
        """Shut the threads down."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    # -- in threads ----------------------------------------------------------------------------------------------

    def _try_again(self) -> None:
        """Retry to embed the triggers, a while after that failed."""
        if self._triggers is not None and self.is_ready and time.monotonic() >= self._retry_at:
            self._prepare_behind(self._triggers)

    def _prepare_behind(self, triggers: Triggers) -> None:
        self._preparing = start_in_daemon_thread(partial(self._prepare, triggers))

    def _prepare(self, triggers: Triggers) -> None:
        """Index triggers, unless they were replaced meanwhile."""
        with self._lock:
            if triggers is self._triggers:
                try:
                    self._make_ready(triggers)
                except Exception:
                    logger.exception("the triggers can't be read; what was read before is used on")

    def _make_ready(self, triggers: Triggers) -> None:
        """Index triggers: by words at first, then by vectors too."""
        self._retry_at = float("inf")
        by_words = TriggerIndex(triggers)
        if (embedder := self._embedder) is None or not triggers:
            self._ready = _Ready(by_words)
            return
        self._ready = self._ready or _Ready(by_words, cause="routed by words until vectors are there")
        try:
            if (model := embedder.provider.name) in BY_MODEL:
                self._ready = _Ready(TriggerIndex(triggers, partial(embedder.embed, role="query")), embedder)
            else:
                cause = f"routed by words alone: no gate was measured for the model {model!r}"
                self._ready = _Ready(by_words, cause=cause)
        except RankerError:
            self._retry_at = time.monotonic() + RETRY_S
            self._ready = _Ready(by_words, cause="routed by words alone")


def n_said(intent: str) -> int:
    """Return the number of different words of a message that aren't stopwords."""
    return len(set(words(intent)) - STOPWORDS)


def _by_words(index: TriggerIndex, text: str, usable: frozenset[str]) -> Route:
    intent = intent_text(text)
    if len(intent.strip()) < LEAST_CHARACTERS:
        return Route(cause=f"fewer than {LEAST_CHARACTERS} characters were said")
    return routed(index.view(usable).by_words(intent), BY_WORDS, n_said(intent), by_words=True)


def _by_meaning(index: TriggerIndex, embedder: Embedder, text: str, usable: frozenset[str]) -> Route:
    """Return a route by vectors and words; `RankerError` where the message can't be embedded."""
    intent = intent_text(text)
    if len(intent.strip()) < LEAST_CHARACTERS:
        return _by_words(index, intent, usable)
    view = index.view(usable)
    texts = read_request(intent, view.evidence)
    vectors = texts.vectors(embedder.embed_request(texts.to_embed))
    return routed(view.by_meaning(texts.whole, vectors), BY_MODEL[embedder.provider.name], n_said(intent))


def _weigh(key: _Key, route: Route) -> int:
    return 1_000 + _SCORE_BYTES * len(route.scores)

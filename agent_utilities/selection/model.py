"""The values of a selection: each channel's settings with their origins, and the resolution of its query."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import cache, cached_property
from operator import attrgetter
from sys import getsizeof
from typing import Any, Literal

from agent_utilities.selection.active import Active, Threshold

Channel = Literal[
    "file", "project", "env", "cli", "rule", "token", "profile", "project_profile", "query", "header", "meta"
]
Side = Literal["operator", "caller", "profile"]
"""Whose a setting is; `profile`: the operator wrote it in a profile, and a caller named that."""
Policy = Literal["narrow", "override"]
SearchFieldName = Literal["tool_search", "active", "initial_k", "search_k", "search_turns", "max_active", "max_tools"]
FlagName = Literal["read_only", "no_destructive"]
BoundName = FlagName | Literal["allow_tools", "deny_tools", "allow_tags", "deny_tags", "capabilities"]
FieldName = BoundName | SearchFieldName | Literal["query", "top_k", "pins", "profile", "result_tokens"]

OPERATOR_CHANNELS: tuple[Channel, ...] = ("file", "project", "env", "cli")
ACCESS_CHANNELS: tuple[Channel, ...] = ("rule", "token")
"""The operator's bounds for one caller: of the rule of access that matches them, and of their token."""
CALLER_CHANNELS: tuple[Channel, ...] = ("profile", "project_profile", "query", "header", "meta")
CHANNELS: tuple[Channel, ...] = (*OPERATOR_CHANNELS, *ACCESS_CHANNELS, *CALLER_CHANNELS)
"""Lowest first; the ranks in `selection/merge.py` say which hold together."""
WRITTEN: tuple[Channel, ...] = (*OPERATOR_CHANNELS, "query", "header", "meta")
"""Channels that are parsed from text."""


def side_of(channel: Channel) -> Side:
    """Return the side that a channel belongs to."""
    return "caller" if channel in CALLER_CHANNELS else "operator"


def fold(name: str) -> str:
    """Return a name or tag as it is compared: NFKC, case-folded, so that no other width or case evades a deny."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


@cache
def _values_of(kind: type[Any]) -> Callable[[object], object]:
    return attrgetter(*(field.name for field in fields(kind)))


class HashedOnce:
    """Base of frozen dataclasses (`eq=False`) that cache their hash: they are keys of each list's cached decision."""

    @cached_property
    def _hash(self) -> int:
        return hash(self._values())

    def _values(self) -> object:
        return _values_of(type(self))(self)  # type: ignore[arg-type] # mypy takes the instances' hash for the class's

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, type(self)) and self._values() == other._values())


@dataclass(frozen=True, slots=True)
class NameSet:
    """A set of folded names and `*` globs of one channel.

    Args:
        names: match a component's name or URI, and nothing else.
        toolsets: match a component's name or URI, or any of its tags.
        everything: `all`: every component, tagged or not.
    """

    names: frozenset[str] = frozenset()
    toolsets: frozenset[str] = frozenset()
    everything: bool = False

    def __or__(self, other: NameSet) -> NameSet:
        """Return the union: associative and commutative, with `NameSet()` (`none`) as identity."""
        return NameSet(self.names | other.names, self.toolsets | other.toolsets, self.everything or other.everything)

    @property
    def every_name(self) -> frozenset[str]:
        """The names and toolsets: each may be a component's name."""
        return self.names | self.toolsets

    def spelled(self) -> tuple[str, ...]:
        """Return the names sorted; `("none",)` for the empty set."""
        listed = (*(("all",) if self.everything else ()), *sorted(self.every_name))
        return listed or ("none",)


NO_NAMES = NameSet()

NO_LIMIT = 1_000_000_000
"""The value of `result_tokens=off`: over any number of tokens that can be written, so that the smaller one holds."""

Value = NameSet | bool | int | tuple[str, ...] | Threshold | Active


@dataclass(frozen=True, slots=True)
class Setting:
    """One field's value from one channel.

    Args:
        value: `NameSet` for tools and tags, `bool` for flags, a tuple of texts for the query, `int` for numbers,
            `Threshold` for tool search, `Active` for the active set.
        origins: the spellings that set it, such as `("header x-mcp-enabled-tools",)`, sorted.
        side: which side of the trust boundary set it.
    """

    value: Value
    origins: tuple[str, ...]
    side: Side = "operator"

    @property
    def n_bytes(self) -> int:
        """About how many bytes it takes, by the texts in it."""
        texts: Iterable[str] = self.value if isinstance(self.value, tuple) else ()
        if isinstance(self.value, NameSet | Active):
            texts = self.value.every_name if isinstance(self.value, NameSet) else self.value.names
        return 700 + sum(64 + getsizeof(text) for text in (*texts, *self.origins))


Slot = tuple[FieldName, Channel]


@dataclass(frozen=True, eq=False)
class Selection(HashedOnce):
    """The settings of all channels, by field and channel; `Selection()` has none.

    Nothing is resolved here: `effective` says which channel's value holds. Keeping every channel's value is what makes
    `merge` a monoid (law L4).
    """

    slots: tuple[tuple[Slot, Setting], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.slots)

    @cached_property
    def n_bytes(self) -> int:
        """About how many bytes it takes."""
        return 500 + sum(150 + setting.n_bytes for _, setting in self.slots)

    def get(self, field: FieldName, channel: Channel) -> Setting | None:
        """Return the setting of a field in a channel, or None where that channel leaves it unset."""
        return next((setting for slot, setting in self.slots if slot == (field, channel)), None)

    @property
    def granted(self) -> Selection:
        """The operator's bounds for this one caller."""
        return self._of(lambda channel: channel in ACCESS_CHANNELS)

    @property
    def asked(self) -> Selection:
        """The rest: the settings of all other channels."""
        return self._of(lambda channel: channel not in ACCESS_CHANNELS)

    def _of(self, is_of: Callable[[Channel], bool]) -> Selection:
        slots = tuple(entry for entry in self.slots if is_of(entry[0][1]))
        return self if len(slots) == len(self.slots) else Selection(slots) if slots else NOTHING

    def gives(self, field: FieldName) -> bool:
        """Whether any channel sets a field."""
        return any(slot[0] == field for slot, _ in self.slots)


NOTHING = Selection()

Status = Literal["off", "fresh", "stale", "ranked", "no_match", "unavailable"]
"""`off`: no query, or queries are off · `fresh`, `stale`: answered by graph and ranker · `ranked`: answered by the
ranker alone, since the graph is unavailable · `no_match`, `unavailable`: show all."""

ANSWERED: frozenset[Status] = frozenset(("fresh", "stale", "ranked"))
"""The statuses of answers that narrow what is shown."""
UNANSWERED: frozenset[Status] = frozenset(("no_match", "unavailable"))
"""The statuses of queries that could not be answered, so that everything permitted is shown."""


@dataclass(frozen=True, slots=True)
class RankedTool:
    """A tool that answers a query.

    Args:
        score: the ranker's; None where only the graph matched it.
        words: the words of the query that it shares, in the query's order.
        by_usage: whether past calls put it here, and not the query's words.
    """

    name: str
    score: float | None = None
    words: tuple[str, ...] = ()
    by_usage: bool = False


@dataclass(frozen=True, slots=True)
class Resolution:
    """The answer to one query on one server.

    Args:
        tools: those that answer the query, best first; they count only where `answered`.
        cause: for people, why the answer is missing or incomplete; empty where it is complete.
        n_left_out: how many more tools answer, beyond `top_k`.
        is_temporary: whether the next request may get a better answer, so that this one is not cached.
        neighbours: tools that usually go with those in use, most usual first, whatever the query; each with the share
            of the sessions with those that had it, 0 to 1. They count only as a prior.
    """

    status: Status = "off"
    tools: tuple[RankedTool, ...] = ()
    cause: str = ""
    n_left_out: int = 0
    is_temporary: bool = False
    neighbours: tuple[tuple[str, float], ...] = ()

    @property
    def answered(self) -> bool:
        """Whether `tools` narrows what is shown."""
        return self.status in ANSWERED

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tools that answer, best first."""
        return tuple(tool.name for tool in self.tools)

    @property
    def ranks(self) -> dict[str, int]:
        """The rank of each tool that answers, by name, from 0; of a name that stands twice the better one."""
        return {tool.name: place for place, tool in reversed(list(enumerate(self.tools)))}


UNRESOLVED = Resolution()
"""The resolution where there is no query, or nothing to answer it."""


def nearest(name: str, choices: Iterable[str], cutoff: float = 70) -> str | None:
    """Return the choice most like a name, or None where none is near; of equals the first in alphabetical order."""
    from rapidfuzz import process
    from rapidfuzz.distance import Indel

    match = process.extractOne(name, sorted(choices), scorer=Indel.normalized_similarity, score_cutoff=cutoff / 100)
    return None if match is None else match[0]


def load_comparison() -> None:
    """Import what `nearest` needs, 30 ms, which the first request would otherwise wait for."""
    from rapidfuzz import process  # noqa: F401

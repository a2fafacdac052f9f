"""What a search of tools found, as a host is told it and as a model reads it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_utilities.catalog.document import first_sentence
from agent_utilities.selection.resolution import RankedTool

_N_TEXT_CHARACTERS = 120
_N_SCORE_DIGITS = 3
_FOR_MODELS = ("name", "description", "inputSchema")


@dataclass(frozen=True, slots=True)
class FoundTool:
    """A tool that a search found.

    Args:
        definition: as `tools/list` sends it.
        is_full: whether it comes with its definition, or by name and first sentence only.
        score: what the ranker gives it; None where it was asked for by name.
        words: the words of the query that stand in its text.
    """

    definition: Mapping[str, Any] = field(repr=False)
    is_full: bool
    score: float | None = None
    words: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.definition["name"])

    def as_dict(self) -> dict[str, Any]:
        """Return what a model reads of it."""
        if self.is_full:
            told = {key: self.definition[key] for key in _FOR_MODELS if self.definition.get(key) not in (None, "")}
        else:
            # Lines that an author broke are one sentence, paragraphs are not.
            paragraph = str(self.definition.get("description") or "").strip().partition("\n\n")[0]
            text = first_sentence(" ".join(paragraph.split()))
            shown = text if len(text) <= _N_TEXT_CHARACTERS else f"{text[: _N_TEXT_CHARACTERS - 1].rstrip()}…"
            told = {"name": self.name, **({"description": shown} if shown else {})}
        return told if self.score is None else {**told, "score": round(self.score, _N_SCORE_DIGITS)}


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What came of a search.

    Args:
        query: what was asked for.
        tools: the tools that come with their definitions, best first.
        more: further ones, of which only the name and the first sentence is told.
        activated: names that the search made visible.
        evicted: names of loaded tools that went out for them.
        n_deferred: how many tools stay deferred.
        active: the value of `active` after it.
        unknown: names asked for that no permitted tool has, each with the permitted names nearest to it.
        nearest: where nothing was found, the names nearest to the words.
        cause: why the ranking is less than it could be; empty where it isn't.
        call: what the model knows `call_tool` by; None where it has none.
    """

    query: str
    tools: tuple[FoundTool, ...] = ()
    more: tuple[FoundTool, ...] = ()
    activated: tuple[str, ...] = ()
    evicted: tuple[str, ...] = ()
    n_deferred: int = 0
    active: str = ""
    unknown: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    nearest: tuple[str, ...] = ()
    cause: str = ""
    call: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tools found, best first."""
        return tuple(tool.name for tool in (*self.tools, *self.more))

    @property
    def text(self) -> str:
        """What a model reads: compact JSON, without what there is nothing of."""
        return json.dumps(self._told(), ensure_ascii=False, separators=(",", ":"))

    def as_dict(self) -> dict[str, Any]:
        """Return what a program reads: the same, and what was activated and evicted, and is active now."""
        changed = {"activated": list(self.activated), "evicted": list(self.evicted)}
        return {**self._told(), **changed, "active": self.active}

    def _told(self) -> dict[str, Any]:
        told: dict[str, Any] = {"tools": [tool.as_dict() for tool in self.tools]}
        if self.more:
            told["more"] = [tool.as_dict() for tool in self.more]
        if self.unknown:
            told["unknown"] = {name: list(nearest) for name, nearest in self.unknown.items()}
        for key, names in (("nearest", self.nearest), ("evicted", self.evicted)):
            if names:
                told[key] = list(names)
        if self.cause:
            told["cause"] = self.cause
        return {**told, "deferred": self.n_deferred, "next": self._next()}

    def _next(self) -> str:
        """Return what to do now: hosts differ in whether they list anew what a search loaded."""
        if self.tools:
            by_call = f", or by {self.call}(name, arguments) where they are not in your list" if self.call else ""
            more = "; load those in more by select:NAME" if self.more else ""
            return f"Call them by name{by_call}{more}."
        if self.unknown:
            return "No tool of that name; search by words, or select one of the nearest."
        if self.nearest:
            return "Nothing found; try other words, or load one of the nearest by select:NAME."
        return "Nothing found; try other words."


def found_tools(
    names: Iterable[str],
    definitions: Mapping[str, Mapping[str, Any]],
    *,
    is_full: bool,
    ranked: Sequence[RankedTool] = (),
) -> tuple[FoundTool, ...]:
    """Return tools that were found.

    Args:
        names: theirs, best first.
        definitions: of every one of them, by name.
        is_full: whether they come with their definitions.
        ranked: what the ranker said of them; nothing where they were asked for by name.
    """
    by_name = {tool.name: tool for tool in reversed(ranked)}
    plain = RankedTool("")
    return tuple(
        FoundTool(definitions[name], is_full, (tool := by_name.get(name, plain)).score, tool.words) for name in names
    )

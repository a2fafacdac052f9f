"""Reads search queries, chooses which matches come with full definitions, and builds the result for models."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_utilities.catalog.context import for_models, n_tokens
from agent_utilities.catalog.document import first_sentence
from agent_utilities.catalog.model import Entry
from agent_utilities.errors import InputError
from agent_utilities.search.entry_tools import MAX_RESULTS, n_results
from agent_utilities.selection.model import RankedTool, fold

FULL_TOKENS = 560
"""About how many tokens of definitions a search returns where `max_results` is not set."""
N_LONG, LONG_TOKENS, NEAR = 5, 2_000, 0.7
"""So many of the best come where definitions are long, as far as this room reaches: two, and those that the best is
hardly ahead of, whose score is this share of its own."""
MAX_QUERY_BYTES = 8192

_SELECT = "select:"
_N_NEAREST = 3
_LEAST_LIKENESS_OF_ALL, _LEAST_LIKENESS_OF_PARTS = 70, 60
_N_COMPARED = 100
"""Characters of a wanted name that are compared with names."""
_FROM_QUERY = "tool_search: query"
_QUERY_HINT = "say in a few words what the tool should do, or name tools as select:a,b"


def selected_names(query: str) -> tuple[str, ...]:
    """Return the tools that a search names as `select:a,b`, each once, in their order; none where words describe them.

    Raises:
        InputError: it is blank, over 8 KiB, or names no tool or more than 25.
    """
    text = query.strip()
    if len(text.encode("utf-8", "surrogatepass")) > MAX_QUERY_BYTES:
        raise InputError("too long", text, _FROM_QUERY, f"give at most {MAX_QUERY_BYTES} bytes")
    if not text:
        raise InputError("nothing to search for", query, _FROM_QUERY, _QUERY_HINT)
    if text[: len(_SELECT)].lower() != _SELECT:
        return ()
    names = tuple(dict.fromkeys(name for part in text[len(_SELECT) :].split(",") if (name := part.strip())))
    if not names:
        raise InputError("no name after select:", query, _FROM_QUERY, "name tools, such as select:git_log,git_diff")
    if len(names) > MAX_RESULTS:
        hint = f"load at most {MAX_RESULTS} at once"
        raise InputError("too many tools", f"{len(names)} names", _FROM_QUERY, hint)
    return names


def names_of_server(server: str, tools: Iterable[tuple[Entry, str]]) -> frozenset[str]:
    """Return the names of the tools that are of a server, or have a tag of that name.

    Args:
        tools: those that the caller may use, each with its server; empty where that is not known.

    Raises:
        InputError: there are none; the message has the nearest servers and tags.
    """
    wanted, tools = fold(server), list(tools)
    if names := frozenset(entry.name for entry, of in tools if wanted in entry.tags or fold(of) == wanted):
        return names
    known = {of for _, of in tools}.union(*(entry.tags for entry, _ in tools)) - {""}
    near = " or ".join(nearest_names(server, known))
    hint = f"did you mean {near}?" if near else "leave it out to search all"
    raise InputError("no such server", server, "tool_search: server", hint)


def _n_within_tokens(definitions: Iterable[Mapping[str, Any]], scores: Sequence[float | None]) -> int:
    n_full = total = 0
    for definition, score in zip(definitions, scores, strict=True):
        total += n_tokens(definition)
        is_near = n_full < 2 or (n_full < N_LONG and (score or 0.0) >= NEAR * (scores[0] or 0.0))
        if n_full and total > (LONG_TOKENS if is_near else FULL_TOKENS):
            break
        n_full += 1
    return n_full


def described_once(definitions: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return definitions, each parameter that one before has too, word for word, without its description.

    Tools of one server take the same dozen parameters, and what is said of those is the most of their schemas.
    """
    seen: dict[str, Any] = {}
    shown = []
    for definition in definitions:
        schema = definition.get("inputSchema")
        parameters = schema.get("properties") if isinstance(schema, Mapping) else None
        if isinstance(schema, Mapping) and isinstance(parameters, Mapping):
            shorter = {
                name: _undescribed(each) if seen.get(name) == each else each for name, each in parameters.items()
            }
            seen = {**parameters, **seen}
            definition = {**definition, "inputSchema": {**schema, "properties": shorter}}
        shown.append(definition)
    return shown


def _undescribed(schema: Any) -> Any:
    return {key: schema[key] for key in schema if key != "description"} if isinstance(schema, Mapping) else schema


def nearest_names(wanted: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return up to three names that are most like a name or some words, the nearest first; ties in alphabetical order.

    Args:
        wanted: the name or the words; only the first 100 characters are compared.
        names: of the tools that the caller may use, and of no others: what is denied must not be guessed from this.
    """
    from rapidfuzz import fuzz, process, utils

    text, choices = wanted[:_N_COMPARED], sorted(names)
    near: dict[str, None] = {}
    # What is a name but for a letter comes before what only has a part in common with it.
    for scorer, least in ((fuzz.ratio, _LEAST_LIKENESS_OF_ALL), (fuzz.WRatio, _LEAST_LIKENESS_OF_PARTS)):
        for name, _, _ in process.extract(
            text, choices, scorer=scorer, processor=utils.default_process, limit=_N_NEAREST, score_cutoff=least
        ):
            near[name] = None
    return tuple(near)[:_N_NEAREST]


_N_TEXT_CHARACTERS = 100
_N_SCORE_DIGITS = 3


@dataclass(frozen=True, slots=True)
class FoundTool:
    """A match of a search.

    Args:
        definition: as `tools/list` sends it, but for what `described_once` leaves out.
        is_full: whether it comes with its definition, or by name and first sentence only.
        score: the ranker's; None where the tool was selected by name.
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
            shown = {key: value for key, value in for_models(self.definition).items() if value not in (None, "")}
            return shown if self.score is None else {**shown, "score": round(self.score, _N_SCORE_DIGITS)}
        # Lines that an author broke are one sentence, paragraphs are not.
        paragraph = str(self.definition.get("description") or "").strip().partition("\n\n")[0]
        text = first_sentence(" ".join(paragraph.split()))
        short = text if len(text) <= _N_TEXT_CHARACTERS else f"{text[: _N_TEXT_CHARACTERS - 1].rstrip()}…"
        return {"name": self.name, **({"description": short} if short else {})}


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search.

    Args:
        tools: the tools that come with their definitions, best first.
        more: further ones, by name and first sentence only.
        activated: names that the search made visible.
        evicted: names of loaded tools that went out for them.
        n_deferred: how many tools stay deferred.
        active: the value of `active` after it.
        unknown: selected names that no permitted tool has, each with the permitted names nearest to it.
        nearest: without a match, the names nearest to the words.
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
        """The names of all matches, best first."""
        return tuple(tool.name for tool in (*self.tools, *self.more))

    @property
    def text(self) -> str:
        """What a model reads: compact JSON, without what there is nothing of."""
        return json.dumps(self._shown(), ensure_ascii=False, separators=(",", ":"))

    def as_dict(self) -> dict[str, Any]:
        """Return what a program reads: the same, and what was activated and evicted, and is active now."""
        changed = {"activated": list(self.activated), "evicted": list(self.evicted)}
        return {**self._shown(), **changed, "active": self.active}

    def _shown(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"tools": [tool.as_dict() for tool in self.tools]}
        if self.more:
            shown["more"] = [tool.as_dict() for tool in self.more]
        if self.unknown:
            shown["unknown"] = {name: list(nearest) for name, nearest in self.unknown.items()}
        for key, names in (("nearest", self.nearest), ("evicted", self.evicted)):
            if names:
                shown[key] = list(names)
        if self.cause:
            shown["cause"] = self.cause
        return {**shown, "deferred": self.n_deferred, "next": self._next()}

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


def search_result(
    query: str,
    ranked: Sequence[RankedTool],
    definitions: Mapping[str, Mapping[str, Any]],
    names: Collection[str],
    *,
    max_results: int | None = None,
    unknown: Iterable[str] = (),
    cause: str = "",
) -> SearchResult:
    """Return the result of a search, before tools are loaded for it; for a thread, where names are unknown.

    A definition costs as much as ten names, and the wanted tool is mostly among the first few: so without `max_results`
    the best come in full as far as 560 tokens reach. Of long definitions that would be one: the best two, and of five
    those that fit nearly as well, come as far as 2,000 reach, and at least one does. Only matches count, so
    that nothing shows what the caller may not use.

    Args:
        ranked: the matches, best first; without scores where they were selected by name.
        definitions: of every tool that may be returned, by name, as `tools/list` sends them; others are left out.
        names: of the tools that were searched; without a match the nearest of them are returned.
        max_results: how many come, all of them in full; None for 10, of which the best come in full.
        unknown: selected names that are missing.
    """
    best = {tool.name: tool for tool in reversed(ranked) if tool.name in definitions}
    matches = [name for name in dict.fromkeys(tool.name for tool in ranked) if name in best][: n_results(max_results)]
    shown = described_once(definitions[name] for name in matches)
    n_full = (
        len(matches) if max_results is not None else _n_within_tokens(shown, [best[name].score for name in matches])
    )
    tools = [
        FoundTool(each, place < n_full, best[name].score, best[name].words)
        for place, (name, each) in enumerate(zip(matches, shown, strict=True))
    ]
    nearest_by_name = {name: nearest_names(name, names) for name in unknown}
    return SearchResult(
        query=query,
        tools=tuple(tools[:n_full]),
        more=tuple(tools[n_full:]),
        unknown=nearest_by_name,
        nearest=() if n_full or nearest_by_name else nearest_names(query, names),
        cause=cause,
    )

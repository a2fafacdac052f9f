"""What a search of tools asks for, and which of the tools that it finds come with their definitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_utilities.catalog.tokens import n_tokens
from agent_utilities.errors import InputError
from agent_utilities.selection.resolution import RankedTool

MAX_RESULTS = 25
"""The most tools that one search gives or names."""
DEFAULT_RESULTS = 10
"""How many of them where nobody says."""
FULL_TOKENS = 1_200
"""About how many tokens of definitions a search gives where nobody says how many tools."""
N_LONG, LONG_TOKENS = 5, 2_000
"""So many of the best come where definitions are long, as far as this room reaches."""
MAX_QUERY_BYTES = 8192

_SELECT = "select:"
_N_NEAREST = 3
_LEAST_LIKENESS_OF_ALL, _LEAST_LIKENESS_OF_PARTS = 70, 60
_N_COMPARED = 100
"""Characters of what was asked for that are compared with names."""
_FROM_QUERY, _FROM_MAX_RESULTS = "tool_search: query", "tool_search: max_results"
_QUERY_HINT = "say in a few words what the tool should do, or name tools as select:a,b"


@dataclass(frozen=True, slots=True)
class Words:
    """A search for the tools that do what some words say."""

    text: str


@dataclass(frozen=True, slots=True)
class Select:
    """A load of tools by their exact names, each once, in the order given."""

    names: tuple[str, ...]


def parse_query(query: str) -> Words | Select:
    """Return what a search asks for: `select:a,b` names tools, anything else describes them.

    Raises:
        InputError: it is blank, over 8 KiB, or names no tool or more than 25.
    """
    text = query.strip()
    if len(text.encode("utf-8", "surrogatepass")) > MAX_QUERY_BYTES:
        raise InputError("too long", text, _FROM_QUERY, f"give at most {MAX_QUERY_BYTES} bytes")
    if not text:
        raise InputError("nothing to search for", query, _FROM_QUERY, _QUERY_HINT)
    if not text[: len(_SELECT)].lower() == _SELECT:
        return Words(text)
    names = tuple(dict.fromkeys(name for part in text[len(_SELECT) :].split(",") if (name := part.strip())))
    if not names:
        raise InputError("no name after select:", query, _FROM_QUERY, "name tools, such as select:git_log,git_diff")
    if len(names) > MAX_RESULTS:
        hint = f"load at most {MAX_RESULTS} at once"
        raise InputError("too many tools", f"{len(names)} names", _FROM_QUERY, hint)
    return Select(names)


def n_results(max_results: int | None) -> int:
    """Return the most tools that a search gives or names.

    Raises:
        InputError: it is less than 1 or more than 25.
    """
    if max_results is None:
        return DEFAULT_RESULTS
    if not 1 <= max_results <= MAX_RESULTS:
        hint = f"give a whole number from 1 to {MAX_RESULTS}"
        raise InputError("not a number of tools that one search gives", max_results, _FROM_MAX_RESULTS, hint)
    return max_results


def chosen(
    ranked: Sequence[RankedTool], definitions: Mapping[str, Mapping[str, Any]], max_results: int | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the tools found that come with their definitions, and of those that are only named.

    Both best first, and every one of the first is better than every one of the second. A definition costs as much as
    ten names, and the wanted tool is mostly among the first few: so where nobody says how many, the best come in full
    as far as 1,200 tokens reach. Of long definitions that would be one or two: the best five come as far as 2,000
    reach, and at least one does. Only what is found counts, so that nothing is told of what the caller may not use.

    Args:
        ranked: the tools found, best first.
        definitions: of every tool that may be given, by name, as `tools/list` sends them; others are left out.
        max_results: how many come, all of them in full; None for 10, of which the best come in full.

    Raises:
        InputError: `max_results` is less than 1 or more than 25.
    """
    most = n_results(max_results)
    names = tuple(dict.fromkeys(tool.name for tool in ranked if tool.name in definitions))[:most]
    n_full = len(names) if max_results is not None else _n_within_tokens(definitions[name] for name in names)
    return names[:n_full], names[n_full:]


def _n_within_tokens(definitions: Iterable[Mapping[str, Any]]) -> int:
    n_full = total = 0
    for definition in definitions:
        total += n_tokens(definition)
        if n_full and total > (LONG_TOKENS if n_full < N_LONG else FULL_TOKENS):
            break
        n_full += 1
    return n_full


def nearest_names(wanted: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return up to three names that are most like a name or some words, the nearest first; ties in alphabetical order.

    Args:
        wanted: what was asked for; only its first 100 characters are compared.
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

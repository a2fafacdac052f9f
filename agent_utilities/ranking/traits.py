"""What rankers know of tools beside their texts: their names, their servers, and what kind of thing they do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent_utilities.catalog.document import ToolDocument, split_identifier
from agent_utilities.ranking.arrays import NDArray, Places, Scores, np

_MENTION = re.compile(r"\w[\w./:-]*")
_QUOTES = ("`", '"', "'")


@dataclass(frozen=True, eq=False)
class NameIndex:
    """Which tools bear which names.

    Args:
        places_by_name: places in the catalog by folded name, as callers see it and as its server calls it, the latter
            with and without the server.
        view_places: (n_tools,) the place of each tool of the catalog among those of a view, -1 where it is not there;
            None where all are.
    """

    places_by_name: Mapping[str, Sequence[int]]
    view_places: NDArray[np.int32] | None = None

    @classmethod
    def of(cls, documents: Sequence[ToolDocument]) -> NameIndex:
        """Return that of a catalog."""
        places_by_name: dict[str, list[int]] = {}
        for place, document in enumerate(documents):
            own_name = document.read_name.casefold()
            names = {document.name.casefold(), own_name}
            if document.server:
                names.add(f"{document.server.casefold()}/{own_name}")
            for name in names:
                places_by_name.setdefault(name, []).append(place)
        return cls(places_by_name)

    def within(self, places: Places, n_tools: int) -> NameIndex:
        """Return the names of the tools at some places, ascending, whose places are then those among them."""
        view_places = np.full(n_tools, -1, dtype=np.int32)
        view_places[places] = np.arange(len(places))
        return NameIndex(self.places_by_name, view_places)

    def named_in(self, query: str) -> list[int]:
        """Return the tools whose names stand in a request as they are written.

        A name of one word counts only where it is the whole request or stands in backticks or quotes: it may be just
        a word.
        """
        text = query.strip()
        places = set(self.places_by_name.get(text.casefold(), ()))
        for match in _MENTION.finditer(text):
            mention = match.group().rstrip(".:/-")
            start, end = match.start(), match.start() + len(mention)
            is_quoted = text.endswith(_QUOTES, 0, start) and text.startswith(_QUOTES, end)
            if is_quoted or " " in split_identifier(mention):
                places.update(self.places_by_name.get(mention.casefold(), ()))
        if self.view_places is None:
            return sorted(places)
        return sorted(int(view_place) for view_place in self.view_places[list(places)] if view_place >= 0)


class Servers:
    """The servers of a catalog.

    Args:
        numbers: (n_tools,) the number of each tool's server.
    """

    def __init__(self, numbers: Places) -> None:
        self.n_tools = len(numbers)
        _, self._server_of_tool, self._n_tools_of_server = np.unique(numbers, return_inverse=True, return_counts=True)

    @classmethod
    def of(cls, documents: Sequence[ToolDocument]) -> Servers:
        """Return those of a catalog."""
        numbers: dict[str, int] = {}
        return cls(np.array([numbers.setdefault(tool.server, len(numbers)) for tool in documents], dtype=np.intp))

    @property
    def n_bytes(self) -> int:
        """What the arrays take."""
        return self._server_of_tool.nbytes + self._n_tools_of_server.nbytes

    def within(self, places: Places) -> Servers:
        """Return those of some of the tools."""
        return Servers(self._server_of_tool[places])

    def mean_scores(self, scores: Scores) -> Scores:
        """Return for each tool the mean score of its server's tools: (n_tools,); 0 where there is one server only."""
        n_servers = len(self._n_tools_of_server)
        if n_servers < 2:
            return np.zeros(self.n_tools, dtype=np.float32)
        means = np.bincount(self._server_of_tool, weights=scores, minlength=n_servers) / self._n_tools_of_server
        return means.astype(np.float32)[self._server_of_tool]


LOSS = 0.05
"""Of a score, where a tool does something of another kind."""
_VERBS = (
    "list get show describe read fetch retrieve view display find search query look lookup check count inspect browse"
    " print see enumerate what which who how where",
    "create add new make build generate insert register provision",
    "update edit change modify set rename patch replace configure adjust alter",
    "delete remove destroy drop erase purge clear unregister deregister",
)
_KIND_OF = {verb: 1 << number for number, verbs in enumerate(_VERBS) for verb in verbs.split()}
_N_CHARACTERS = 8_000
_WORD = re.compile(r"[a-z]+")


def _forms(verb: str) -> Iterable[str]:
    """Return a verb as `lists`, too: so descriptions begin."""
    return verb, f"{verb}s", f"{verb}es", f"{verb[:-1]}ies" if verb.endswith("y") else verb


_KIND_OF_FORM = {form: kind for verb, kind in _KIND_OF.items() for form in _forms(verb)}


def kinds_of_request(text: str) -> int:
    """Return the kinds of all that a text asks for, as bits; 0 where it has no verb that has one."""
    kinds = 0
    for word in _WORD.findall(text[:_N_CHARACTERS].lower()):
        kinds |= _KIND_OF.get(word, 0)
    return kinds


def kind_of_tool(document: ToolDocument) -> int:
    """Return the kind of what a tool does, a bit; 0 where neither its name nor its description's first word tells one.

    >>> kind_of_tool(ToolDocument("alert_delete")) == kinds_of_request("please remove the alert")
    True
    >>> kind_of_tool(ToolDocument("create_or_update_alert"))
    0
    """
    kinds = {_KIND_OF[word] for word in split_identifier(document.read_name).lower().split() if word in _KIND_OF}
    if kinds:
        return kinds.pop() if len(kinds) == 1 else 0
    first = _WORD.match(document.description[:40].lower())
    return _KIND_OF_FORM.get(first.group(), 0) if first else 0


def kinds_of_tools(documents: Sequence[ToolDocument]) -> NDArray[np.uint8]:
    """Return the kinds of what tools do, as `kind_of_tool` gives them: (n_tools,)."""
    return np.array([kind_of_tool(document) for document in documents], dtype=np.uint8)


def of_another_kind(kinds: NDArray[np.uint8], text: str) -> NDArray[np.bool_]:
    """Return which tools do something of another kind than all that a text asks for: (n_tools,)."""
    asked = kinds_of_request(text)
    other: NDArray[np.bool_] = (kinds > 0) & (kinds & asked == 0) & (asked > 0)
    return other

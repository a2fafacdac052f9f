"""Tools that a request calls by their names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_utilities.catalog.document import ToolDocument, split_identifier

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agent_utilities.ranking.arrays import Places

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
        """Return the names of some of the tools, whose places are then those among them.

        Args:
            places: where they stand in the catalog, ascending.
            n_tools: of the catalog.
        """
        import numpy as np

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

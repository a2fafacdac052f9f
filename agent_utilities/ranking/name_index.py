"""Tools that a request calls by their names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_utilities.catalog.document import ToolDocument, split_identifier

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MENTION = re.compile(r"\w[\w./:-]*")
_QUOTES = ("`", '"', "'")


class NameIndex:
    """Which tools bear which names.

    Args:
        documents: the catalog.
    """

    def __init__(self, documents: Sequence[ToolDocument]) -> None:
        self._exact: dict[str, list[int]] = {}
        self._among: NDArray[np.int32] | None = None
        for place, each in enumerate(documents):
            folded = each.name.casefold()
            self._exact.setdefault(folded, []).append(place)
            if each.server:
                self._exact.setdefault(f"{each.server.casefold()}/{folded}", []).append(place)

    def within(self, places: NDArray[np.intp], n_tools: int) -> NameIndex:
        """Return the names of some of the tools, whose places are then those among them.

        Args:
            places: where they stand in the catalog, ascending.
            n_tools: of the catalog.
        """
        import numpy as np

        some = NameIndex(())
        some._exact = self._exact
        some._among = np.full(n_tools, -1, dtype=np.int32)
        some._among[places] = np.arange(len(places))
        return some

    def mentioned(self, query: str) -> list[int]:
        """Return the tools whose names stand in a request as they are written.

        A name of one word counts only where it is the whole request or stands in backticks or quotes: it may be just
        a word.
        """
        text = query.strip()
        found = list(self._exact.get(text.casefold(), ()))
        for each in _MENTION.finditer(text):
            mention = each.group().rstrip(".:/-")
            quoted = text[: each.start()][-1:] in _QUOTES and text[each.start() + len(mention) :][:1] in _QUOTES
            if quoted or " " in split_identifier(mention):
                found.extend(self._exact.get(mention.casefold(), ()))
        if self._among is not None:
            found = [int(self._among[place]) for place in found if self._among[place] >= 0]
        return sorted(set(found))

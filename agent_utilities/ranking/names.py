"""Tools that a request calls by their names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent_utilities.catalog.document import ToolDocument, split_identifier

_MENTION = re.compile(r"\w[\w./:-]*")
_QUOTES = ("`", '"', "'")


class Names:
    """Which tools bear which names.

    Args:
        documents: the catalog.
    """

    def __init__(self, documents: Sequence[ToolDocument]) -> None:
        self._exact: dict[str, list[int]] = {}
        for place, each in enumerate(documents):
            folded = each.name.casefold()
            self._exact.setdefault(folded, []).append(place)
            if each.server:
                self._exact.setdefault(f"{each.server.casefold()}/{folded}", []).append(place)

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
        return sorted(set(found))

"""What kind of thing a request wants done, and a tool does: looks, creates, changes or deletes.

The vectors of `list_alerts` and `update_alert` are nearly one, and a request for either is as near to both. So a tool
of another kind than the request asks for loses a little. The verbs are those of interfaces in general (HTTP's methods,
SQL's and the shells' commands) and everyday words for them; whatever else a tool does has no kind, and loses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from agent_utilities.catalog.document import ToolDocument, split_identifier

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agent_utilities.ranking.arrays import Places

    Kinds = NDArray[np.uint8]

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


class ToolVerbs:
    """The kinds of what some tools do.

    Args:
        kinds: (n_tools,) as `kind_of_tool` gives them.
    """

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds

    @classmethod
    def of(cls, documents: Sequence[ToolDocument]) -> ToolVerbs:
        """Return those of a catalog."""
        import numpy as np

        return cls(np.array([kind_of_tool(document) for document in documents], dtype=np.uint8))

    def within(self, places: Places | None) -> ToolVerbs:
        """Return those of the tools at some places; None for all."""
        return self if places is None else ToolVerbs(self._kinds[places])

    def of_another_kind(self, text: str) -> NDArray[np.bool_]:
        """Return which tools do something of another kind than all that a text asks for: (n_tools,)."""
        asked = kinds_of_request(text)
        other: NDArray[np.bool_] = (self._kinds > 0) & (self._kinds & asked == 0) & (asked > 0)
        return other

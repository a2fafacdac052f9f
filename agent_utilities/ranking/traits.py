"""What kind of thing a tool does, by the verbs of its name and its description."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent_utilities.catalog.document import ToolDocument, split_identifier
from agent_utilities.ranking.arrays import NDArray, np

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


_KIND_OF_FORM = {
    form: kind
    for verb, kind in _KIND_OF.items()
    for form in (verb, f"{verb}s", f"{verb}es", f"{verb[:-1]}ies" if verb.endswith("y") else verb)
}
"""A verb as `lists`, too: so descriptions begin."""


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

"""The revision: a short name of what a caller may learn of the surface that a list or a call was made under."""

from __future__ import annotations

from hashlib import blake2b

from agent_utilities.selection.merge import effective
from agent_utilities.selection.model import Selection
from agent_utilities.visibility.decision import Decision


def revision(decision: Decision, asked: str) -> str:
    """Return 12 hex digits over what is permitted, what is shown of it, and what the caller asked for.

    Nothing else goes in: it is no secret how a revision is made, so whoever reads one could try what he guesses of
    denied tools or of the operator's bounds against it. The answer to a query is not part of it either: a call, which
    resolves none, is tied to the list that was made before.

    Args:
        decision: on the catalog that the caller is listed.
        asked: digest of the caller's own selection; see `asked_digest`.
    """
    return blake2b(f"{decision.learnt_digest}:{asked}".encode(), digest_size=6).hexdigest()


def asked_digest(caller: Selection) -> str:
    """Return a hash of a caller's own selection, 32 hex digits, the same in every process.

    The operator's settings take no part: one that both sides give must read like one that only the caller gives.
    Origins do not count, so that a header and a query parameter of one value are equal.
    """
    own = effective(caller)
    asked: tuple[object, ...] = (own.bounds_digest, own.query_text, own.top_k_value)
    if own.pins or own.searching:  # one that asks for nothing of tool search reads as it did before there was any
        asked += (own.pinned.spelled(), sorted(own.search_values.items()))
    if profiles := tuple(setting.value for (field, _), setting in caller.slots if field == "profile"):
        asked += (profiles,)  # by name: what is in them the operator wrote
    return blake2b(repr(asked).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

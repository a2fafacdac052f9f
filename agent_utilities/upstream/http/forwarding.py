"""Which of a caller's headers cross to an upstream: those that its operator names, but none of the protocol's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_NEVER = {
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "keep-alive",
    "last-event-id",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}
"""Headers of one connection or message, which another has its own of."""


def forwarded(names: Sequence[str], headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return those of the caller's headers that cross.

    Args:
        names: the operator's, folded.
        headers: the caller's.
    """
    if not names or not headers:
        return {}
    return {
        folded: value
        for name, value in headers.items()
        if (folded := name.casefold()) in names and folded not in _NEVER and not folded.startswith("mcp-")
    }

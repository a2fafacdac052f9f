"""The events of a server, which features and observers are notified of; no observer holds up a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_utilities.catalog.model import Catalog
from agent_utilities.selection.active import Threshold
from agent_utilities.selection.model import NameSet


class Event:
    """Something that happened on a server; each kind says what is logged, traced and recorded of it."""

    def log(self) -> None:
        """Log the event; most kinds log nothing."""

    def span_event(self) -> tuple[str, Mapping[str, str | int | float]] | None:
        """Return the name and attributes of an event to add to the request's span, or None."""
        return None

    def recorded(self) -> tuple[str, Mapping[str, Any]] | None:
        """Return the kind and fields of a line to add to the record of calls, or None."""
        return None


@dataclass(frozen=True, slots=True)
class RequestServed(Event):
    """A request was answered."""

    method: str
    outcome: str


@dataclass(frozen=True, slots=True)
class RequestRefused(Event):
    """An HTTP request was refused with a status before it was read as a request of the protocol."""

    status: int


@dataclass(frozen=True, slots=True)
class Decided(Event):
    """A decision on a list was not cached, and took some seconds to make."""

    seconds: float


@dataclass(frozen=True, slots=True)
class CatalogListed(Event):
    """A whole catalog of tools was listed to a caller."""

    catalog: Catalog


@dataclass(frozen=True, slots=True)
class ToolsChanged(Event):
    """The server's tools changed, regardless of who may use them."""


@dataclass(frozen=True, slots=True)
class UpstreamsRenewed(Event):
    """A gateway has read the lists of its upstreams again, and serves the new ones."""


@dataclass(frozen=True, slots=True)
class PolicyChanged(Event):
    """The operator's policy changed while the server runs.

    Args:
        what: `rules`, `tokens`, `quotas`, `config` or `lock`.
        told: a description of the change, without secrets.
    """

    what: str
    told: str

    def recorded(self) -> tuple[str, Mapping[str, Any]]:
        return "changed", {"what": self.what, "reason": self.told}


@dataclass(frozen=True, slots=True)
class TokensRevoked(Event):
    """Tokens were removed from the operator's file before they expired: the SHA-256 of each, in hex."""

    hashes: frozenset[str]


@dataclass(frozen=True, slots=True)
class LoggedIn(Event):
    """A person, identified by issuer and subject, has logged in at an upstream with their own account."""

    issuer: str
    subject: str
    upstream: str

    def recorded(self) -> tuple[str, Mapping[str, Any]]:
        return "login", {"issuer": self.issuer, "subject": self.subject, "upstream": self.upstream}


@dataclass(frozen=True, slots=True)
class SessionEnded(Event):
    """The session with this id has ended."""

    session_id: str


@dataclass(frozen=True, slots=True)
class Stopping(Event):
    """The server has begun to stop: streams end, and requests under way are answered."""


@dataclass(frozen=True, slots=True)
class QueryAnswerable(Event):
    """A query of the present caller can be answered now; it could not when tools were last listed."""

    query: str


@dataclass(frozen=True, slots=True)
class Pinned(Event):
    """The operator's configuration of servers set pins and the default of deferral anew.

    Args:
        pins: tools that are in every list which permits them.
        own_tags: the operator's own tags, folded, which their pins may fit; None where all tags are trusted.
        defers_by_default: the threshold of deferral where nobody sets one.
    """

    pins: NameSet
    own_tags: frozenset[str] | None
    defers_by_default: Threshold

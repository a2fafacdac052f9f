"""What happened on a server, as features and observers are told of it; none of them holds up a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent_utilities.catalog.model import Catalog


class Event:
    """Something that happened; what is logged of it and added to the request's span is its own to say."""

    def log(self) -> None:
        """Log it, if it is to be."""

    def span_event(self) -> tuple[str, Mapping[str, str | int | float]] | None:
        """Return the name and the attributes of the event of the request's span; None for none."""
        return None


@dataclass(frozen=True, slots=True)
class RequestServed(Event):
    """A request was answered."""

    method: str
    outcome: str


@dataclass(frozen=True, slots=True)
class RequestRefused(Event):
    """A request was refused over HTTP with a status, before it was one of the protocol."""

    status: int


@dataclass(frozen=True, slots=True)
class Decided(Event):
    """A list was decided that no memo held, in so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class CatalogListed(Event):
    """A caller was listed a whole catalog of tools."""

    catalog: Catalog


@dataclass(frozen=True, slots=True)
class ToolsChanged(Event):
    """The server's tools changed, whoever may use them."""


@dataclass(frozen=True, slots=True)
class PolicyChanged(Event):
    """What is permitted changed while the server runs.

    Args:
        what: `rules`, `tokens`, `quotas`, `config` or `lock`.
        told: what of it changed, in words; nothing secret.
    """

    what: str
    told: str


@dataclass(frozen=True, slots=True)
class TokensRevoked(Event):
    """Tokens were taken out of the operator's file before they were over: the SHA-256 of each, in hex."""

    hashes: frozenset[str]


@dataclass(frozen=True, slots=True)
class LoggedIn(Event):
    """Somebody, known by issuer and subject, has logged in at an upstream with an account of their own."""

    issuer: str
    subject: str
    upstream: str

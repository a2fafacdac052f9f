"""What happened on a server, as features and observers are told of it; none of them holds up a request."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from opentelemetry import trace

from agent_utilities.catalog.model import Catalog

logger = logging.getLogger("agent_utilities.observers")


class Event:
    """Something that happened; what is logged of it and added to the request's span is its own to say."""

    def log(self) -> None:
        """Log it, if it is to be."""

    def span_event(self) -> tuple[str, Mapping[str, str | int | float]] | None:
        """Return the name and the attributes of the event of the request's span; None for none."""
        return None


@dataclass(frozen=True, slots=True)
class RequestServed(Event):
    """A request was answered.

    Args:
        method: as in the protocol.
        outcome: `ok` or `error`.
    """

    method: str
    outcome: str


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


class Observers:
    """Tells everybody who listens; one that raises is logged, and neither the request nor the others know of it."""

    def __init__(self) -> None:
        self._observers: list[Callable[[Event], None]] = [_log]

    def add(self, observer: Callable[[Event], None]) -> None:
        """Tell this one too, from now on."""
        self._observers.append(observer)

    def remove(self, observer: Callable[[Event], None]) -> None:
        """Tell this one no more."""
        self._observers.remove(observer)

    def notify(self, event: Event) -> None:
        """Tell all of an event."""
        for observer in self._observers:
            try:
                observer(event)
            except Exception:
                logger.exception("an observer failed; the request goes on without it")


def _log(event: Event) -> None:
    event.log()
    if (told := event.span_event()) is not None and (span := trace.get_current_span()).is_recording():
        name, attributes = told
        span.add_event(name, {f"agent_utilities.{key}": value for key, value in attributes.items()})

"""Notifying features and observers of the events that they hear."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from opentelemetry import trace

from agent_utilities.runtime.waiting import is_failure
from agent_utilities.seam.events import Event
from agent_utilities.seam.feature import Feature

logger = logging.getLogger("agent_utilities.observers")

Observer = Callable[[Event], None]
_Listening = tuple[Observer, tuple[type[Event], ...]]


class Observers:
    """Notifies observers of events; a failure of one is logged, and affects neither the request nor the others."""

    def __init__(self) -> None:
        self._features: Sequence[Feature] = ()
        self._others: list[_Listening] = []
        self._by_kind: dict[type[Event], tuple[Observer, ...]] = {}

    def notify_features(self, features: Sequence[Feature]) -> None:
        """Set the features that are notified, each of the kinds of events that it hears."""
        self._features = features
        self._by_kind.clear()

    def observe(self, observer: Observer, *kinds: type[Event]) -> None:
        """Add another observer, of some kinds of events or of all."""
        self._others.append((observer, kinds or (Event,)))
        self._by_kind.clear()

    def notify(self, event: Event) -> None:
        """Notify the observers of an event's kind."""
        kind = type(event)
        if (observers := self._by_kind.get(kind)) is None:
            logs = [kind.log] if kind.log is not Event.log else []
            spans = [_add_to_span] if kind.span_event is not Event.span_event else []
            features = [each.notify for each in self._features if issubclass(kind, each.hears)]
            others = [observer for observer, kinds in self._others if issubclass(kind, kinds)]
            observers = self._by_kind[kind] = (*logs, *spans, *features, *others)
        for observer in observers:
            try:
                observer(event)
            except BaseException as error:
                if not is_failure(error):
                    raise
                logger.exception("an observer failed; the request goes on without it")


def _add_to_span(event: Event) -> None:
    if (added := event.span_event()) is not None and (span := trace.get_current_span()).is_recording():
        name, attributes = added
        span.add_event(name, {f"agent_utilities.{key}": value for key, value in attributes.items()})

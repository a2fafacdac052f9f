"""The sentences that call for capabilities, made ready to be held against what a user says."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agent_utilities.ranking.trigger_view import TriggerView
from agent_utilities.runtime.bounded_cache import BoundedCache

if TYPE_CHECKING:
    from agent_utilities.ranking.arrays import Vectors

_VIEWS_BYTES = 32 << 20


class TriggerIndex:
    """Triggers by capability, and what of them callers may use.

    What is common among triggers is a matter of those that a caller may use: a capability that he may not would
    otherwise move the scores of those that he may.

    Args:
        triggers: by capability, each with one at least.
        vectors: (n_distinct, n_dimensions) of the different triggers, in order of their first place; None for none.
        examples: (n, n_dimensions) of `request_direction.EXAMPLES`; None without `vectors`.
    """

    def __init__(
        self,
        triggers: Mapping[str, Sequence[str]],
        vectors: Vectors | None = None,
        examples: Vectors | None = None,
    ) -> None:
        self.triggers = {name: tuple(dict.fromkeys(triggers[name])) for name in sorted(triggers) if triggers[name]}
        self.names = frozenset(self.triggers)
        self._vectors = vectors
        self._examples = examples
        rows = dict.fromkeys(text for texts in self.triggers.values() for text in texts)
        self._row_of = {text: row for row, text in enumerate(rows)}
        self._lock = threading.Lock()
        self._views: BoundedCache[frozenset[str], TriggerView] = BoundedCache(_VIEWS_BYTES, _weigh)

    @property
    def has_vectors(self) -> bool:
        """Whether meanings are compared, not words alone."""
        return self._vectors is not None

    def view(self, usable: frozenset[str]) -> TriggerView:
        """Return what an index of the usable capabilities alone would have; processor work the first time."""
        names = usable & self.names
        with self._lock:
            view = self._views.get(names)
        if view is None:
            view = self._view_of(names)
            with self._lock:
                self._views.keep(names, view)
        return view

    def _view_of(self, names: frozenset[str]) -> TriggerView:
        triggers = {name: self.triggers[name] for name in sorted(names)}
        if self._vectors is None:
            return TriggerView.of(triggers)
        rows = [self._row_of[text] for texts in triggers.values() for text in texts]
        return TriggerView.of(triggers, self._vectors[rows], self._examples)


def distinct_triggers(triggers: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the different triggers of capabilities, in the order in which `TriggerIndex` takes their vectors."""
    return list(dict.fromkeys(text for name in sorted(triggers) for text in triggers[name]))


def _weigh(names: frozenset[str], view: TriggerView) -> int:
    return 4096 + 64 * len(names) + view.n_bytes

"""One server's tool surface: the operator's selection, and the decision for each request."""

from __future__ import annotations

import logging
import os
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from agent_utilities.catalog.model import Catalog, ComponentKind
from agent_utilities.mcp.components import CatalogReader, entry_of
from agent_utilities.resolution.answer import Scope
from agent_utilities.selection.merge import Effective, effective, merge
from agent_utilities.selection.model import NOTHING, Selection
from agent_utilities.selection.parse import read_env
from agent_utilities.selection.resolution import Resolution
from agent_utilities.settings import VARIABLES, Settings, read_settings
from agent_utilities.visibility.bounds import Bounds
from agent_utilities.visibility.decision import Decision, decide

if TYPE_CHECKING:
    from agent_utilities.mcp.metrics import Metrics

logger = logging.getLogger("agent_utilities.surface")

_MEMO = 1024
_MEMO_LEAST = 16
_MEMO_ENTRIES = 500_000
_OFF = Resolution()
KINDS: tuple[ComponentKind, ...] = ("tool", "prompt", "resource", "template")


@dataclass
class Verdict:
    """What holds for one request, from its first read to its last byte.

    Args:
        surface: the surface of the server that the request reached; a server mounted in it passes all through.
        effective: the settings that hold.
        bounds: the rules they come to.
        curated: whether preferences apply: only where tools are listed to a caller.
        resolution: the answer to the query.
        by_caller: whether the caller gave any setting.
        decisions: the last one made on each kind of component, for the result's `_meta`.
    """

    surface: Surface
    effective: Effective
    bounds: Bounds
    curated: bool = False
    resolution: Resolution = _OFF
    by_caller: bool = False
    decisions: dict[ComponentKind, Decision] = field(default_factory=dict)


_verdict: ContextVar[Verdict | None] = ContextVar("agent_utilities_verdict", default=None)


class Surface:
    """Decides for one server; holds what the decisions need between requests.

    Args:
        environ: the environment to read the operator's selection and settings from; the process's by default.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._given = environ
        self._launch = NOTHING
        self._operator: Selection | None = None
        self._settings: Settings | None = None
        self._effective: OrderedDict[Selection, tuple[Effective, Bounds]] = OrderedDict()
        self._decisions: OrderedDict[tuple[str, Effective, Resolution], Decision] = OrderedDict()
        self._readers: dict[ComponentKind, CatalogReader] = {kind: CatalogReader(kind) for kind in KINDS}
        self.catalogs: dict[ComponentKind, Catalog] = {}
        self.metrics: Metrics | None = None

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment that operator's values are read from."""
        return os.environ if self._given is None else self._given

    @property
    def operator(self) -> Selection:
        """The operator's selection: environment and command line.

        Raises:
            SelectionError: an environment variable can't be read; nothing is served until it can (law L5).
        """
        if self._operator is None:
            self._operator = merge(read_env(self.environ, known=VARIABLES), self._launch)
        return self._operator

    @property
    def settings(self) -> Settings:
        """The operator's settings.

        Raises:
            SettingsError: a value can't be read.
        """
        if self._settings is None:
            self._settings = read_settings(self.environ)
        return self._settings

    def launch(self, selection: Selection, **settings: Any) -> None:
        """Set the command line's selection and settings for all requests to come."""
        self._launch, self._operator = selection, None
        self._settings = self.settings.model_copy(update=settings)
        self._effective.clear()
        self._decisions.clear()

    def holds(self, caller: Selection) -> tuple[Effective, Bounds]:
        """Return the effective settings and bounds for a caller's selection."""
        found = self._effective.get(caller)
        if found is None:
            settled = effective(merge(self.operator, caller), self.settings.selection_policy)
            found = settled, Bounds(settled)
            _remember(self._effective, caller, found)
        return found

    def verdict(self, caller: Selection, *, curated: bool, resolution: Resolution | None = None) -> Verdict:
        """Return a new verdict for one request of a caller."""
        settled, bounds = self.holds(caller)
        return Verdict(self, settled, bounds, curated, resolution or _OFF, bool(caller.slots))

    def unbounded(self) -> Verdict:
        """Return a verdict that permits everything: for the operator's own eyes, and for introspection."""
        return Verdict(self, Effective(), Bounds(Effective()))

    def decide(self, kind: ComponentKind, components: Sequence[Any], verdict: Verdict) -> Decision:
        """Return the decision on a listing; the same inputs are decided once (law L6)."""
        reader = self._readers[kind]
        snapshot = reader.read(components)
        decision = self._decide(kind, snapshot.catalog, verdict)
        if verdict.bounds.rules and not reader.holds(snapshot, components, decision.visible):
            decision = self._decide(kind, reader.renew(components).catalog, verdict)
        verdict.decisions[kind] = decision
        return decision

    def scope(self, verdict: Verdict, catalog: Catalog, refused: frozenset[str] = frozenset()) -> Scope:
        """Return the tools that a verdict permits, as a query is resolved on them.

        Args:
            verdict: the caller's.
            catalog: every tool of the server, whoever may use it.
            refused: names of those whose own `auth` check does not admit the caller.
        """
        settled = verdict.effective.bounds_only

        def names() -> frozenset[str]:
            decision = self._decide("tool", catalog, replace(verdict, curated=False, decisions={}))
            return frozenset(catalog.entries[i].name for i in decision.permitted) - refused

        return Scope(f"{catalog.digest}:{settled.digest}:{sorted(refused)}", names)

    async def prepare(self, kind: ComponentKind, components: Sequence[Any]) -> None:
        """Read a long listing in turns with the event loop, so that it need not be read at once (law L7)."""
        await self._readers[kind].prepare(components)

    def is_guarded(self, kind: ComponentKind, components: Sequence[Any]) -> bool:
        """Whether any component of a listing has an `auth` check of its own."""
        return self._readers[kind].read(components).is_guarded

    def listed(self, kind: ComponentKind, verdict: Verdict) -> Catalog | None:
        """Take the catalog of a whole listing, just made under a verdict, for the server's, and return it."""
        if verdict.surface is not self or (decision := verdict.decisions.get(kind)) is None:
            return None
        self.catalogs[kind] = decision.catalog
        return decision.catalog

    def known(self, kind: ComponentKind) -> frozenset[str] | None:
        """Return every name and tag of a kind that the operator permits, or None before it was first listed.

        Left out are components with an `auth` check of their own: whoever listed last may have been let in to more.
        """
        catalog = self.catalogs.get(kind)
        if catalog is None:
            return None
        decision = self._decide(kind, catalog, self.verdict(NOTHING, curated=False))
        return frozenset(
            name for each in decision.open_entries if not each.is_guarded for name in (*each.identifiers, *each.tags)
        )

    def _decide(self, kind: ComponentKind, catalog: Catalog, verdict: Verdict) -> Decision:
        curated = verdict.curated and kind == "tool"
        settled = verdict.effective if curated else verdict.effective.bounds_only
        resolution = verdict.resolution if curated else _OFF
        key = (catalog.digest, settled, resolution)
        decision = self._decisions.get(key)
        if decision is None:
            started = time.perf_counter()
            decision = decide(catalog, settled, resolution)
            if self.metrics is not None and verdict.curated:
                self.metrics.decided(time.perf_counter() - started)
            _remember(self._decisions, key, decision, len(catalog))
        return decision

    def shown(self, kind: ComponentKind, components: Sequence[Any]) -> Sequence[Any]:
        """Return the visible components of a listing, in its order."""
        with self.under_verdict() as verdict:
            if verdict.surface is not self:
                return components
            decision = self.decide(kind, components, verdict)
            return components if decision.shows_all else [components[i] for i in decision.visible]

    def permits(self, kind: ComponentKind, component: Any) -> bool:
        """Whether the current request may list, search and call a component."""
        with self.under_verdict() as verdict:
            if verdict.surface is not self:
                return True
            return verdict.bounds.refusal(entry_of(kind, component)) is None

    def in_force(self) -> Verdict | None:
        """Return the verdict of the request that is being served, or None without one."""
        return _verdict.get()

    def permits_uri(self, uri: str, verdict: Verdict) -> bool:
        """Whether a verdict permits the listed resource of a URI; one that is not listed only where no bound is set."""
        entries = self.catalogs["resource"].entries if "resource" in self.catalogs else ()
        found = next((each for each in entries if each.name == uri), None)
        return not verdict.bounds.rules if found is None else verdict.bounds.refusal(found) is None

    def under_verdict(self, verdict: Verdict | None = None) -> _Under:
        """Hold a verdict for a `with` block: the one given, else the one in force, else the operator's alone."""
        if verdict is None:
            verdict = _verdict.get()
            if verdict is not None:
                return _Under(verdict, is_set=True)
            verdict = self.verdict(NOTHING, curated=False)
        return _Under(verdict, is_set=False)


class _Under:
    """A block under a verdict; a class, since every listing enters several."""

    __slots__ = ("_is_set", "_token", "_verdict")

    def __init__(self, verdict: Verdict, *, is_set: bool) -> None:
        self._verdict = verdict
        self._is_set = is_set

    def __enter__(self) -> Verdict:
        if not self._is_set:
            self._token = _verdict.set(self._verdict)
        return self._verdict

    def __exit__(self, *_: object) -> None:
        if not self._is_set:
            _verdict.reset(self._token)


def _remember(memo: OrderedDict[Any, Any], key: Any, value: Any, size: int = 1) -> None:
    """Keep a value among the newest; fewer are kept the larger they are.

    Args:
        size: about how many entries a value holds.
    """
    memo[key] = value
    while len(memo) > max(_MEMO_LEAST, min(_MEMO, _MEMO_ENTRIES // max(size, 1))):
        memo.popitem(last=False)

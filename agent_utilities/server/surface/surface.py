"""One server's tool surface: the verdict that holds for a request, and what it may see, decided once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from agent_utilities.catalog.model import KINDS, Catalog, ComponentKind
from agent_utilities.policy.bounds import Bounds
from agent_utilities.policy.curation import NO_PREFERENCES, Preferences, preferences_of
from agent_utilities.policy.decision import Decision, decide
from agent_utilities.policy.entry_names import SEARCH_ENTRY
from agent_utilities.runtime.caches import LONGEST_KEPT, BoundedCache, Memo, cache_bytes
from agent_utilities.runtime.waiting import finish_in_turns
from agent_utilities.seam.components import entry_of
from agent_utilities.seam.events import Decided, Event, Pinned
from agent_utilities.seam.verdict import UnderVerdict, Verdict, verdict_in_force
from agent_utilities.selection.active import AUTO, OFF
from agent_utilities.selection.merge import Effective, Narrowings, Within, asked_digest
from agent_utilities.selection.model import ACCESS_CHANNELS, NOTHING, Selection, Slot
from agent_utilities.server.surface.catalogs import CallerCatalogs, CatalogReader, Snapshot
from agent_utilities.server.surface.operator import Operator

MergedKey = tuple[Selection, Narrowings]
"""A caller's selection, and the bounds of features."""
DecisionKey = tuple[str, Effective, Preferences]
"""Digest of the catalog, the bounds that hold, and what is to be shown: all that `decide` reads."""


def weigh_merged(key: MergedKey, merged: Verdict) -> int:
    """Return about how many bytes a caller's selection takes, and all that follows from it: its sets may be copied."""
    return 3_000 + 700 * len(merged.bounds.rules) + 2 * max(key[0].n_bytes, merged.effective.caller_bytes)


def weigh_decision(key: DecisionKey, decision: Decision) -> int:
    """Return about how many bytes a decision takes: its catalog is shared, its tuples of places are not.

    The bounds in its key may outlive what they were merged from, so that they are counted here too.
    """
    n_places = len(decision.permitted)
    if decision.visible is not decision.permitted:
        n_places += len(decision.visible)
    return 3_000 + key[1].caller_bytes + key[2].n_bytes + 16 * len(decision.catalog) + 40 * n_places


_EVERYWHERE = object()
_BY_CALLERS_NAMES: frozenset[Slot] = frozenset(
    (("allow_tools", "file"), ("allow_tools", "project"), ("allow_tools", "env"))
)
MANY = 300
"""More components than can be read at once without blocking the event loop."""
_AT_ONCE = 1000
"""The most pairs of a component and a glob that are judged without a turn of the event loop."""


class Surface:
    """Decides for one server, and remembers what it decided.

    Args:
        environ: the environment to read the operator's selection and settings from; the process's by default.
        narrowings: returns what is taken away besides from everybody who selects so.
        notify: called with an event for each decision.
    """

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        narrowings: Callable[[Selection], Narrowings] = lambda _: (),
        notify: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self.operator = Operator(environ)
        self._narrowings, self._notify = narrowings, notify
        self.catalogs = CallerCatalogs()
        """The catalogs that each caller was last listed."""
        self._readers: dict[ComponentKind, CatalogReader] = {kind: CatalogReader(kind) for kind in KINDS}
        self._mounted: dict[tuple[bool, Narrowings], Verdict] = {}

    @cached_property
    def _merged(self) -> BoundedCache[MergedKey, Verdict]:
        return BoundedCache(self.cache_bytes("merged"), weigh_merged)

    @cached_property
    def _decisions(self) -> BoundedCache[DecisionKey, Decision]:
        return BoundedCache(self.cache_bytes("decisions"), weigh_decision)

    def cache_bytes(self, memo: Memo) -> int:
        """Return how many bytes a memo of the server may take.

        Raises:
            SettingsError: the operator's setting can't be read.
        """
        return cache_bytes(self.operator.settings.cache_mb, memo)

    def launch(self, selection: Selection, **settings: Any) -> None:
        """Set the command line's selection and settings for all requests to come."""
        self.operator.launch(selection, **settings)
        self._forget()

    def pin(self, event: Event) -> None:
        """Take the pins and the default of deferral from an event of the operator's configuration of servers."""
        if isinstance(event, Pinned) and self.operator.pinned != event:
            self.operator.pinned = event
            self._forget()

    def _forget(self) -> None:
        self._merged.clear()
        self._decisions.clear()
        self._mounted.clear()

    # -- verdicts ----------------------------------------------------------------------------------------------------

    def merged(self, caller: Selection, narrowings: Narrowings | None = None) -> Verdict:
        """Return the verdict on a caller's selection merged with the operator's; cached by selection."""
        key = caller, self._narrowings(caller) if narrowings is None else narrowings
        merged = self._merged.get(key)
        if merged is None:
            settings = self.operator.effective(caller)
            for narrowing in key[1]:
                settings = narrowing.narrowed(settings)
            bounds = Bounds(settings)
            by_caller = settings.is_searched_by_caller(self.operator.pinned.defers_by_default)
            preferences = preferences_of(
                settings,
                pins=self.operator.pinned.pins,
                by_default=self.operator.pinned.defers_by_default,
                can_search=bounds.permits_entry_tool(SEARCH_ENTRY, by_caller=by_caller),
                unanswered=AUTO if self.operator.settings.no_match == "search" else OFF,
            )
            merged = Verdict(
                self, settings, bounds, preferences, asked=asked_digest(caller), searched_by_caller=by_caller
            )
            if max(caller.n_bytes, settings.caller_bytes) <= LONGEST_KEPT:
                self._merged.keep(key, merged)
        return merged

    def verdict(
        self, selection: Selection, *, shapes_lists: bool = False, narrowings: Narrowings | None = None
    ) -> Verdict:
        """Return the verdict for one request of a caller, its query not yet resolved.

        Args:
            shapes_lists: whether its preferences choose what is listed.
            narrowings: what is taken away for this request; what is for everybody who selects so where None.
        """
        merged = self.merged(selection, narrowings)
        held = merged.effective, merged.bounds, merged.preferences
        by_caller = any(channel not in ACCESS_CHANNELS for (_, channel), _ in selection.slots) or (
            narrowings is not None and narrowings != self._narrowings(NOTHING)
        )
        return Verdict(
            self,
            *held,
            shapes_lists,
            by_caller,
            merged.asked,
            selection,
            narrowings,
            searched_by_caller=merged.searched_by_caller,
        )

    def for_present_caller(self) -> Verdict:
        """Return the verdict of the operator's bounds for the present caller, without the caller's own selection."""
        verdict = verdict_in_force()
        if verdict is None or verdict.surface is not self:
            return self.verdict(NOTHING, shapes_lists=False)
        within = tuple(each for each in verdict.narrowings or () if isinstance(each, Within))
        narrowings = (*self._narrowings(verdict.granted), *within)
        return self.verdict(verdict.granted, shapes_lists=False, narrowings=narrowings)

    def unbounded(self) -> Verdict:
        """Return a verdict that permits everything: for the operator's own eyes, and for introspection."""
        return Verdict(self, Effective(), Bounds(Effective()))

    @staticmethod
    def unbounded_everywhere() -> Verdict:
        """Return a verdict that permits what operators of mounted servers deny too, for inventories alone."""
        return Verdict(_EVERYWHERE, Effective(), Bounds(Effective()))

    def under_verdict(self, verdict: Verdict | None = None, *, looks_up: bool = False) -> UnderVerdict:
        """Put a verdict in force for a `with` block: by default the present one, else the operator's alone."""
        return UnderVerdict(verdict or self.in_force(), looks_up=looks_up)

    def in_force(self) -> Verdict:
        """Return the verdict of the request that is being served; without one the operator's alone."""
        return verdict_in_force() or self.verdict(NOTHING, shapes_lists=False)

    def own(self, verdict: Verdict) -> Verdict:
        """Return the verdict that this server's own components are judged by, under their own names.

        Where a request reached another server, which this one is mounted in, these are the bounds of this one's
        operator; the caller's selection is enforced there, on the names that the caller sees. Environment and files
        that both servers read also use those names, so their allow-lists by name are enforced there alone. Where this
        server was entered before in the same request, its earlier verdict holds again.
        """
        if verdict.surface is self or verdict.surface is _EVERYWHERE:
            return verdict
        if (before := next((each for each in reversed(verdict.outer) if each.surface is self), None)) is not None:
            return before
        reached = verdict.surface
        is_shared = isinstance(reached, Surface) and reached.operator.environ is self.operator.environ
        key = is_shared, self._narrowings(NOTHING)
        if (own := self._mounted.get(key)) is None:
            selection = self.operator.selection
            slots = tuple(entry for entry in selection.slots if not is_shared or entry[0] not in _BY_CALLERS_NAMES)
            settings = self.operator.alone(Selection(slots))
            for narrowing in key[1]:
                settings = narrowing.narrowed(settings)
            self._mounted.clear()
            own = self._mounted[key] = Verdict(self, settings, Bounds(settings))
        return own

    # -- decisions ---------------------------------------------------------------------------------------------------

    def decide(self, kind: ComponentKind, components: Sequence[Any], verdict: Verdict) -> Decision:
        """Return the decision on a listing; the same inputs are decided once (law L6)."""
        reader = self._readers[kind]
        snapshot = reader.read(components)
        decision = self.decision(kind, snapshot.catalog, verdict)
        if verdict.bounds.rules and not reader.is_current(snapshot, components, decision.visible):
            decision = self.decision(kind, reader.renew(components).catalog, verdict)
        return decision

    def decision(self, kind: ComponentKind, catalog: Catalog, verdict: Verdict) -> Decision:
        """Return the decision on a catalog under a verdict."""
        key = _key(kind, catalog, verdict)
        decision = self._decisions.get(key)
        if decision is None:
            started = time.perf_counter()
            refusals = verdict.judgements.get(catalog.digest)
            plain = None if key[2] == NO_PREFERENCES else self._plain(kind, catalog, verdict)
            decision = decide(catalog, *key[1:], refusals, plain)
            if verdict.shapes_lists:
                self._notify(Decided(time.perf_counter() - started))
            if key[1].caller_bytes <= LONGEST_KEPT:
                self._decisions.keep(key, decision)
        return decision

    def _plain(self, kind: ComponentKind, catalog: Catalog, verdict: Verdict) -> Decision:
        """Return the decision without preferences: what is permitted is the same for each query."""
        return self.decision(kind, catalog, replace(verdict, preferences=NO_PREFERENCES, shapes_lists=False))

    async def judge(self, kind: ComponentKind, catalog: Catalog, verdict: Verdict) -> None:
        """Judge a catalog in turns with the event loop, so that a decision need not do it at once (law L7)."""
        if verdict.surface is not self or catalog.digest in verdict.judgements:
            return
        key = _key(kind, catalog, verdict)
        if self._decisions.get(key) is None and self._decisions.get((*key[:2], NO_PREFERENCES)) is None:
            verdict.judgements[catalog.digest] = await finish_in_turns(verdict.bounds.judging(catalog))

    async def shown(self, kind: ComponentKind, components: Sequence[Any], verdict: Verdict) -> Sequence[Any]:
        """Return the visible components of a listing, in its order; it is judged in turns where that may take long."""
        if (1 + verdict.bounds.n_globs) * len(components) > _AT_ONCE:
            await self.judge(kind, self._readers[kind].read(components).catalog, verdict)
        decision = self.decide(kind, components, self.own(verdict))
        verdict.decisions[self, kind] = decision
        return components if decision.shows_all else [components[i] for i in decision.visible]

    def permits(self, kind: ComponentKind, component: Any) -> bool:
        """Whether the current request may list, search and call a component."""
        return self.own(self.in_force()).bounds.refusal(entry_of(kind, component)) is None

    async def decide_in_turns(self, kind: ComponentKind, catalog: Catalog, verdict: Verdict) -> Decision:
        """Return the decision on a catalog, made in turns with the event loop where it may take long (law L7)."""
        if (1 + verdict.bounds.n_globs) * len(catalog) > _AT_ONCE:
            await self.judge(kind, catalog, verdict)
        return self.decision(kind, catalog, verdict)

    async def is_known_denied(self, kind: ComponentKind, name: str, verdict: Verdict) -> bool:
        """Whether a verdict refuses every version of a name, in what the present caller was last listed."""
        catalog = self.catalogs.of_caller(kind) if verdict.surface is self else None
        if catalog is None:
            return False
        # An unknown name takes the same work, and so the same time (law L1).
        permitted_names = (await self.decide_in_turns(kind, catalog, verdict)).permitted_names
        return name in catalog.places_by_own_name and name not in permitted_names

    async def unanswered_decision(self, catalog: Catalog, verdict: Verdict) -> Decision:
        """Return the decision on a catalog's tools under a verdict before its query is answered."""
        unanswered = replace(verdict, preferences=verdict.preferences.unanswered, shapes_lists=True)
        return await self.decide_in_turns("tool", catalog, unanswered)

    async def permitted_digest(self, kind: ComponentKind, catalog: Catalog, bounds: Effective) -> str:
        """Return a hash over what bounds permit of a catalog."""
        return (await self.decide_in_turns(kind, catalog, Verdict(self, bounds, Bounds(bounds)))).permitted_digest

    # -- listings ----------------------------------------------------------------------------------------------------

    async def read(self, kind: ComponentKind, components: Sequence[Any]) -> Snapshot:
        """Return a listing as it is read; a long one is read in turns with the event loop (law L7)."""
        reader = self._readers[kind]
        return await reader.prepare(components) if len(components) > MANY else reader.read(components)

    def components_of(self, kind: ComponentKind, catalog: Catalog) -> Sequence[Any]:
        """Return the components that a catalog was read from, in its order; empty where that was long ago."""
        return self._readers[kind].components_of(catalog)

    def known(self, kind: ComponentKind) -> tuple[frozenset[str], frozenset[str]] | None:
        """Return the names, and the tags, of what the operator permits of what the present caller was last listed.

        None before they were listed any: what another was listed may be more than their own checks admit them to.
        """
        catalog = self.catalogs.of_caller(kind)
        if catalog is None:
            return None
        decision = self.decision(kind, catalog, self.for_present_caller())
        names = frozenset(name for entry in decision.open_entries for name in entry.identifiers)
        return names, frozenset(tag for entry in decision.open_entries for tag in entry.tags)


def _key(kind: ComponentKind, catalog: Catalog, verdict: Verdict) -> DecisionKey:
    return catalog.digest, verdict.effective.bounds_only, verdict.preferences_for(kind)

"""Merging selections: which channel holds where two differ, and what is taken away besides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from hashlib import blake2b
from operator import or_
from typing import Any, get_args

from agent_utilities.selection import model
from agent_utilities.selection.active import OFF, Active, Threshold, united
from agent_utilities.selection.model import FieldName, NameSet, Selection, Setting, Slot, Value, fold

Rank = tuple[model.Channel, ...]
"""Channels of which none replaces another's bounds: a project's file narrows what the user's file permits."""

OPERATOR_RANKS: tuple[Rank, ...] = (("file", "project"), ("env",), ("cli",))
"""Lowest first: a later rank replaces an earlier one. `file` is the user's file, `project` the working folder's."""
CALLER_RANKS: tuple[Rank, ...] = (("profile", "project_profile"), ("query",), ("header",), ("meta",))
"""The same for callers. The first are of the profile that a caller names; `meta` is the `_meta` of one MCP request."""

LISTS = ("allow_tools", "allow_tags", "deny_tools", "deny_tags")
"""The fields of allow-lists and denies."""
SEARCHING: tuple[FieldName, ...] = get_args(model.SearchFieldName)
"""The preferences of tool search, but for pins."""


def merge(*selections: Selection) -> Selection:
    """Merge selections into one that holds every channel's settings.

    Associative, with `Selection()` as identity, and independent of hash seeds (law L4). Settings of one field in one
    channel are united: names by union, flags by `or`, numbers by the smaller, query texts in order.
    """
    given = [selection for selection in selections if selection.slots]
    if len(given) < 2:
        return given[0] if given else model.NOTHING
    slots: dict[Slot, list[Setting]] = {}
    for selection in given:
        for slot, setting in selection.slots:
            slots.setdefault(slot, []).append(setting)
    return Selection(tuple((slot, _unite(slots[slot])) for slot in sorted(slots)))


def _unite(settings: Sequence[Setting]) -> Setting:
    """Unite all settings of one field and channel at once: a caller may send hundreds."""
    if len(settings) == 1:
        return settings[0]
    origins = tuple(sorted({origin for setting in settings for origin in setting.origins}))
    actives = [setting.value for setting in settings if isinstance(setting.value, Active)]
    value = united(*actives) if actives else reduce(_unite_values, (setting.value for setting in settings))
    return Setting(value, origins, settings[0].side)


def _unite_values(first: Value, second: Value) -> Value:
    match first, second:
        case NameSet(), NameSet():
            return first | second
        case bool(), bool():
            return first or second
        case int(), int():
            return min(first, second)
        case tuple(), tuple():
            return tuple(dict.fromkeys(first + second))
        case Threshold(), Threshold():
            return OFF if OFF in (first, second) else max(first, second, key=lambda threshold: threshold.over or 0)
    raise TypeError(f"settings of one field differ in type: {first!r}, {second!r}")


FLAGS = ("read_only", "no_destructive")
"""Bounds that hold where either side sets them."""


@dataclass(frozen=True, slots=True)
class ResultBudget:
    """The most tokens of a tool's result, each None where it is not set; `NO_LIMIT` for off.

    Args:
        operator: what the operator permits: of files, environment, command line, access and profiles the smallest.
        asked: the caller's own, for all that a URL or headers are sent with: lists are made by it.
        asked_of_call: the same with what the `_meta` of the one request says.
    """

    operator: int | None = None
    asked: int | None = None
    asked_of_call: int | None = None

    def of_lists(self, by_default: int) -> int:
        """Return what holds wherever this caller's lists do."""
        return _smaller(self.operator, self.asked, by_default)

    def of_call(self, by_default: int, of_tool: int | None = None) -> int:
        """Return what holds for one call.

        Args:
            of_tool: the operator's own number for the tool, in place of that for all tools.
        """
        return _smaller(self.operator if of_tool is None else of_tool, self.asked_of_call, by_default)


def _smaller(operator: int | None, asked: int | None, by_default: int) -> int:
    """Return the smaller of two budgets: a caller may lift what is so by default, and nothing that an operator set."""
    return min((tokens for tokens in (operator, asked) if tokens is not None), default=by_default)


NO_BUDGET = ResultBudget()


@dataclass(frozen=True, eq=False)
class Effective(model.HashedOnce):
    """The settings in effect; a permitted component satisfies every bound among them.

    Args:
        allow_tools, allow_tags: allow-lists by name, and by tag; a component must match each of them.
        deny_tools, deny_tags: denies by name, and by tag; matching one is enough.
        query, top_k: the user's words, and how many tools to show: preferences.
        pins: tools that are never deferred; all settings add up.
        searching: the other settings of tool search, in the order of `SEARCHING`.
        configured: whether denies in the configuration that a component came with hold too.
        capabilities: the active capabilities, whose tools are listed; None where the server has none.
        budget: the most tokens of a result.
    """

    allow_tools: tuple[Setting, ...] = ()
    allow_tags: tuple[Setting, ...] = ()
    deny_tools: tuple[Setting, ...] = ()
    deny_tags: tuple[Setting, ...] = ()
    read_only: Setting | None = None
    no_destructive: Setting | None = None
    query: Setting | None = None
    top_k: Setting | None = None
    pins: tuple[Setting, ...] = ()
    searching: tuple[tuple[FieldName, Setting], ...] = ()
    configured: bool = False
    capabilities: frozenset[str] | None = None
    budget: ResultBudget = NO_BUDGET

    @property
    def lists(self) -> tuple[tuple[Setting, ...], ...]:
        """The allow-lists and denies."""
        return self.allow_tools, self.allow_tags, self.deny_tools, self.deny_tags

    def beside(self, other: Effective) -> Effective:
        """Return these settings with another's bounds added: what either refuses is refused (law L3)."""
        brought = [given for given in (self.capabilities, other.capabilities) if given is not None]
        lists: dict[str, Any] = {
            name: tuple(dict.fromkeys((*getattr(self, name), *getattr(other, name)))) for name in LISTS
        }
        flags: dict[str, Any] = {flag: getattr(self, flag) or getattr(other, flag) for flag in FLAGS}
        return replace(
            self,
            **lists,
            **flags,
            configured=self.configured or other.configured,
            capabilities=frozenset.intersection(*brought) if brought else None,
        )

    @cached_property
    def caller_bytes(self) -> int:
        """About how many bytes the caller's own bounds take."""
        return sum(setting.n_bytes for settings in self.lists for setting in settings if setting.side == "caller")

    @cached_property
    def bounds_digest(self) -> str:
        """A hash of the bounds' values, stable across processes; without origins and preferences."""
        lists = [[_canonical(setting.value) for setting in settings] for settings in self.lists]
        read_only = None if self.read_only is None else True
        bounds: tuple[object, ...] = (lists, read_only, True) if self.configured else (lists, read_only)
        if self.no_destructive is not None:
            bounds = (*bounds, "no_destructive")
        if self.capabilities is not None:
            bounds = (*bounds, sorted(self.capabilities))
        return blake2b(repr(bounds).encode(), digest_size=16).hexdigest()

    @cached_property
    def bounds_only(self) -> Effective:
        """The same bounds without preferences: all that `decide` reads, so a cache keyed by it holds no more."""
        return replace(self, query=None, top_k=None, pins=(), searching=(), budget=NO_BUDGET)

    @property
    def top_k_value(self) -> int | None:
        """The most tools to show, or None where it is not set."""
        return self.top_k.value if self.top_k and isinstance(self.top_k.value, int) else None

    @property
    def query_text(self) -> str | None:
        """The query as one text, or None."""
        return " ".join(self.query.value) if self.query and isinstance(self.query.value, tuple) else None

    @property
    def pinned(self) -> NameSet:
        """The union of all pins."""
        return reduce(or_, (setting.value for setting in self.pins if isinstance(setting.value, NameSet)), NameSet())

    def is_searched_by_caller(self, by_default: Threshold = OFF) -> bool:
        """Whether the caller turned tool search on, by `tool_search` or, where it is off by default, by `max_tools`."""
        given = dict(self.searching)
        asked = given.get("tool_search") or (given.get("max_tools") if by_default == OFF else None)
        return asked is not None and asked.side != "operator"

    @cached_property
    def search_values(self) -> dict[FieldName, Value]:
        """The values of `searching`, by field."""
        return {name: setting.value for name, setting in self.searching}


def effective(selection: Selection, policy: model.Policy = "narrow") -> Effective:
    """Return the settings that are in effect of a merged selection.

    Denies add up over all channels (law L2). Allow-lists and flags: within a side the higher rank replaces the lower,
    and those of one rank all hold; across the trust boundary both sides' hold, so a caller only narrows (law L3), and
    so do those of a rule of access and of a token, each. Under `override` the highest rank's allow-lists hold alone.
    Of preferences the highest channel's holds, except that pins add up and the operator's `tool_search=off` is final;
    of budgets of results the operator's, a profile's and the caller's smallest.
    """
    given = dict(selection.slots)

    def every(field: FieldName, channels: Rank = model.CHANNELS) -> tuple[Setting, ...]:
        return tuple(given[slot] for c in channels if (slot := (field, c)) in given)

    def highest(field: FieldName, ranks: Sequence[Rank]) -> tuple[Setting, ...]:
        return next((settings for rank in reversed(ranks) if (settings := every(field, rank))), ())

    def allowed(field: FieldName) -> tuple[Setting, ...]:
        if policy == "override":
            return highest(field, (*OPERATOR_RANKS, *CALLER_RANKS)) + every(field, model.ACCESS_CHANNELS)
        return highest(field, OPERATOR_RANKS) + every(field, model.ACCESS_CHANNELS) + highest(field, CALLER_RANKS)

    def last(field: FieldName) -> Setting | None:
        return settings[-1] if (settings := every(field)) else None

    def searching(field: FieldName) -> Setting | None:
        # Environment and command line override a file's `off`; nothing overrides theirs, or a file's alone.
        kills = every(field, ("env", "cli")) or every(field, model.OPERATOR_CHANNELS)
        return next((setting for setting in kills if setting.value == OFF), None) or last(field)

    def flag(field: FieldName) -> Setting | None:
        flags = highest(field, OPERATOR_RANKS) + every(field, model.ACCESS_CHANNELS) + highest(field, CALLER_RANKS)
        return next((setting for setting in flags if setting.value is True), None)

    brought = last("capabilities")
    return Effective(
        allow_tools=allowed("allow_tools"),
        allow_tags=allowed("allow_tags"),
        deny_tools=every("deny_tools"),
        deny_tags=every("deny_tags"),
        read_only=flag("read_only"),
        no_destructive=flag("no_destructive"),
        query=last("query"),
        top_k=last("top_k"),
        pins=every("pins"),
        searching=tuple((name, setting) for name in SEARCHING if (setting := searching(name)) is not None),
        capabilities=frozenset(brought.value) if brought and isinstance(brought.value, tuple) else None,
        budget=_budget_of(highest) if any(field == "result_tokens" for field, _ in given) else NO_BUDGET,
    )


def _budget_of(highest: Callable[[FieldName, Sequence[Rank]], tuple[Setting, ...]]) -> ResultBudget:
    """Return the budget of results: the operator's side has the smallest of theirs, and the caller's their highest."""

    def smallest(*sides: Sequence[Rank]) -> int | None:
        values = [setting.value for ranks in sides for setting in highest("result_tokens", ranks)]
        return min((value for value in values if isinstance(value, int)), default=None)

    operator = smallest(OPERATOR_RANKS, (("rule",),), (("token",),), CALLER_RANKS[:1])
    return ResultBudget(operator, smallest(CALLER_RANKS[1:-1]), smallest(CALLER_RANKS[1:]))


def _canonical(value: Value) -> object:
    assert isinstance(value, NameSet)
    return "all" if value.everything else "", sorted(value.names), sorted(value.toolsets)


@dataclass(frozen=True)
class Narrowing:
    """Bounds that a feature adds to those of operator and caller (law L3).

    Args:
        origin: where they come from, as `explain` prints it.
        allow_tools, allow_tags: a component must match one of these names or globs; None for no list.
            A text is one name.
        deny_tools, deny_tags: a component must match none of them.
        read_only, no_destructive: whether only components are permitted that are annotated so.
        capabilities: tools of other capabilities are refused; None for no such bound.
    """

    origin: str
    allow_tools: frozenset[str] | None = None
    allow_tags: frozenset[str] | None = None
    deny_tools: frozenset[str] = frozenset()
    deny_tags: frozenset[str] = frozenset()
    read_only: bool = False
    no_destructive: bool = False
    capabilities: frozenset[str] | None = None

    def __post_init__(self) -> None:
        for field in (*LISTS, "capabilities"):
            if (names := getattr(self, field)) is not None:
                object.__setattr__(self, field, names := frozenset([names] if isinstance(names, str) else names))
                if not all(isinstance(name, str) for name in names):
                    raise TypeError(f"{field} of {self.origin!r} has what is no name")

    def narrowed(self, effective: Effective) -> Effective:
        """Return settings with these bounds added."""
        bounds: dict[str, Any] = {
            field: (_names(names, self.origin, of_toolsets=field == "deny_tools"),)
            for field in LISTS
            if (names := getattr(self, field)) is not None and (names or field.startswith("allow"))
        }
        flags = [flag for flag in FLAGS if getattr(self, flag)]
        bounds |= dict.fromkeys(flags, Setting(True, (self.origin,)))
        return effective.beside(Effective(**bounds, capabilities=self.capabilities))


def _names(names: frozenset[str], origin: str, *, of_toolsets: bool) -> Setting:
    """Return names as a setting; a glob never matches a toolset."""
    folded = frozenset(map(fold, names))
    toolsets = frozenset(name for name in folded if of_toolsets and "*" not in name)
    return Setting(NameSet(folded - toolsets, toolsets), (origin,))


@dataclass(frozen=True)
class Within:
    """The bounds that a call inherits from the request that it is made in (law L1).

    Args:
        outer: the bounds of that request, which name components as its own caller sees them.
        permitted: names, on the server that the call enters, of components that the request permits.
        denied: likewise of those that it denies.
    """

    outer: Effective
    permitted: frozenset[str] = frozenset()
    denied: frozenset[str] = frozenset()

    def narrowed(self, effective: Effective) -> Effective:
        """Return settings with these bounds added."""
        denied = (Setting(NameSet(self.denied), ("the request that it is made in",)),) if self.denied else ()
        allowed = tuple(
            replace(setting, value=setting.value | NameSet(self.permitted))
            for setting in self.outer.allow_tools
            if isinstance(setting.value, NameSet)
        )
        return effective.beside(replace(self.outer, allow_tools=allowed, deny_tools=self.outer.deny_tools + denied))


Narrowings = tuple[Narrowing | Within, ...]
"""The bounds of features, and of the requests that a call is made in; all of them hold."""


def asked_digest(caller: Selection) -> str:
    """Return a hash of a caller's own selection: 32 hex digits, stable across processes.

    The operator's settings are left out: a caller must not learn by it that both sides set the same. So are origins:
    a header and a query parameter of one value are equal.
    """
    own = effective(caller.asked)
    asked: tuple[object, ...] = (own.bounds_digest, own.query_text, own.top_k_value)
    if own.pins or own.searching:  # one that asks for nothing of tool search reads as it did before there was any
        asked += (own.pinned.spelled(), sorted(own.search_values.items()))
    if own.budget != NO_BUDGET:
        asked += (own.budget,)  # where it holds, lists show no output schemas
    if profiles := tuple(setting.value for (field, _), setting in caller.slots if field == "profile"):
        asked += (profiles,)  # by name: what is in them the operator wrote
    return blake2b(repr(asked).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def final_off(selection: Selection) -> str | None:
    """Return the warning that the environment's `tool_search=off` overrides the command line; None where it doesn't.

    For all other settings the command line replaces the environment.
    """
    given = dict(selection.slots)
    off, asked = given.get(("tool_search", "env")), given.get(("tool_search", "cli"))
    if off is None or off.value != OFF or asked is None or asked.value == OFF:
        return None
    assert isinstance(asked.value, Threshold)
    option = asked.origins[0].removeprefix("option ")
    return f"tool search is off by {off.origins[0]}, which {option} {asked.value.spelled} cannot lift"


def off_for_no_match(settings: Effective) -> str | None:
    """Return the warning that an operator's `tool_search=off` overrides `no_match=search`; None where it doesn't."""
    off = dict(settings.searching).get("tool_search")
    if off is None or off.value != OFF:
        return None
    return f"tool search is off by {off.origins[0]}, which no_match=search cannot lift: an unanswered query lists all"

"""What a capability brings along is there while it is active for a caller, and for nobody else (laws L1, L2)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.catalog.model import Catalog, entry
from agent_utilities.policy.curation import Preferences
from agent_utilities.policy.decision import decide
from agent_utilities.policy.deferral import Deferral
from agent_utilities.selection.active import ON
from agent_utilities.selection.merge import Effective
from tests.resolutions import answer_of

CATALOG = Catalog(
    (
        entry("tool", "office_mail", read_only=True),
        entry("tool", "git_log", capabilities=frozenset({"versioning"})),
        entry("tool", "code_view", capabilities=frozenset({"versioning", "search"})),
        entry("tool", "code_drop", capabilities=frozenset()),
    )
)
NAMES = frozenset(["versioning", "search", "browser"])


def names_for(active: frozenset[str] | None, preferences: Preferences | None = None) -> list[str]:
    decision = decide(CATALOG, Effective(capabilities=active), preferences or Preferences())
    return [CATALOG.entries[i].name for i in decision.visible]


def test_only_what_active_capabilities_bring_is_there() -> None:
    assert names_for(frozenset()) == ["office_mail"]
    assert names_for(frozenset({"search"})) == ["office_mail", "code_view"]
    assert names_for(frozenset({"versioning"})) == ["office_mail", "git_log", "code_view"]


def test_where_there_are_no_capabilities_to_choose_from_nothing_is_refused_for_them() -> None:
    assert len(names_for(None)) == 4


@given(st.frozensets(st.sampled_from(sorted(NAMES))), st.frozensets(st.sampled_from(sorted(NAMES))))
def test_other_sets_of_capabilities_are_other_bounds(one: frozenset[str], other: frozenset[str]) -> None:
    first, second = Effective(capabilities=one), Effective(capabilities=other)
    assert (first.bounds_digest == second.bounds_digest) == (one == other)


def test_tools_of_an_active_capability_are_never_deferred() -> None:
    deferring = Preferences(deferral=Deferral(ON.over))
    assert names_for(frozenset({"versioning"}), deferring) == ["git_log", "code_view"]


def test_the_tools_of_the_capability_that_words_call_for_stand_beside_what_answers_them() -> None:
    answered = answer_of("fresh", ["office_mail"])
    asked = Preferences("mail", answered, called_for="versioning")
    assert names_for(frozenset({"versioning"}), asked) == ["office_mail", "git_log", "code_view"]
    assert names_for(frozenset(), asked) == ["office_mail"]

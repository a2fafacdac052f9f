"""Which section of the context report a permitted tool is in."""

from __future__ import annotations

import pytest

from agent_utilities.catalog.model import Catalog, entry
from agent_utilities.policy.curation import Preferences
from agent_utilities.policy.decision import Decision, decide, sections_of
from agent_utilities.policy.deferral import Deferral
from agent_utilities.selection.active import Active
from agent_utilities.selection.merge import effective
from agent_utilities.selection.model import NameSet
from agent_utilities.selection.parse import read_env
from tests.resolutions import answer_of

CATALOG = Catalog(tuple(entry("tool", name) for name in ("pinned", "found", "loaded", "asleep", "denied")))


def decided(preferences: Preferences) -> Decision:
    return decide(CATALOG, effective(read_env({"MCP_DISABLED_TOOLS": "denied"})), preferences)


@pytest.fixture
def deferring() -> Decision:
    active = Active(("loaded", "found", "denied"), ("loaded", "denied"))
    return decided(Preferences(pins=NameSet(frozenset({"pinned"})), active=active, deferral=Deferral(over=0)))


def test_each_tool_is_where_it_came_from_while_tools_are_deferred(deferring):
    assert sections_of(deferring) == {
        "pinned": "pins",
        "found": "attached",
        "loaded": "active",
        "asleep": "deferred",
    }


def test_a_pin_that_was_loaded_is_a_pin():
    preferences = Preferences(
        pins=NameSet(frozenset({"loaded"})), active=Active(("loaded",), ("loaded",)), deferral=Deferral(over=0)
    )
    assert sections_of(decided(preferences))["loaded"] == "pins"


def test_where_none_is_deferred_what_is_visible_is_listed_and_pins_are_no_section():
    sections = sections_of(decided(Preferences(top_k=2, pins=NameSet(frozenset({"pinned"})))))
    assert sections == {"pinned": "listed", "found": "listed", "loaded": "deferred", "asleep": "deferred"}


def test_what_the_words_of_a_new_turn_attach_is_attached_and_no_longer_active():
    answer = answer_of("ranked", ["loaded", "asleep"])
    sections = sections_of(
        decided(
            Preferences(
                query="words",
                resolution=answer,
                active=Active(("found", "loaded"), ("found", "loaded")),
                deferral=Deferral(over=0),
                n_attached=2,
            )
        )
    )
    assert sections == {"found": "active", "loaded": "attached", "asleep": "attached", "pinned": "deferred"}

"""Decisions are handed back to the blocks that collect those of their own verdict, and to no other."""

from __future__ import annotations

import pytest

from agent_utilities.catalog.model import Catalog
from agent_utilities.mcp.surface.surface import Surface
from agent_utilities.mcp.surface.verdict import CollectingDecisions, Verdict, hand_back
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import NOTHING
from agent_utilities.visibility.decision import Decision, decide


@pytest.fixture
def verdicts() -> tuple[Verdict, Verdict]:
    """Return two verdicts that say the same, as of two callers who ask for the same."""
    surface = Surface({})
    return surface.verdict(NOTHING, shapes_lists=False), surface.verdict(NOTHING, shapes_lists=False)


def decision() -> Decision:
    return decide(Catalog(), Effective())


def test_a_block_is_told_the_last_decision_of_each_kind(verdicts: tuple[Verdict, Verdict]) -> None:
    first, last, of_prompts = decision(), decision(), decision()
    with CollectingDecisions(verdicts[0]) as decisions:
        for kind, made in (("tool", first), ("prompt", of_prompts), ("tool", last)):
            hand_back(kind, made, verdicts[0])
    assert decisions == {"tool": last, "prompt": of_prompts}


def test_a_decision_under_another_verdict_is_not_the_blocks(verdicts: tuple[Verdict, Verdict]) -> None:
    own = decision()
    with CollectingDecisions(verdicts[0]) as decisions:
        hand_back("tool", own, verdicts[0])
        hand_back("tool", decision(), verdicts[1])
    assert decisions == {"tool": own}


def test_all_blocks_around_each_other_are_told(verdicts: tuple[Verdict, Verdict]) -> None:
    own = decision()
    with CollectingDecisions(verdicts[0]) as outer, CollectingDecisions(verdicts[1]) as other:
        with CollectingDecisions(verdicts[0]) as inner:
            hand_back("tool", own, verdicts[0])
    assert (outer, other, inner) == ({"tool": own}, {}, {"tool": own})


def test_a_block_that_was_left_is_told_of_nothing_more(verdicts: tuple[Verdict, Verdict]) -> None:
    later = decision()
    with CollectingDecisions(verdicts[0]) as outer:
        with CollectingDecisions(verdicts[0]) as inner:
            pass
        hand_back("tool", later, verdicts[0])
    hand_back("tool", decision(), verdicts[0])
    assert (outer, inner) == ({"tool": later}, {})

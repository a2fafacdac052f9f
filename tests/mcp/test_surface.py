"""What a surface remembers, and for whom."""

from __future__ import annotations

from agent_utilities.catalog.model import Catalog, entry
from agent_utilities.mcp.surface import Surface
from agent_utilities.selection.model import NOTHING


class TestScope:
    def test_two_that_hold_different_tools_are_told_apart_whatever_the_names(self) -> None:
        surface = Surface({})
        catalog = Catalog(tuple(entry("tool", name) for name in ("a, b", "a,b", "a", "b", "c")))
        refusals = [frozenset({"a,b"}), frozenset({"a, b"}), frozenset({"a", "b"}), frozenset({"a"}), frozenset[str]()]
        verdict = surface.verdict(NOTHING, curated=False)
        scopes = [surface.scope(verdict, catalog, refused) for refused in refusals]
        assert len({each.names() for each in scopes}) == len({each.digest for each in scopes}) == len(refusals)

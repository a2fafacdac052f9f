"""The warning of a large surface: when it is given, and what it says would cut it."""

from __future__ import annotations

import re

from agent_utilities.catalog.tokens import MANY_TOKENS, MANY_TOOLS, open_warning, surface_warning


class TestWhen:
    def test_nothing_is_said_up_to_the_limits(self):
        for n_tools, n_tokens in [(0, 0), (MANY_TOOLS, 400), (2, MANY_TOKENS)]:
            assert surface_warning(n_tools, n_tokens, defers=False) is None

    def test_it_is_said_past_either(self):
        for n_tools, n_tokens in [(MANY_TOOLS + 1, 410), (1, MANY_TOKENS + 1)]:
            assert surface_warning(n_tools, n_tokens, defers=False) is not None


class TestWhatItSays:
    def test_is_one_line_with_what_would_cut_it(self):
        assert surface_warning(50, 8000, defers=False) == (
            "a large surface: 50 tools, about 8,000 tokens in every prompt; --tool-search on, --toolsets or --read-only"
            " would cut it"
        )

    def test_offers_fewer_pins_where_tools_are_deferred(self):
        assert (surface_warning(50, 8000, defers=True) or "").endswith("; fewer --pin would cut it")


class TestWhatAnybodyMayRead:
    def test_holds_no_number_but_the_limits(self):
        for defers in [True, False]:
            assert re.findall(r"[\d,]*\d", open_warning(defers=defers)) == [str(MANY_TOOLS), f"{MANY_TOKENS:,}"]

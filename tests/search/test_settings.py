"""A router's arguments: read and refused like a server's settings, and each said by its name."""

from __future__ import annotations

import pytest

from agent_utilities import SettingsError, ToolRouter
from agent_utilities.selection.active import Active
from tests.search.catalogs import catalog, names, of_topic

ENTRY = ["tool_search", "call_tool"]


def test_what_cannot_be_meant_is_refused_by_name() -> None:
    for argument, value in [
        ("initial_k", 0),
        ("initial_k", -1),
        ("search_k", True),
        ("search_k", 1.5),
        ("search_turns", -1),
        ("max_active", "many"),
        ("max_tools", 0),
        ("tool_search", "maybe"),
        ("pins", ["a\nb"]),
        ("active", "a;turns=many"),
    ]:
        with pytest.raises(SettingsError, match=rf"from ToolRouter: {argument}\)"):
            ToolRouter(catalog(), **{argument: value})


def test_pins_are_names_and_globs_as_a_list_or_a_text() -> None:
    for pins in ["song_*,weather_show", ["song_*", "weather_show"], ("Weather_Show", "SONG_*")]:
        assert names(ToolRouter(catalog(), pins=pins).tools()) == [*ENTRY, "weather_show", *of_topic("song")]


def test_pins_that_a_list_has_no_room_for_are_left_out() -> None:
    assert names(ToolRouter(catalog(), pins="song_*", max_tools=5).tools()) == [*ENTRY, *of_topic("song")[:3]]


class TestHandedOver:
    VALUE = "song_show,+photo_show;turns=2;of=1f2e3d4c"

    def test_a_set_that_a_server_told_is_listed(self) -> None:
        router = ToolRouter(catalog(), active=self.VALUE)
        assert names(router.tools()) == [*ENTRY, "song_show", "photo_show"]
        assert router.active == Active(("song_show", "photo_show"), ("song_show",), 2, "1f2e3d4c")

    def test_its_value_is_what_a_server_takes(self) -> None:
        assert ToolRouter(catalog(), active=self.VALUE).active_value == self.VALUE

    def test_names_that_no_tool_has_are_not_in_it(self) -> None:
        assert ToolRouter(catalog(), active="song_show,stranger").active_value == "song_show"

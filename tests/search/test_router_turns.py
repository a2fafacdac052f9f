"""Turns of an agent loop: what a message attaches, what a search loads, and what goes out for it."""

from __future__ import annotations

import pytest

from agent_utilities import ToolRouter
from agent_utilities.errors import InputError
from agent_utilities.search.router_tools import Turned
from tests.search.catalogs import N_TOOLS, TOPICS, catalog, names, of_topic, tool

pytestmark = pytest.mark.anyio
ENTRY = ["tool_search", "call_tool"]
DRIFT = [f"what about the {noun}?" for noun in TOPICS]
"""Nine messages, each about another topic."""


def listed(router: ToolRouter) -> list[str]:
    return names(router.tools())


class TestTurn:
    async def test_before_the_first_only_entry_tools_and_pins_are_listed(self) -> None:
        assert listed(ToolRouter(catalog(), pins=["song_*"])) == [*ENTRY, *of_topic("song")]

    async def test_a_message_attaches_what_answers_it_in_catalog_order(self) -> None:
        router = ToolRouter(catalog())
        turned = await router.turn("rename the photo")
        assert set(of_topic("photo")) <= set(turned.added)
        assert list(turned.added) == [name for name in names(catalog()) if name in turned.added]
        assert listed(router) == [*ENTRY, *turned.added]

    async def test_the_first_attaches_initial_k_at_most_and_a_later_one_search_k(self) -> None:
        router = ToolRouter(catalog(), initial_k=5, search_k=2)
        turned = [await router.turn(message) for message in DRIFT[:3]]
        assert [len(each.added) for each in turned] == [5, 2, 2]

    async def test_the_same_message_again_is_no_turn(self) -> None:
        router = ToolRouter(catalog())
        first = await router.turn(DRIFT[0])
        assert (await router.turn(DRIFT[0] + "\n")) == Turned(n_turns=first.n_turns, cause="the words of the last turn")

    async def test_a_blank_message_is_no_turn(self) -> None:
        assert await ToolRouter(catalog()).turn(" \n") == Turned(cause="no words")

    async def test_a_message_that_nothing_answers_attaches_nothing_and_counts(self) -> None:
        router = ToolRouter(catalog(), search_turns=1)
        turned = await router.turn("thank you kindly")
        assert turned == Turned(n_turns=1, frozen=True, cause=turned.cause)

    async def test_pins_are_never_attached(self) -> None:
        router = ToolRouter(catalog(), pins=["photo_show"])
        turned = await router.turn("the photo")
        assert set(turned.added) == {*of_topic("photo")} - {"photo_show"}
        assert listed(router).count("photo_show") == 1

    async def test_pins_take_no_place_of_what_a_message_attaches(self) -> None:
        router = ToolRouter(catalog(), pins=of_topic("photo")[:6], initial_k=1)
        assert (await router.turn("the photo")).added == ("photo_rename",)


class TestWhyNothingWasAttached:
    async def test_where_nothing_fits(self) -> None:
        assert (await ToolRouter(catalog()).turn("thank you kindly")).cause.startswith("nothing fits")

    async def test_where_what_answers_is_listed_already(self) -> None:
        router = ToolRouter(catalog(), pins=["photo_show"])
        assert (await router.turn("the photo")).cause == ""
        assert await router.turn("that photo") == Turned(n_turns=2, cause="what answers is listed already")

    async def test_where_the_list_has_no_room(self) -> None:
        router = ToolRouter(catalog(), max_tools=3, pins=["song_show"])
        assert await router.turn("the photo") == Turned(n_turns=1, cause="no room for what answers")

    async def test_where_the_set_is_frozen(self) -> None:
        router = ToolRouter(catalog(), search_turns=1)
        await router.turn("the photo")
        assert (await router.turn("the song")).cause == "frozen after turn 1"


class TestNineTurnsOfTopicDrift:
    async def test_the_list_only_grows_at_its_end_and_is_frozen_after_seven(self) -> None:
        router, before, turns = ToolRouter(catalog()), ENTRY, []
        for message in DRIFT:
            turns.append(await router.turn(message))
            after = listed(router)
            assert after[: len(before)] == before
            before = after
        assert [turned.frozen for turned in turns] == [False] * 6 + [True] * 3
        assert [list(turned.added) for turned in turns[:7]] == [of_topic(noun) for noun in list(TOPICS)[:7]]
        assert [turned.added for turned in turns[7:]] == [(), ()]
        assert [turned.n_turns for turned in turns] == [1, 2, 3, 4, 5, 6, 7, 7, 7]

    async def test_a_search_still_adds_at_the_end(self) -> None:
        router = ToolRouter(catalog())
        for message in DRIFT:
            await router.turn(message)
        before = listed(router)
        result = await router.search("parcel courier")
        assert set(result.activated) == set(of_topic("parcel"))
        assert listed(router) == [*before, *result.activated]


class TestSearch:
    async def test_words_give_the_best_in_full_and_activate_them(self) -> None:
        router = ToolRouter(catalog())
        result = await router.search("song")
        assert set(names([found.definition for found in result.tools])) == set(of_topic("song"))
        assert listed(router) == [*ENTRY, *result.activated]
        assert result.n_deferred == N_TOOLS - len(result.activated)

    async def test_what_comes_by_name_only_is_not_activated(self) -> None:
        big = [tool(f"song_{i}", "Plays a song. " + "x" * 1500) for i in range(12)]
        router = ToolRouter(big)
        result = await router.search("song")
        assert (len(result.tools), len(result.more)) == (4, 6)
        assert result.more[0].as_dict()["description"] == "Plays a song."
        assert set(result.activated) == {found.name for found in result.tools}

    async def test_names_are_loaded_as_they_are_selected(self) -> None:
        router = ToolRouter(catalog())
        result = await router.search("select:song_show,photo_show")
        assert result.names == result.activated == ("song_show", "photo_show")

    async def test_a_name_that_no_tool_has_comes_with_the_nearest(self) -> None:
        result = await ToolRouter(catalog()).search("select:song_show,song_shwo")
        assert result.names == ("song_show",)
        assert list(result.unknown) == ["song_shwo"]
        assert result.unknown["song_shwo"][0] == "song_show"

    async def test_nothing_found_says_so_and_names_the_nearest(self) -> None:
        result = await ToolRouter(catalog()).search("prcl")
        assert result.tools == result.activated == ()
        assert result.nearest[0].startswith("parcel")
        assert result.as_dict()["next"].startswith("Nothing found;")

    async def test_a_server_is_its_tools_alone(self) -> None:
        result = await ToolRouter(catalog()).search("rename", server="Photo")
        assert result.names == ("photo_rename",)

    async def test_names_of_other_servers_are_unknown_to_a_server(self) -> None:
        result = await ToolRouter(catalog()).search("select:song_show,photo_show", server="photo")
        assert (result.names, list(result.unknown)) == (("photo_show",), ["song_show"])
        assert all(name.startswith("photo") for name in result.unknown["song_show"])

    async def test_a_server_that_is_not_there_is_refused_with_the_nearest(self) -> None:
        with pytest.raises(InputError, match=r"did you mean photo\?"):
            await ToolRouter(catalog()).search("show", server="photos")

    async def test_what_cannot_be_meant_is_refused_and_changes_nothing(self) -> None:
        for query, max_results in [("", None), ("select:", None), ("song", 26), ("song", 0)]:
            router = ToolRouter(catalog())
            with pytest.raises(InputError):
                await router.search(query, max_results)
            assert listed(router) == ENTRY


class TestEviction:
    async def test_the_least_recently_used_goes_out_and_the_search_tells(self) -> None:
        router = ToolRouter(catalog(), max_active=2)
        await router.search("select:song_show,photo_show")
        router.touch("song_show")
        result = await router.search("select:ticket_show")
        assert (result.activated, result.evicted) == (("ticket_show",), ("photo_show",))
        assert listed(router) == [*ENTRY, "song_show", "ticket_show"]
        assert result.as_dict()["evicted"] == ["photo_show"]

    async def test_what_a_message_attached_stays(self) -> None:
        router = ToolRouter(catalog(), max_active=1)
        attached = list((await router.turn("the photo")).added)
        await router.search("select:song_show")
        result = await router.search("select:ticket_show")
        assert result.evicted == ("song_show",)
        assert listed(router) == [*ENTRY, *attached, "ticket_show"]

    async def test_a_list_is_never_longer_than_a_provider_takes(self) -> None:
        router = ToolRouter(catalog(), max_tools=12, pins=["weather_show"])
        for message in DRIFT:
            await router.turn(message)
            await router.search("parcel ticket song", max_results=25)
            assert len(router.tools()) <= 12
        assert listed(router)[:3] == [*ENTRY, "weather_show"]


class TestTouch:
    async def test_a_call_of_a_deferred_tool_activates_it(self) -> None:
        router = ToolRouter(catalog())
        assert router.touch("song_show").added == ("song_show",)
        assert listed(router) == [*ENTRY, "song_show"]

    async def test_a_call_of_anything_else_changes_nothing(self) -> None:
        for name in ["weather_show", "hosts_own", "tool_search"]:
            router = ToolRouter(catalog(), pins=["weather_*"])
            before = listed(router)
            assert router.touch(name).added == ()
            assert listed(router) == before


class TestNothingDeferred:
    async def test_every_tool_is_listed_and_no_entry_tool(self) -> None:
        for settings in [{"tool_search": "off"}, {"tool_search": "auto:63"}, {"search_turns": 0}]:
            router = ToolRouter(catalog(), **settings)
            assert listed(router) == names(catalog())
            is_frozen = settings == {"search_turns": 0}
            assert await router.turn("the photo") == Turned(frozen=is_frozen, cause="nothing is deferred")
            assert listed(router) == names(catalog())

    async def test_where_all_are_active_there_is_no_entry_tool_until_one_goes_out(self) -> None:
        router = ToolRouter(catalog()[:2], max_active=0)
        await router.search("select:invoice_show,invoice_change")
        assert listed(router) == ["invoice_show", "invoice_change"]

    async def test_a_search_answers_and_activates_nothing(self) -> None:
        router = ToolRouter(catalog(), tool_search="off")
        result = await router.search("song")
        assert set(result.names) == set(of_topic("song"))
        assert (result.activated, result.n_deferred, router.active.names) == ((), 0, ())

    async def test_auto_defers_where_there_are_more_than_50(self) -> None:
        assert listed(ToolRouter(catalog()[:51], tool_search="auto")) == ENTRY
        assert listed(ToolRouter(catalog()[:50], tool_search="auto")) == names(catalog()[:50])

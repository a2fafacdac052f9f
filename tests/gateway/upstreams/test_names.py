"""Names at the gateway: every host can take them, they stay, and no upstream can take another's."""

from __future__ import annotations

import re
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_utilities.gateway.upstreams.names import MAX_LENGTH, Namespace, names_here

any_name = st.text(max_size=90) | st.from_regex(r"[A-Za-z0-9_-]{1,70}", fullmatch=True)
confusable = st.text(alphabet="ab_", min_size=1, max_size=5)
upstreams = st.lists(any_name, min_size=1, max_size=4, unique=True)


def namespaced(upstream: str, name: str) -> str:
    """Return the name at a gateway that has no other upstream."""
    return Namespace((upstream,)).namespaced(upstream, name)


class TestOneName:
    def test_is_its_own_behind_the_upstreams_or_its_beginning_and_a_hash(self) -> None:
        for upstream, name, pattern in [
            ("git", "git_status", "git_git_status"),
            ("git", "x" * 60, "git_x{60}"),
            ("git", "x" * 61, "git_x{47}_[0-9a-f]{12}"),
            ("files", "read.file/now", "files_read_file_now_161003a3b325"),
            ("files", "read_8cfd44a9d4ba", "files_read_8cfd44a9d4ba_[0-9a-f]{12}"),
        ]:
            assert re.fullmatch(pattern, namespaced(upstream, name)), name

    @given(any_name, any_name)
    def test_is_one_that_every_host_takes(self, upstream: str, name: str) -> None:
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", namespaced(upstream, name))
        assert MAX_LENGTH == 64


class TestPrefixes:
    def test_are_the_upstreams_names_without_odd_characters(self) -> None:
        assert Namespace(["git", "my server"]).prefixes == {"git": "git", "my server": "my_server"}

    def test_of_two_names_that_come_to_one_differ(self) -> None:
        prefixes = Namespace(["my server", "my_server", "my.server"]).prefixes
        assert prefixes["my_server"] == "my_server"
        assert len(set(prefixes.values())) == 3

    def test_that_are_no_names_are_told(self) -> None:
        (notice,) = Namespace(["git", "my server"]).notices()
        assert "'my server'" in notice
        assert "'my_server'" in notice

    @given(upstreams)
    def test_are_never_two_upstreams_one(self, names: list[str]) -> None:
        prefixes = Namespace(names).prefixes
        assert len(set(prefixes.values())) == len(names)


class TestTwoUpstreams:
    def test_that_could_give_one_name_give_two(self) -> None:
        space = Namespace(["a", "a_b"])
        assert space.namespaced("a_b", "c") == "a_b_c"
        assert re.fullmatch(r"a_b_c_[0-9a-f]{12}", space.namespaced("a", "b_c"))

    @given(st.lists(confusable, min_size=1, max_size=4, unique=True), st.lists(confusable, max_size=6, unique=True))
    def test_never_give_one_name(self, names: list[str], tools: list[str]) -> None:
        space = Namespace(names)
        given = [space.namespaced(upstream, tool) for upstream in names for tool in tools]
        assert len(set(given)) == len(given)

    @settings(max_examples=100)
    @given(upstreams, any_name)
    def test_are_named_alike_in_whatever_order_they_stand(self, names: list[str], tool: str) -> None:
        assert len({Namespace(order).namespaced(names[0], tool) for order in permutations(names)}) == 1

    def test_keep_their_names_when_the_other_lists_something(self) -> None:
        space = Namespace(["a", "a_b"])
        alone, _ = names_here(space, {"a": ["b_c"]})
        both, _ = names_here(space, {"a_b": ["c"], "a": ["b_c"]})
        assert alone["a", "b_c"] == both["a", "b_c"]

    def test_cant_take_the_place_of_a_hashed_name(self) -> None:
        space = Namespace(["a", "a_b"])
        hashed = space.namespaced("a", "b_c")
        assert space.namespaced("a_b", hashed.removeprefix("a_b_")) != hashed


own_prefixes = st.none() | st.just("") | st.text(alphabet="ab_", min_size=1, max_size=3)


class TestPrefixesOfTheirOwn:
    def test_stand_in_the_place_of_the_name(self) -> None:
        space = Namespace(["git", "time"], {"git": "g"})
        assert (space.namespaced("git", "status"), space.namespaced("time", "now")) == ("g_status", "time_now")
        assert space.notices() == ()

    def test_may_be_none(self) -> None:
        space = Namespace(["git", "time"], {"git": ""})
        assert space.namespaced("git", "git_status") == "git_status"
        assert space.prefixes == {"git": "", "time": "time"}
        assert space.notices() == ()

    def test_that_is_none_gives_no_name_of_anothers_or_of_the_gateway(self) -> None:
        space = Namespace(["git", "time", "x"], {"git": "", "x": "n"})
        for name in ("time_now", "n_now", "tool_search", "call_tool", "mcp_load", "capability", "show_context", "a.b"):
            assert re.fullmatch(r".+_[0-9a-f]{12}", space.namespaced("git", name)), name
        assert Namespace(["git"]).namespaced("git", "call_tool") == "git_call_tool"

    def test_are_nobodys_that_has_them_by_its_name_or_that_two_wrote(self) -> None:
        space = Namespace(["git", "g", "gh", "hub"], {"git": "g", "gh": "x", "hub": "x"})
        assert space.prefixes["g"] == "g"
        assert all(re.fullmatch(r"\w+_[0-9a-f]{12}", space.prefixes[name]) for name in ("git", "gh", "hub"))
        assert ["prefix 'g'" in notice for notice in space.notices()] == [False, True, False]

    def test_what_two_without_one_both_list_is_left_out_of_both(self) -> None:
        space = Namespace(["a", "b", "c"], {"a": "", "b": ""})
        for order in permutations(["a", "b", "c"]):
            listed = {upstream: ["read", upstream * 2] for upstream in order}
            names, (notice,) = names_here(space, listed)
            assert names == {("a", "aa"): "aa", ("b", "bb"): "bb", ("c", "read"): "c_read", ("c", "cc"): "c_cc"}
            assert "'read' is listed by the upstreams " in notice
            assert "write a `prefix` for one of them" in notice

    @given(
        st.dictionaries(confusable, own_prefixes, min_size=1, max_size=4),
        st.lists(confusable | st.sampled_from(["a_b_c", "aa", "b_"]), max_size=6, unique=True),
    )
    def test_law_no_name_is_ever_two_upstreams(self, own: dict[str, str | None], tools: list[str]) -> None:
        space = Namespace(own, own)
        names, _ = names_here(space, dict.fromkeys(own, tools))
        assert len(set(names.values())) == len(names)
        for (upstream, tool), name in names.items():  # whatever others list, it is no name of another's
            for other in own:
                alone, _ = names_here(space, {other: tools})
                assert other == upstream or name not in alone.values()
            assert names_here(space, {upstream: [tool]})[0] == {(upstream, tool): name}

    @given(st.dictionaries(any_name, own_prefixes, min_size=1, max_size=3), any_name)
    def test_law_names_are_what_every_host_takes(self, own: dict[str, str | None], tool: str) -> None:
        space = Namespace(own, own)
        assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", space.namespaced(upstream, tool)) for upstream in own)


class TestTable:
    @settings(max_examples=100)
    @given(st.dictionaries(any_name, st.lists(any_name, max_size=5), max_size=3))
    def test_has_every_name(self, listed: dict[str, list[str]]) -> None:
        names, _ = names_here(Namespace(listed), listed)
        assert names.keys() == {(upstream, original) for upstream in listed for original in listed[upstream]}

    def test_tells_of_what_was_renamed(self) -> None:
        _, (notice,) = names_here(Namespace(["git"]), {"git": ["status", "a.b"]})
        assert "'a.b'" in notice
        assert "'git'" in notice

    def test_tells_of_a_name_that_is_listed_twice(self) -> None:
        names, notices = names_here(Namespace(["git"]), {"git": ["status", "status"]})
        assert names == {("git", "status"): "git_status"}
        assert len(notices) == 1

    def test_refuses_an_upstream_that_is_not_configured(self) -> None:
        with pytest.raises(KeyError):
            Namespace(["git"]).namespaced("time", "now")

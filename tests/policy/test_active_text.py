"""The value of `active`: what is written is read back, and what nobody wrote is refused in few words."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_utilities import SelectionError, selection_headers, selection_meta, selection_url
from agent_utilities.selection.active import NOTHING_ACTIVE, Active, read_active, united, written
from agent_utilities.selection.channels import META_KEY
from agent_utilities.selection.model import Selection
from agent_utilities.selection.parse import MAX_BYTES, read_meta, read_request
from tests.every import every
from tests.policy.given import any_actives

ordinary = st.from_regex(r"[A-Za-z0-9_.\-/]{1,64}", fullmatch=True)
odd = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters=",;+"), min_size=1, max_size=20)
MANY = tuple(f"a_server_with_a_name_tool_number_{i}" for i in range(600))
WIDE = tuple(f"{chr(0x65E5 + i)}" * 40 for i in range(600))


def by_header(active: Active) -> Selection:
    headers = selection_headers(active=written(active))
    return read_request(b"", tuple((key.encode(), value.encode()) for key, value in headers.items()))


def by_url(active: Active) -> Selection:
    return read_request(urlsplit(selection_url("http://h/mcp", active=written(active))).query.encode(), ())


def by_meta(active: Active) -> Selection:
    return read_meta(selection_meta(active=written(active)))


CHANNELS = {"header": by_header, "query": by_url, "meta": by_meta}


class TestWhatIsWritten:
    @given(any_actives(ordinary))
    def test_is_read_back_as_it_was(self, active: Active):
        assert read_active(written(active), "x") == active

    @given(any_actives(odd))
    @example(Active(("utf-8'", "日本", "a b"[:1]), ("日本", "utf-8'"), 3, "0123abcd"))
    def test_comes_through_every_channel_of_a_caller_as_it_was(self, active: Active):
        for channel, sent in CHANNELS.items():
            setting = sent(active).get("active", channel)  # type: ignore[arg-type]
            assert (setting.value if setting else NOTHING_ACTIVE) == active

    def test_has_room_beside_other_values_however_many_are_active(self):
        for channel in CHANNELS:
            for names in [MANY, WIDE]:
                active = Active(names, tuple(reversed(names)), 999_999, "0123abcd")
                assert len(written(active).encode()) <= MAX_BYTES - 1024
                (_, setting), *_ = CHANNELS[channel](active).slots
                assert setting.value.names == names[-len(setting.value.names) :]
                assert len(setting.value.names) > 10

    @every("names", [MANY, WIDE])
    def test_is_no_longer_in_a_header_or_url_than_servers_take(self, names: tuple[str, ...]):
        active = Active(names, tuple(reversed(names)), 7, "0123abcd")
        (header,) = selection_headers(active=written(active)).values()
        url = selection_url("http://h/mcp", active=written(active))
        assert max(len(header), len(url)) <= MAX_BYTES

    def test_keeps_of_what_does_not_fit_the_last_and_their_order_of_use(self):
        active = Active(MANY, tuple(reversed(MANY)))
        read = read_active(written(active), "x")
        assert read.loaded == tuple(reversed(read.names))

    @given(any_actives(st.text(max_size=12)))
    def test_leaves_out_only_the_names_that_cannot_be_written(self, active: Active):
        read = read_active(written(active), "x")
        assert set(read.names) <= set(active.names)
        assert all(
            not name.isprintable() or name != name.strip() or name[:1] in ("", "+") or set(name) & set(",;")
            for name in set(active.names) - set(read.names)
        )

    def test_of_nothing_is_nothing(self):
        assert written(NOTHING_ACTIVE) == ""


class TestWhatPeopleWrite:
    @every(
        ("text", "active"),
        [
            pytest.param("b, a", Active(("b", "a"), ("b", "a")), id="loaded tools in the order they came"),
            pytest.param("+b,a", Active(("b", "a"), ("a",)), id="a plus marks what a turn attached"),
            pytest.param("a,b,+a,b", Active(("a", "b"), ("b",)), id="twice is once, and attached where either is"),
            pytest.param(";turns=2;of=0123abcd", Active(n_turns=2, words="0123abcd"), id="turns alone"),
        ],
    )
    def test_is_read(self, text: str, active: Active):
        assert read_active(text, "x") == active

    def test_commas_and_marks_without_a_name_are_nothing(self):
        for text in ["", ",", " , ,", "+", "+,+"]:
            assert read_active(text, "x") == NOTHING_ACTIVE


HOSTILE = {
    "10,000 commas": ("," * 10_000, "too many active tools"),
    "513 names": (",".join(f"t{i}" for i in range(513)), "too many active tools"),
    "a name as long as a book": ("x" * 1_000_000, "too long for a tool's name"),
    "an unknown part": ("a;colour=red", "not a part of an active value"),
    "a part without a value": ("a;turns", "not a part of an active value"),
    "an empty part": ("a;", "not a part of an active value"),
    "many parts": ("a" + ";x=1" * 100_000, "not a part of an active value"),
    "negative turns": ("a;turns=-1", "not a part of an active value"),
    "enormous turns": ("a;turns=" + "9" * 100_000, "not a part of an active value"),
    "turns in other digits": ("a;turns=٣", "not a part of an active value"),
    "turns that are no number": ("a;turns=1e3", "not a part of an active value"),
    "turns given twice": ("a;turns=1;turns=2", "twice"),
    "an order given twice": ("a,b;used=1.0;used=1.0", "twice"),
    "words in upper case": ("a;of=0123ABCD", "not a part of an active value"),
    "words that are text": ("a;of=delete the log", "not a part of an active value"),
    "too short an order": ("a,b;used=0", "not an order of the loaded tools"),
    "too long an order": ("a,b;used=0.1.2", "not an order of the loaded tools"),
    "a place named twice": ("a,b;used=0.0", "not an order of the loaded tools"),
    "an order of what was attached": ("+a,b;used=1.0", "not an order of the loaded tools"),
    "an order of nothing": (";used=0", "not an order of the loaded tools"),
    "an endless order": ("a;used=" + ".".join(["0"] * 200_000), "not a part of an active value"),
    "a negative place": ("a,b;used=1.-1", "not a part of an active value"),
}


class TestWhatIsHostile:
    def test_is_refused_in_few_words(self):
        for text, what in HOSTILE.values():
            with pytest.raises(SelectionError) as refused:
                read_active(text, "header x-mcp-active")
            assert what in str(refused.value)
            assert "from header x-mcp-active" in str(refused.value)
            assert len(str(refused.value)) < 400

    def test_control_characters_are_refused_and_told_as_escapes(self):
        for control in ["\x00", "\x1b[2J", "\r\n", "\u202e", "\u200b", "\ud800", "\x7f", "\x85"]:
            with pytest.raises(SelectionError) as refused:
                read_meta({META_KEY: {"active": f"a{control}b"}})
            assert "control character U+" in str(refused.value)
            assert control not in str(refused.value)

    @given(st.text() | st.text("ab+,;=.0129turnsofed \x00", max_size=60))
    def test_is_either_refused_or_read_within_bounds(self, text: str):
        try:
            active = read_active(text, "x")
        except SelectionError:
            return
        assert len(active.names) == len(set(active.names)) <= 512
        assert sorted((*active.attached, *active.loaded)) == sorted(active.names)

    @every("channel", ["query", "header"])
    def test_names_no_more_in_hundreds_of_values_than_in_one(self, channel: str):
        values = [",".join(f"{i:x}{j:x}" for j in range(3)) for i in range(500)]
        pairs = tuple((b"x-mcp-active", value.encode()) for value in values)
        query = "&".join(f"active={value}" for value in values).encode()
        with pytest.raises(SelectionError, match="too many active tools"):
            read_request(query, ()) if channel == "query" else read_request(b"", pairs)


class TestUnion:
    @given(any_actives(), any_actives(), any_actives())
    def test_is_associative(self, a: Active, b: Active, c: Active):
        assert united(united(a, b), c) == united(a, united(b, c))

    @given(any_actives())
    def test_of_a_value_with_itself_or_with_nothing_is_the_value(self, active: Active):
        assert united(active, active) == active
        assert united(active, NOTHING_ACTIVE) == active == united(NOTHING_ACTIVE, active)

    @given(any_actives(), any_actives())
    def test_names_what_either_names_and_loses_no_mark(self, a: Active, b: Active):
        both = united(a, b)
        assert set(both.names) == {*a.names, *b.names}
        assert set(both.attached) == {*a.attached, *b.attached}
        assert sorted((*both.attached, *both.loaded)) == sorted(both.names)

"""Reading values: what is taken, what means not set, and what is refused."""

from __future__ import annotations

import pytest

from agent_utilities.errors import SelectionError
from agent_utilities.selection.model import NameSet, Selection
from agent_utilities.selection.parse import MAX_BYTES, MAX_GLOBS, MAX_NAMES, read_cli, read_env, read_meta, read_request
from tests.every import every


def header(name: str, value: str | bytes) -> Selection:
    return read_request(b"", ((name.encode(), value if isinstance(value, bytes) else value.encode()),))


def names(text: str) -> NameSet:
    value = header("x-mcp-enabled-tools", text).get("allow_tools", "header").value
    assert isinstance(value, NameSet)
    return value


class TestNames:
    def test_are_split_at_commas_and_folded_and_all_and_none_stand_for_all_and_none(self):
        for text, value in [
            (" A , b,, c ", NameSet(frozenset({"a", "b", "c"}))),
            ("all", NameSet(everything=True)),
            ("*", NameSet(everything=True)),
            ("NONE", NameSet()),
        ]:
            assert names(text) == value

    def test_a_star_among_tags_means_any_tag(self):
        value = header("x-mcp-enabled-tags", "*").get("allow_tags", "header").value
        assert value == NameSet(frozenset({"*"}))

    def test_repeated_keys_and_aliases_are_united(self):
        given = read_request(b"tools=a&tools=b&toolsets=c", ())
        setting = given.get("allow_tools", "query")
        assert setting.value == NameSet(frozenset({"a", "b"}), frozenset({"c"}))
        assert setting.origins == ("query tools", "query toolsets")


class TestNotSet:
    def test_blank_is_not_set(self):
        for text in ["", "   "]:
            assert header("x-mcp-enabled-tools", text) == Selection()

    def test_blank_variables_are_not_set(self):
        assert read_env({"MCP_ENABLED_TOOLS": "", "MCP_READ_ONLY": " ", "PATH": "/bin"}) == Selection()

    def test_other_keys_and_headers_are_passed_over(self):
        assert read_request(b"session_id=1&token=%00", ((b"x-mcp-other", b"\xff"),)) == Selection()


class TestAFlagInAURL:
    def test_without_a_value_is_true_and_with_a_blank_one_is_not_set(self):
        for query, held in [
            (b"read_only", True),
            (b"readonly&tools=a", True),
            (b"tools=a&READ-ONLY", True),
            (b"read%5Fonly", True),
            (b"read_only=", None),
            (b"read_only=%20", None),
            (b"read_only=false", False),
        ]:
            setting = read_request(query, ()).get("read_only", "query")
            assert (setting and setting.value) is held
        assert read_request(b"no_destructive&q", ()).get("no_destructive", "query").value is True

    def test_other_keys_without_a_value_are_blank(self):
        assert read_request(b"tools&q&top_k&debug", ()) == Selection()


class TestVariablesInQuotes:
    def test_are_read_without_them(self):
        for text in ['"a,b"', "'a,b'", ' "a,b" ', '"a","b"', "'a', 'b'", "\"a\",'b'"]:
            setting = read_env({"MCP_DISABLED_TAGS": text}).get("deny_tags", "env")
            assert setting.value == NameSet(frozenset({"a", "b"}))
        assert read_env({"MCP_READ_ONLY": '"true"'}).get("read_only", "env").value is True
        assert read_env({"MCP_TOOLS": '""', "MCP_TAGS": "' '"}) == Selection()

    def test_quotes_that_are_a_part_of_words_stay(self):
        for text in ['say "hello" to', 'a "b", "c"', '"a" and "b"']:
            assert read_env({"MCP_QUERY": text}).get("query", "env").value == (text,)


class TestRefused:
    def test_with_what_is_wrong(self):
        for query, what in [
            (b"tools=a%00b", "control character U+0000"),
            (b"q=a%0bb", "control character U+000B"),
            (b"tools=git%E2%80%8B_push", "control character U+200B"),
            (b"tools=%FF", "the query string is not UTF-8"),
            (b"tools=\xff", "not UTF-8"),
            (b"tools=,", "no name between the commas"),
            (b"top_k=0", "not a positive integer"),
            (b"top_k=-1", "not a positive integer"),
            (b"top_k=1.5", "not a positive integer"),
            (b"top_k=%D9%A3", "not a positive integer"),
            (b"top_k=9999999999", "not a positive integer"),
            (b"read_only=maybe", "not true or false"),
            (b"disabled_tool=x", "unknown query name"),
            (b"tools=" + b"a," * (MAX_BYTES // 2 + 1), "too long"),
            (b"tools=" + b",".join(b"%d" % i for i in range(MAX_NAMES + 1)), "too many names"),
            (b"tools=" + b",".join(b"%d*" % i for i in range(MAX_GLOBS + 1)), "too many globs"),
            (b"x=" + b"a" * 9 * MAX_BYTES, "the query string is too long"),
        ]:
            with pytest.raises(SelectionError) as caught:
                read_request(query, ())
            assert caught.value.what == what

    def test_with_value_source_and_hint(self):
        with pytest.raises(SelectionError) as caught:
            header("x-mcp-top-k", "many")
        assert caught.value.as_dict() == {
            "what": "not a positive integer",
            "value": "many",
            "source": "header x-mcp-top-k",
            "hint": "use a whole number from 1 up, such as 5",
        }

    def test_header_bytes_that_are_not_utf8(self):
        with pytest.raises(SelectionError, match="not UTF-8"):
            header("x-mcp-query", b"\xe9t\xe9")

    def test_nothing_within_the_limit(self):
        for n_bytes in [MAX_BYTES, MAX_BYTES - 1]:
            assert header("x-mcp-query", "q" * n_bytes)

    def test_the_limit_counts_all_values_of_a_channel(self):
        half = b"q" * (MAX_BYTES // 2 + 1)
        with pytest.raises(SelectionError, match="too long"):
            read_request(b"", ((b"x-mcp-enabled-tools", half), (b"x-mcp-disabled-tools", half)))

    def test_a_query_of_more_is_cut_and_says_so(self):
        long = "ü" * MAX_BYTES
        for given in (
            header("x-mcp-query", long.encode()),
            read_request(f"q={long}&tools=a".encode(), ()),
            read_meta({"agent-utilities/selection": {"q": long}}),
        ):
            ((_, setting),) = [each for each in given.slots if each[0][0] == "query"]
            assert setting.value == ("ü" * (MAX_BYTES // 2),)
            assert setting.origins[0].endswith(", cut to 8192 bytes")


class TestUnions:
    @every(
        ("query", "field", "value"),
        [
            pytest.param(b"top_k=5&top_k=3", "top_k", 3, id="the smaller top_k holds"),
            pytest.param(b"read_only=false&read_only=true", "read_only", True, id="read_only holds if either asks"),
            pytest.param(b"q=b&search=a&q=b", "query", ("b", "a"), id="query texts are joined in order"),
        ],
    )
    def test_of_one_channel(self, query, field, value):
        assert read_request(query, ()).get(field, "query").value == value


class TestOtherReaders:
    def test_options_are_read_in_turn(self):
        given = read_cli([("--tools", "a"), ("--tools", "b"), ("--read-only", "true")])
        assert given.get("allow_tools", "cli").value == NameSet(frozenset({"a", "b"}))
        assert given.get("read_only", "cli").value is True

    def test_variables_are_read_in_any_case(self):
        setting = read_env({"mcp_disabled_tags": "write", "MCP_DISABLED_TAGS": "read"}).get("deny_tags", "env")
        assert setting.value == NameSet(frozenset({"write", "read"}))

    def test_known_variables_are_not_misspellings(self):
        assert read_env({"MCP_TOP_KS": "1"}, known={"MCP_TOP_KS"}) == Selection()


def test_words_may_have_several_lines_as_pasted_ones_do() -> None:
    for text in ("fix this:\n\tTypeError\r\n", "a\nb"):
        given = read_meta({"agent-utilities/selection": {"q": text}})
        held = given.get("query", "meta")
        assert held is not None
        assert held.value == (text.strip(),)

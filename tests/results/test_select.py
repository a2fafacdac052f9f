"""What JMESPath selects under a budget, what it refuses, and what is said where nothing was selected."""

from __future__ import annotations

import json
import threading
import tracemalloc
from copy import deepcopy
from typing import Any

import jmespath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jmespath.parser import Parser

from agent_utilities.errors import InputError
from agent_utilities.results.content import written_size
from agent_utilities.results.select import missing, parsed, select

ISSUES: dict[str, Any] = {
    "issues": [
        {"number": n, "state": "open" if n % 3 else "closed", "title": f"t{n}", "user": {"login": "ann"}, "body": None}
        for n in range(2113)
    ],
    "total": 2113,
    "none": [],
}


def refused(expression: str, value: Any = ISSUES) -> InputError:
    with pytest.raises(InputError) as error:
        select(expression, value)
    assert error.value.source == "read_result: select"
    return error.value


def why(expression: str, value: Any = ISSUES) -> str:
    return missing(expression, value, select(expression, value))


def times(step: str, n: int) -> str:
    return " | ".join([step] * n)


class TestSelect:
    def test_it_is_jmespath(self):
        for expression, expected in [
            ("issues[?state=='closed'].number | [:3]", [0, 3, 6]),
            ("issues[:2].{n: number, t: title}", [{"n": 0, "t": "t0"}, {"n": 1, "t": "t1"}]),
            ("sort_by(issues, &number)[-1].title", "t2112"),
            ("length(issues[?number>`2000` && state!='open'])", 38),
            ("issues[*].user.login | [0]", "ann"),
            ("{all: total, few: issues[7:9].number}", {"all": 2113, "few": [7, 8]}),
            ("join(',', issues[:3].title)", "t0,t1,t2"),
            ("max_by(issues, &number).number", 2112),
            ("*.title | [0]", None),
            ("issues.title", None),
        ]:
            assert select(expression, ISSUES) == expected, expression

    def test_the_whole_is_itself(self):
        assert select("@", ISSUES) is ISSUES

    def test_a_value_stays_as_it_is(self):
        before = deepcopy(ISSUES)
        select("sort_by(issues, &title) | reverse(@) | [].merge(@, {a: title})", ISSUES)
        assert before == ISSUES

    def test_a_longer_value_is_worth_more_steps(self):
        rows = [{"number": n, "title": "t" * 40} for n in range(60_000)]
        assert len(select("[?number>=`59998`].{number: number, title: title}", rows)) == 2
        assert len(select("[].{number: number, title: title}", rows[:20_000])) == 20_000

    def test_the_parser_keeps_no_expression(self):
        before = dict(Parser._CACHE)
        select("issues[?title=='a secret'].number", ISSUES)
        assert before == Parser._CACHE

    def test_threads_do_not_disturb_one_another(self):
        answers: list[Any] = []

        def work(n: int) -> None:
            answers.extend((n, select(f"issues[?number==`{n}`].title | [0]", ISSUES)) for _ in range(3))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answers) == [(n, f"t{n}") for n in range(6) for _ in range(3)]


NAMES = st.sampled_from(["a", "b", '"x y"'])
LEAVES = NAMES | st.sampled_from(["@", "`1`", "'s'", "`null`", "`[1, 2]`", "[0]", "[-1]", "[]", "[*]", "*", "[1:]"])
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda part: st.one_of(
        st.builds("{}.{}".format, part, NAMES),
        st.builds("{}[]".format, part),
        st.builds("{}[?{}]".format, part, part),
        st.builds("{}[?{} == {}]".format, part, part, part),
        st.builds("{} | {}".format, part, part),
        st.builds("({} || {})".format, part, part),
        st.builds("!{}".format, part),
        st.builds("[{}, {}]".format, part, part),
        st.builds("{{a: {}, b: {}}}".format, part, part),
        st.builds("map(&{}, {})".format, part, part),
        st.builds("sort_by({}, &{})".format, part, part),
        st.builds("{}({})".format, st.sampled_from(["length", "keys", "to_string", "reverse", "type", "sum"]), part),
    ),
    max_leaves=8,
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.sampled_from([1.5, "", "s", "open"]),
    lambda part: st.lists(part, max_size=4) | st.dictionaries(st.sampled_from(["a", "b", "x y"]), part),
    max_leaves=12,
)


class TestLaws:
    @settings(max_examples=300, deadline=None)
    @given(EXPRESSIONS, VALUES)
    def test_what_jmespath_answers_is_answered(self, expression: str, value: Any):
        try:
            expected = jmespath.search(expression, value)
        except ValueError:
            refused(expression, value)
        else:
            assert json.dumps(select(expression, value)) == json.dumps(expected)

    @settings(max_examples=200, deadline=None)
    @given(EXPRESSIONS, VALUES)
    def test_what_is_missing_is_said_in_a_short_line(self, expression: str, value: Any):
        said = missing(expression, value, None)
        assert len(said) <= 1000
        assert said.isprintable()

    @settings(max_examples=100, deadline=None)
    @given(VALUES)
    def test_a_size_is_near_what_is_written(self, value: Any):
        n = len(json.dumps(value, separators=(",", ":")))
        assert n / 4 - 4 <= written_size(value, 10**9) <= 4 * n + 4


class TestMalformed:
    def test_the_place_is_told(self):
        for expression, what in [
            ("issues[?number==5]", "column 16"),
            ("issues[", "column 7"),
            ("issues[?state=='open].x", "column 15"),
            ("a-b", "column 1"),
            ("issues.title]", "column 12"),
            ("", "empty"),
            ("frobnicate(@)", "frobnicate()"),
            ("contains(issues)", "Expected 2 arguments"),
            ("abs('x')", "abs() takes number, not string"),
            ("issues[::0]", "slice step cannot be zero"),
            ("ceil(to_number('inf'))", "infinity"),
        ]:
            error = refused(expression)
            assert what in error.what, expression
            assert "\n" not in error.what, expression

    def test_an_error_is_short_whatever_was_written(self):
        for expression in ["1" * 1990, "'" + "x" * 1990, "frobnicate" * 190 + "(@)"]:
            assert len(str(refused(expression))) < 600, expression

    def test_a_hint_can_be_parsed(self):
        for expression in [".issues[", "$..title", "ceil(to_number('inf'))"]:
            assert refused(expression).hint.startswith("it is JMESPath, such as "), expression

    def test_jsonpath_and_simple_jq_are_answered_in_jmespath(self):
        for expression, hint in [
            ("$.issues[*].title", "issues[*].title"),
            ("$.issues[?(@.state=='open')].title", "issues[?(@.state=='open')].title"),
            ("$['issues'][0]['title']", '"issues"[0]."title"'),
            (".issues[] | .title", "issues[].title"),
            (".[0].title", "[0].title"),
            ("issues.[0].title", "issues[0].title"),
            (".issues[] | {number, title}", "issues[].{number: number, title: title}"),
            ("issues[?state = 'open' and number >= 5]", "issues[?state == 'open' && number >= `5`]"),
            ("issues[?größe=='a=b - 5'].title", "issues[?\"größe\"=='a=b - 5'].title"),
        ]:
            assert refused(expression).hint.endswith(f": {hint}"), expression
            parsed(hint)

    def test_reports_of_other_trackers_are_answered(self):
        for expression, hint in [
            ("[?id==42]", "backticks: [?id==`42`]"),  # jmespath/jmespath.js#72
            ("[].states[] | [?defense>0]", "backticks: [].states[] | [?defense>`0`]"),  # jmespath/jmespath.py#196
            ("[?vote==10].{Name: Name}", "backticks: [?vote==`10`].{Name: Name}"),  # jmespath/jp#19
            ("props[? id == 2 ]", "backticks: props[? id == `2` ]"),  # jmespath-community/csharp-jmespath#33
            ("statistics.destinations-voice", ': statistics."destinations-voice"'),  # jmespath/jmespath.py#87
            ("eu-central-1", ': "eu-central-1"'),  # jmespath/jp#8
            ("[?tags.CREATED-BY == 'foobar']", ": [?tags.\"CREATED-BY\" == 'foobar']"),  # Azure/azure-cli#7124
            ("[?@type=='Organization'].name", ": [?\"@type\"=='Organization'].name"),  # jmespath/jmespath.js#86
            ("[?a==`1`].a.[0]", ": [?a==`1`].a[0]"),  # jmespath/jmespath.py#91
            ("$.main", ": main"),  # IBM/mcp-context-forge#5044
        ]:
            assert refused(expression).hint.endswith(hint), expression

    def test_what_jmespath_py_raises_against_its_specification_is_answered(self):
        for expression, value, expected in [
            ("[?id < '2']", [{"id": 1}], []),  # jmespath/jmespath.py#169
            ("[?a < b]", [{"a": "foo", "b": 5}], []),  # jmespath/jmespath.py#347
            ("contains(@, `123`)", "foobar", False),  # jmespath/jmespath.py#360
            ("@ < A", [], None),  # jmespath/jmespath.py#117
        ]:
            assert select(expression, value) == expected, expression

    def test_a_null_that_a_function_refuses_is_told(self):
        assert "[?body &&" in refused("issues[?contains(body, 'x')]").hint  # prowler-cloud/prowler#287
        assert "did you mean issues?" in refused("length(isues)").hint

    @pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
    def test_text_in_backticks_is_text(self):
        assert select("issues[?state == `open`].number | [0]", ISSUES) == 1  # jmespath/jmespath.py#229

    def test_a_warning_that_is_raised_is_an_error_of_input(self):
        assert refused("issues[?state == `open`]").what == "deprecated string literal syntax"

    def test_an_expression_is_checked_before_there_is_a_value(self):
        assert parsed("length(issues)")["type"] == "function_expression"
        with pytest.raises(InputError):
            parsed("issues[")


class TestTooMuch:
    def test_what_is_long_or_deep_is_refused(self):
        for expression in [
            "a" * 2001,
            "(" * 999 + "a" + ")" * 999,
            "!" * 1999 + "a",
            "[" * 999 + "@" + "]" * 999,
            "{a:" * 600,
            "||".join("a" * 600),
            "`" + "[" * 1900 + "`",
            "&" * 1900 + "a",
            '"' + '\\"' * 900,
            "@" + "[]" * 900,
        ]:
            refused(expression)

    def test_what_explodes_is_refused(self):
        for expression in [
            times("[@,@]", 40),
            times("[@,@][]", 40),
            times("{a: @, b: @}", 100),
            times("[" + ",".join("@" * 160) + "][]", 4),
            times("map(&[@,@], @)[]", 90),
            "{a: @} | " + times("merge({a: @}, {b: @})", 60),
            times("[to_string(@), to_string(@)]", 50),
            times("join(to_string(@), [to_string(@), to_string(@)])", 30),
            times("[@,@]", 60) + " | to_string(@)",
            times("[@,@]", 60) + " | sort_by(@, &@)",
            times("[@,@][]", 16) + " | [*].contains(@, 'x') | [*].[@,@,@]",
            f"[{times('[@,@]', 60)}, {times('[@,@]', 60)}] | [0] == [1]",
            f"contains([{times('[@,@]', 60)}], {times('[@,@]', 60)})",
        ]:
            assert refused(expression, [{"a": 1}, {"b": [2, "x"]}]).what.startswith("it takes too much"), expression

    def test_an_error_does_not_write_an_endless_value(self):
        error = refused(f"max_by(issues, &({times('[@,@]', 60)}))")
        assert error.what == "max_by() takes number or string, not array"
        assert len(str(error)) < 1000

    def test_what_is_copied_or_compared_over_and_over_is_counted(self):
        texts = ["x" * 4_000_000, "".join(["x"] * 4_000_000), *["y"] * 100]
        for expression, value in [
            ("[" + ",".join(["reverse(@[0])"] * 130) + "]", texts),
            ("sort([" + ",".join(["@[0]"] * 100) + "])", texts),
            ("[[[0],[1]]] | " + times("[@,@][]", 14) + " | [?[0]==[1]] | length(@)", texts),
            ("length([0]" + "[:]" * 600 + ")", [[1] * 300_000]),
            ("[" + ",".join(["length(merge(@, @))"] * 3) + "]", {f"key{n}": n for n in range(100_000)}),
        ]:
            assert refused(expression, value).what.startswith("it takes too much"), expression

    def test_a_text_is_counted_before_it_is_joined(self):
        tracemalloc.start()
        refused("join(@[0], @[1:])", ["x" * 4_000_000, *["y"] * 50])
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
        tracemalloc.stop()

    def test_what_would_hold_every_thread_is_refused(self):
        for expression, value in [("sort(@)", [1] * 100_001), ("to_string(@)", ["x" * 1000] * 5000)]:
            assert "less at once" in refused(expression, value).what, expression

    def test_what_can_not_be_written_is_no_result(self):
        for expression, value in [
            ("[&a]", {}),
            ("to_string(&a)", {}),
            ("to_string([&a])", {}),
            ("sum(@)", [10**4299] * 20),
            (times("[@]", 499) + " | @", []),
        ]:
            refused(expression, value)


class TestWrittenSize:
    def test_it_stops_at_its_limit(self):
        graph: Any = 1
        for _ in range(300):
            graph = [graph, graph]
        for value in (graph, [[1] * 3000] * 2000, [{"a": 1}] * 10_000):
            assert 10_000 < written_size(value, 10_000) < 50_000

    def test_what_can_not_be_written_has_none(self):
        deep: Any = []
        for _ in range(600):
            deep = [deep]
        for value, error in [(deep, RecursionError), (10**5000, TypeError), ({"a": {1, 2}}, TypeError)]:
            with pytest.raises(error):
                written_size(value, 10**6)


class TestMissing:
    def test_nothing_is_said_where_nothing_is_wrong(self):
        for expression in [
            "issues[0]",
            "issues[].title",
            "issues[0].body",
            "issues[].body",
            "issues[?number==`7`].body",
            "issues[].{n: number, b: body}",
            "none",
            "none[].title",
            "none[?x=='1'].y",
            "issues[9000:].title",
            "issues[0].body || issues[1].body",
            "length(none)",
        ]:
            assert why(expression) == "", expression

    def test_a_field_that_some_item_has_is_not_missing(self):
        assert why("[].b", [{"a": 1}, {"b": None}]) == ""

    def test_the_first_field_that_is_missing_is_told_with_the_keys(self):
        has = "it has number, state, title, user, body"
        for expression, expected in [
            ("isues[].title", "no isues at the top: it has issues, total, none; did you mean issues?"),
            ("issues[].titel", f"no titel in issues[0]: {has}; did you mean title?"),
            ("issues[1].titel.x", f"no titel in issues[1]: {has}; did you mean title?"),
            ("issues[].user.logn", "no logn in issues[0].user: it has login; did you mean login?"),
            ("issues[?state=='open'].titel", f"no titel in an item: {has}; did you mean title?"),
            ("issues[?stat=='open'].title", f"no stat in issues[0]: {has}; did you mean state?"),
            ("issues[].{n: number, t: titel}", f"no titel in issues[0]: {has}; did you mean title?"),
            ("issues[] | [0].zzz", f"no zzz in issues[0]: {has}"),
        ]:
            assert why(expression) == expected, expression

    def test_a_filter_that_nothing_matches_is_told_with_the_values(self):
        for expression, expected in [
            ("issues[?state=='opn'].title", "none of 2,113 items has state=='opn': state is 'open', 'closed'"),
            ("issues[?user.login=='bob']", "none of 2,113 items has user.login=='bob': user.login is 'ann'"),
            (
                "issues[?number=='5']",
                "none of 2,113 items has number=='5': number is `0`, `1`, `2`, `3`, `4` and 2,108 more",
            ),
            (
                "issues[?state=='closed' && number>`5000`]",
                "none of 705 items has number>`5000`: number is `0`, `3`, `6`, `9`, `12` and 700 more",
            ),
            ("issues[?starts_with(title, 'z')]", "the filter matches none of 2,113 items in issues"),
            ("length(issues[?state=='opn'])", "none of 2,113 items has state=='opn': state is 'open', 'closed'"),
        ]:
            assert why(expression) == expected, expression

    def test_text_without_single_quotes_is_told(self):
        for expression in [
            'issues[?state=="open"]',  # jmespath/jp#21, jmespath/jmespath.py#199
            "issues[?state==open]",  # Azure/azure-cli#474
            'issues[?contains(title, "t5")]',
            "issues[?body!=null && number==true]",
        ]:
            assert why(expression).endswith(
                "; text stands in single quotes, and numbers, true, false and null in backticks"
            )

    def test_an_index_out_of_range_is_told_with_the_length(self):
        assert why("issues[5000].title") == "no [5000] in issues: it has 2,113 items"
        assert why("issues[-9000]") == "no [-9000] in issues: it has 2,113 items"

    def test_what_is_of_another_kind_is_told(self):
        for expression, expected in [
            ("issues.title", "issues is an array of 2,113 items, not an object; [] goes over its items"),
            ("issues.*.title", "issues is an array of 2,113 items, not an object; [] goes over its items"),
            ("[].title", "the whole is an object, not an array; it has issues, total, none"),
            ("issues | length", "issues is an array of 2,113 items, not an object; length(@) is a function"),
            ("total.x", "what stands before it is a number, not an object"),
        ]:
            assert why(expression) == expected, expression

    def test_a_stranger_s_keys_and_values_are_short_and_in_one_line(self):
        odd = {"a\nb": 1, "x" * 5000: 2, "\u202edrow": 3, 'say "hi"': 4, "größe": 5, "\ud800": 6}
        assert why("nothing", odd) == (
            f'no nothing at the top: it has "a\\nb", {"x" * 59}…, "\\u202edrow", "say \\"hi\\"", "größe", "\\ud800"'
        ).replace(f"{'x' * 59}…", f'"{"x" * 59}…"')
        assert why("[?a=='x']", [{"a": "b\n" * 500}]).count("\n") == 0
        assert len(why("nothing", {"\x00" * 60 + str(n): n for n in range(20)})) <= 1000

    def test_at_most_twelve_keys_are_told(self):
        said = why("nothing", {f"k{n}": n for n in range(40)})
        assert said.endswith("k10, k11, …")

    def test_a_long_array_is_looked_at_in_part(self):
        assert why("[?@>`1`]", ["x"] * 300_000).startswith("none of the first ")

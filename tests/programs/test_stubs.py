from __future__ import annotations

import ast
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_utilities.catalog.context import n_tokens
from agent_utilities.errors import InputError
from agent_utilities.programs.stubs import any_stub, arguments_of, compact_text, python_names, stub_of, stubs_text
from tests.programs.tools import TOOLS, stubs

TEXTS = st.text(max_size=40) | st.text(alphabet="\"'\\\n\r\u2028\u202e#()[]{}:=.ab", max_size=40)
KEYS = st.sampled_from(
    "type properties required items enum const anyOf oneOf allOf $ref $defs additionalProperties nullable prefixItems"
    " description default result x-fastmcp-wrap-result patternProperties".split()
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
WORDS = st.sampled_from(["object", "array", "string", "number", "null", "#", "#/$defs/a", "#/properties/a", "result"])
SCHEMAS = st.recursive(
    LEAVES | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | TEXTS | WORDS, inner, max_size=6),
    max_leaves=30,
)


def signature(schema: Any, output: Any = None) -> str:
    """Return what follows a function's name in its stub."""
    return stub_of("t", "t", schema, output).text.removeprefix("async def t").removesuffix(": ...")


def argument(schema: Any) -> str:
    """Return the annotation of an argument with a schema."""
    text = signature({"type": "object", "properties": {"a": schema}, "required": ["a"]})
    return text.removeprefix("(*, a: ").removesuffix(") -> Any")


class TestPythonNames:
    def test_legal_names_stay(self) -> None:
        assert {"list_issues": "list_issues", "查询": "查询"} == python_names(["list_issues", "查询"])

    def test_what_an_identifier_has_not_becomes_an_underscore(self) -> None:
        names = {"git-log": "git_log", "a.b/c": "a_b_c", "9lives": "tool_9lives", "": "tool", "_x": "x"}
        assert names == python_names(list(names))

    @pytest.mark.parametrize("name", ["print", "list", "class", "asyncio", "json", "Any", "None", "__debug__"])
    def test_a_name_that_programs_use_is_no_tools(self, name: str) -> None:
        assert name not in python_names([name]).values()

    def test_a_legal_name_comes_before_one_that_is_made(self) -> None:
        names = {"a-b": "a_b_2", "a.b": "a_b_3", "a_b": "a_b", "list": "list__2", "list_": "list_"}
        assert names == python_names(list(names))

    def test_names_that_python_reads_as_one_differ(self) -> None:
        names = python_names(["find", "\ufb01nd", "\uff46ind"])
        assert 3 == len({unicodedata.normalize("NFKC", name) for name in names.values()})

    def test_what_nobody_sees_is_left_out(self) -> None:
        assert ["re_ad", "re_ad_2"] == list(python_names(["re\u3164ad", "re\ufe0fad"]).values())

    def test_a_thousand_of_one_base_are_numbered(self) -> None:
        names = list(python_names([f"a{'-' * n}b" for n in range(1, 300)]).values())
        assert (299, True) == (len(set(names)), max(map(len, names)) <= 310)

    @settings(max_examples=300)
    @given(st.lists(TEXTS | st.sampled_from(["x(): import os", "a" * 5_000, "list", "list_", "lis\u0301t"])))
    def test_every_name_is_an_identifier_of_its_own(self, names: list[str]) -> None:
        named = python_names(names)
        assert list(dict.fromkeys(names)) == list(named)
        assert len(named) == len({unicodedata.normalize("NFKC", each) for each in named.values()})
        assert all(each.isidentifier() and len(each) < 80 for each in named.values())
        assert named == python_names(names)

    @given(st.lists(TEXTS), st.lists(TEXTS))
    def test_a_legal_name_stays_whatever_the_others_are(self, names: list[str], others: list[str]) -> None:
        legal = {name for name in names if python_names([name])[name] == name}
        assert legal <= {name for name in names if python_names([*others, *names])[name] == name}


class TestArguments:
    @pytest.mark.parametrize(
        ("schema", "annotation"),
        [
            ({"type": "string"}, "str"),
            ({"type": "integer"}, "int"),
            ({"type": "number"}, "float"),
            ({"type": "boolean"}, "bool"),
            ({"type": "null"}, "None"),
            ({"type": "array", "items": {"type": "string"}}, "list[str]"),
            ({"type": "array"}, "list[Any]"),
            ({"type": "array", "prefixItems": [{"type": "string"}]}, "list[Any]"),
            ({"type": "object"}, "dict[str, Any]"),
            ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
            ({"enum": ["a", 1, True, None]}, 'Literal["a", 1, True, None]'),
            ({"const": 'say "hi" \\'}, 'Literal["say \\"hi\\" \\\\"]'),
            ({"enum": ["a\nb"]}, "str"),
            ({"enum": ["x" * 61, 1.5]}, "float | str"),
            ({"enum": [10**5000]}, "int"),
            ({"enum": [f"v{n}" for n in range(41)]}, "str"),
            ({"enum": [[1]]}, "Any"),
            ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "str | None"),
            ({"oneOf": [{"type": "string"}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}]}, "str | int"),
            ({"anyOf": [{"type": "string"}, {}]}, "Any"),
            ({"allOf": [{"type": "string"}]}, "str"),
            ({"allOf": [{"type": "string"}, {"minLength": 1}]}, "Any"),
            ({"type": ["string", "null"]}, "str | None"),
            ({"type": "string", "nullable": True}, "str | None"),
            ({"$ref": "https://example.org/schema"}, "Any"),
            ({"$ref": "#/nowhere"}, "Any"),
            (True, "Any"),
            (None, "Any"),
            ({"type": "strnig"}, "Any"),
        ],
    )
    def test_a_schema_is_an_annotation(self, schema: Any, annotation: str) -> None:
        assert annotation == argument(schema)

    def test_required_ones_come_first_and_others_may_be_left_out(self) -> None:
        schema = {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
            "required": ["b"],
        }
        assert "(*, b: int, a: str = ...) -> Any" == signature(schema)

    def test_one_that_is_required_and_not_described_takes_anything(self) -> None:
        assert "(*, a: Any) -> Any" == signature({"properties": {}, "required": ["a"]})

    def test_a_tool_without_any_takes_none(self) -> None:
        assert "() -> Any" == signature({"type": "object", "properties": {}})

    @pytest.mark.parametrize("schema", [None, True, [], {}, {"type": "object"}, {"properties": {}, "anyOf": [{}]}])
    def test_a_tool_of_which_nothing_is_known_takes_anything(self, schema: Any) -> None:
        assert "(**arguments: Any) -> Any" == signature(schema)

    def test_a_keyword_is_mapped(self) -> None:
        stub = stub_of("t", "t", {"properties": {"from": {}, "a-b": {}, "id": {}, "arguments": {}}}, None)
        assert {"from_": "from", "a_b": "a-b", "id": "id", "arguments": "arguments"} == dict(stub.parameters)

    def test_a_nested_object_is_a_class(self) -> None:
        edits = {"type": "array", "items": {"properties": {"old": {"type": "string"}}, "required": ["old"]}}
        stub = stub_of("t", "t", {"properties": {"edits": edits}}, None)
        assert "async def t(*, edits: list[TEdits] = ...) -> Any: ..." == stub.text
        assert "class TEdits(TypedDict):\n    old: str" == stub.types


class TestResults:
    def test_what_may_be_missing_is_marked(self) -> None:
        stub = stub_of("t", "t", {}, {"properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]})
        assert "class TResult(TypedDict):\n    a: str\n    b: NotRequired[Any]" == stub.types

    def test_what_fastmcp_wrapped_is_unwrapped(self) -> None:
        inner = {"type": "array", "items": {"$ref": "#/$defs/A"}}
        schema = {"properties": {"result": inner}, "$defs": {"A": {"type": "string"}}, "x-fastmcp-wrap-result": True}
        assert signature({}, schema).endswith("-> list[str]")

    def test_a_key_named_result_is_no_wrapper(self) -> None:
        assert signature({}, {"properties": {"result": {"type": "string"}}}).endswith("-> TResult")

    def test_keys_that_are_no_identifiers_are_written_as_text(self) -> None:
        stub = stub_of("t", "t", {}, {"properties": {"a-b": {"type": "string"}, "class": {}}, "required": ["a-b"]})
        assert 'TResult = TypedDict("TResult", {"a-b": str, "class": NotRequired[Any]})' == stub.types

    def test_an_open_object_has_other_keys(self) -> None:
        schema = {"properties": {"a": {"type": "string"}}, "additionalProperties": True}
        assert stub_of("t", "t", {}, schema).types.startswith("class TResult(TypedDict, extra_items=Any):")

    def test_a_recursive_one_ends(self) -> None:
        node = {"properties": {"children": {"type": "array", "items": {"$ref": "#"}}}, "required": ["children"]}
        assert "list[Any]" in stub_of("t", "t", {}, node).types

    def test_classes_of_one_name_are_numbered(self) -> None:
        inner = {"properties": {"a": {}}}
        stub = stub_of("t", "t", {"properties": {"a_b": inner, "aB": inner}}, None)
        assert ["class TAB(TypedDict):", "class TAB_2(TypedDict):"] == stub.types.splitlines()[::2]


class TestBounds:
    def test_a_stub_has_at_most_sixty_parameters(self) -> None:
        stub = stub_of("t", "t", {"properties": {f"p{n}": {} for n in range(100)}}, None)
        assert (60, True) == (len(stub.parameters), "**arguments: Any" in stub.text)

    def test_too_many_keys_are_any(self) -> None:
        schema = {"properties": {f"p{n}": {"type": "string"} for n in range(100)}}
        assert signature({}, schema).endswith("-> dict[str, Any]")

    def test_a_long_result_is_any_and_the_arguments_stay(self) -> None:
        long = {"properties": {f"{n}{'x' * 90}": {"type": "string"} for n in range(50)}}
        assert "(*, a: str = ...) -> Any" == signature({"properties": {"a": {"type": "string"}}}, long)

    def test_references_that_double_end_soon(self) -> None:
        defs = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 8} for n in range(20)}
        assert "Any" in signature({}, {"$ref": "#/$defs/d0", "$defs": defs})

    def test_depth_ends(self) -> None:
        schema: dict[str, Any] = {"type": "string"}
        for _ in range(5_000):
            schema = {"type": "array", "items": schema}
        assert 8 == argument(schema).count("list")

    @settings(max_examples=100)
    @given(TEXTS, SCHEMAS, SCHEMAS, TEXTS)
    def test_no_schema_is_longer(self, name: str, takes: Any, returns: Any, said: str) -> None:
        stub = stub_of(name, python_names([name])[name], takes, returns, said * 50)
        assert len(stub.text) + len(stub.types) <= 4_000


class TestHostileTools:
    @settings(max_examples=500)
    @given(st.lists(st.tuples(TEXTS, SCHEMAS, SCHEMAS, TEXTS), min_size=1, max_size=3, unique_by=lambda each: each[0]))
    def test_the_stubs_are_functions_and_classes_and_nothing_else(self, tools: list[tuple[str, Any, Any, str]]) -> None:
        names = python_names([name for name, *_ in tools])
        own = [stub_of(name, names[name], *rest) for name, *rest in tools]
        for stub in own:
            assert [ast.AsyncFunctionDef] == [type(node) for node in ast.parse(stub.text).body]
            assert all(isinstance(node, ast.ClassDef | ast.Assign) for node in ast.parse(stub.types).body)
        tree = ast.parse(stubs_text(own))
        assert [names[name] for name, *_ in tools] == [x.name for x in tree.body if isinstance(x, ast.AsyncFunctionDef)]
        called = [each for each in ast.walk(tree) if isinstance(each, ast.Call)]
        assert {"TypedDict"} >= {each.func.id for each in called if isinstance(each.func, ast.Name)}
        assert len(own) == len(compact_text(own).splitlines())

    @pytest.mark.parametrize(
        ("said", "shown"),
        [
            ('"""\nimport os', '\\"\\"\\"'),
            ("a\\", "a\\\\"),
            ("\n\n  First. \n Second.", "First."),
            ("a\u202eb\x00c\u200bd", "a b c d"),
            ("x" * 300, "x" * 200),
        ],
    )
    def test_a_description_is_a_line_of_text(self, said: str, shown: str) -> None:
        assert f'async def t(**arguments: Any) -> Any:\n    "{shown}"' == stub_of("t", "t", {}, None, said).text


class TestModule:
    def test_a_class_of_anothers_name_makes_the_later_tool_any(self) -> None:
        schema = {"properties": {"a": {"type": "string"}}}
        own = [stub_of(name, name, {}, schema) for name in ("ab", "Ab")]
        assert stubs_text([own[0], any_stub(own[1])]) == stubs_text(own)

    def test_a_tool_named_like_a_class_is_a_tool(self) -> None:
        own = [stub_of("t", "t", {}, {"properties": {"a": {}}}), stub_of("TResult", "TResult", {}, None)]
        assert "class TResult" not in stubs_text(own)

    def test_the_compact_form_has_a_line_a_tool(self) -> None:
        text = compact_text(stub for stub in stubs() if stub.tool_name in ("tickets.update", "query", "weather"))
        assert text.splitlines() == [
            "query(sql: str, params?: list[str|float|None]) -> list[dict]  # Does query.",
            'tickets_update(id: int, fields: {status?: "todo"|"doing"|"done", assignee?: str|None}) -> '
            '{id: int, status: "todo"|"doing"|"done"}  # Does tickets.update.',
            'weather(lat: float, lon: float, units?: "metric"|"imperial") -> '
            '{temp: float, "wind-speed": float, class?: str, …}  # Does weather.',
        ]

    def test_the_compact_form_takes_a_third_of_the_schemas(self) -> None:
        schemas = sum(n_tokens(repr([*TOOLS[stub.tool_name]])) for stub in stubs())
        assert n_tokens(compact_text(stubs())) < schemas / 3


class TestCalls:
    STUB = stub_of("t", "t", {"properties": {"from": {}, "to": {}}}, None)

    def test_arguments_get_the_tools_names(self) -> None:
        assert {"from": 1, "to": 2} == arguments_of(self.STUB, (), {"from_": 1, "to": 2})

    def test_unknown_ones_stay(self) -> None:
        assert {"x": 1} == arguments_of(self.STUB, (), {"x": 1})

    def test_positional_ones_are_refused(self) -> None:
        with pytest.raises(InputError, match="it takes from_, to"):
            arguments_of(self.STUB, (1,), {})

    def test_two_of_one_name_are_refused(self) -> None:
        with pytest.raises(InputError, match="given twice"):
            arguments_of(self.STUB, (), {"from_": 1, "from": 2})

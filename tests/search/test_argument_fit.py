"""What is wrong with a call's arguments is told from a schema, whoever wrote that, and with the schema."""

from __future__ import annotations

import socket

import pytest

from agent_utilities.search.entry_tools import explained, wrong_arguments

SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"], "additionalProperties": False}


class TestWhatIsTold:
    def test_the_first_argument_that_the_schema_refuses(self) -> None:
        schema = {"properties": {"page": {"type": "integer"}}}
        assert wrong_arguments(schema, {"page": "many"}) == "wrong arguments: page: 'many' is not of type 'integer'"

    def test_an_argument_that_no_schema_knows(self) -> None:
        told = wrong_arguments({"properties": {}, "additionalProperties": False}, {"page": 1})
        assert told == "wrong arguments: Additional properties are not allowed ('page' was unexpected)"

    def test_an_argument_that_is_missing(self) -> None:
        assert wrong_arguments(SCHEMA, {}) == "wrong arguments: 'id' is a required property"

    def test_nothing_where_the_arguments_fit(self) -> None:
        assert wrong_arguments({"required": ["page"]}, {"page": 1}) is None

    def test_two_hundred_characters_of_it_at_most(self) -> None:
        told = wrong_arguments({"properties": {"page": {"type": "integer"}}}, {"page": "x" * 5000})
        assert told is not None
        assert len(told) < 250


class TestAStrangersSchema:
    @pytest.mark.outside
    def test_what_it_refers_to_elsewhere_is_not_fetched(self) -> None:
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            listening.setblocking(False)
            address = f"http://127.0.0.1:{listening.getsockname()[1]}/schema"
            assert wrong_arguments({"properties": {"page": {"$ref": address}}}, {"page": 1}) is None
            try:
                listening.accept()
            except BlockingIOError:
                return
            raise AssertionError("it was fetched")

    def test_no_pattern_is_tried(self) -> None:
        endless, text = "(a+)+$", "a" * 60 + "b"
        schemas = [
            {"properties": {text: {"pattern": endless}}},
            {"patternProperties": {endless: {}}, "additionalProperties": False},
            {"patternProperties": {endless: {}}, "unevaluatedProperties": False},
        ]
        assert [wrong_arguments(schema, {text: text}) for schema in schemas] == [None, None, None]

    def test_one_that_can_not_be_read_tells_nothing(self) -> None:
        schemas = [{"$ref": "#"}, {"$ref": "#/nowhere"}, {"type": 5}, {"properties": 5}, {"allOf": {"a": 1}}]
        assert [wrong_arguments(schema, {"page": 1}) for schema in schemas] == [None] * 5


class TestWithTheSchema:
    def test_an_error_for_other_reasons_is_left_as_it_is(self) -> None:
        assert explained("song_show", "no such song", {"id": "7"}, SCHEMA) is None

    def test_one_that_says_what_is_wrong_gets_the_schema_alone(self) -> None:
        said = "wrong arguments for song_show: 'id' is 7, give text"
        assert str(explained("song_show", said, {"id": 7}, SCHEMA)).startswith('song_show takes: {"type":"object"')

    def test_one_that_does_not_gets_both(self) -> None:
        told = str(explained("song_show", "failed", {}, SCHEMA))
        assert told.startswith("wrong arguments: 'id' is a required property. song_show takes: {")

    def test_a_tool_that_says_so_itself_is_not_contradicted(self) -> None:
        assert explained("song_show", "no such song", {"id": 7}, SCHEMA, is_checked=False) is None
        assert explained("song_show", "Wrong arguments for song_show: 'id'", {"id": 7}, SCHEMA, is_checked=False)


def test_a_schema_that_doubles_with_each_reference_is_not_tried() -> None:
    levels = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(30)}
    assert wrong_arguments({"$ref": "#/$defs/a0", "$defs": {**levels, "a30": {"type": "object"}}}, {}) is None

"""What is wrong with a call's arguments is told from a schema, whoever wrote that."""

from __future__ import annotations

import socket

import pytest

from agent_utilities.mcp.tool_search.wrong_arguments import wrong_arguments


class TestWhatIsTold:
    def test_the_first_argument_that_the_schema_refuses(self) -> None:
        schema = {"properties": {"page": {"type": "integer"}}}
        assert wrong_arguments(schema, {"page": "many"}) == "wrong arguments: page: 'many' is not of type 'integer'"

    def test_an_argument_that_no_schema_knows(self) -> None:
        told = wrong_arguments({"properties": {}, "additionalProperties": False}, {"page": 1})
        assert told == "wrong arguments: Additional properties are not allowed ('page' was unexpected)"

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
        schemas = [{"$ref": "#"}, {"type": 5}, {"properties": 5}, {"allOf": {"a": 1}}]
        assert [wrong_arguments(schema, {"page": 1}) for schema in schemas] == [None] * 4

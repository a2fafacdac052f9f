"""Addresses as errors show them."""

from __future__ import annotations

import pytest

from agent_utilities.errors import SettingsError
from agent_utilities.query.graph.backends import graph_backend
from agent_utilities.runtime.hosts import shown_address
from tests.every import every


@every(
    ("address", "told"),
    [
        ("http://h:7687", "http://h:7687"),
        ("localhost:7687", "localhost:7687"),
        ("bolt://[::1]:7687/db", "bolt://[::1]:7687/db"),
        ("bolt://neo4j:SECRET@h:7687", "bolt://…@h:7687"),
        ("bolt://neo4j:SECR@ET@h", "bolt://…@h"),
        ("neo4j:SECRET@h:7687", "…@h:7687"),
        ("bolt://neo4j:pa/SECRET@h", "[hidden]"),
        ("bolt://neo4j:pa?SECRET@h", "[hidden]"),
        ("bolt://neo4j:SECRET#x@h", "[hidden]"),
        ("bolt://neo4j:12/SECRET@h", "[hidden]"),
        ("bolt://neo4j:SECRET", "[hidden]"),
        ("bolt://h/db?token=SECRET", "[hidden]"),
        ("", "[hidden]"),
    ],
)
def test_have_no_login_and_nothing_that_may_be_one(address: str, told: str) -> None:
    assert shown_address(address) == told


@every("uri", ["neo4j:SECRET@h:7687", "http://neo4j:pa/SECRET@h", "redis://u:SECRET#x@h"])
def test_of_neo4j_are_refused_without_their_passwords(uri: str) -> None:
    with pytest.raises(SettingsError, match="not a Neo4j address") as refused:
        graph_backend("neo4j", "notes", "", {"NEO4J_URI": uri})
    assert "SECRET" not in str(refused.value)

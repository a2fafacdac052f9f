"""A catalog's digest is its identity: every trait of an entry is part of it."""

from __future__ import annotations

from typing import Any

from agent_utilities.catalog.model import Catalog, entry

TRAITS: dict[str, Any] = {"tags": ["read"], "read_only": True, "content": "words", "version": "1", "is_guarded": True}


def digest(kind: Any = "tool", name: str = "ls", **traits: Any) -> str:
    return Catalog((entry(kind, name, **traits),)).digest


def test_equal_entries_have_one_digest() -> None:
    assert digest(**TRAITS) == digest(**TRAITS)


def test_every_trait_is_part_of_it() -> None:
    for trait in TRAITS:
        assert digest(**{trait: TRAITS[trait]}) != digest()


def test_kind_and_name_are_part_of_it() -> None:
    for kind, name in [("prompt", "ls"), ("tool", "Ls")]:
        assert digest(kind, name, read_only=True) != digest(read_only=True)


def test_the_order_is_part_of_it() -> None:
    one, other = entry("tool", "a"), entry("tool", "b")
    assert Catalog((one, other)).digest != Catalog((other, one)).digest

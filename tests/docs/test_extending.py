"""The page on features: its example is the package that it names, and its tables name every method and member."""

from __future__ import annotations

import re
from pathlib import Path

from agent_utilities import Feature, Host
from agent_utilities.seam.host import Operator
from tests.docs.test_readme import example

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")


def members(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def section(title: str) -> str:
    return TEXT[TEXT.index(f"## {title}") :].partition("\n## ")[0]


def test_the_example_is_the_package_and_at_most_sixty_lines() -> None:
    code = (ROOT / "agents" / "office-hours" / "office_hours" / "__init__.py").read_text(encoding="utf-8")
    assert example("office hours", TEXT).strip() == code.strip()
    assert len(code.splitlines()) <= 60


def test_the_tables_name_every_method_and_declaration_and_no_other() -> None:
    methods = {name for name in members(Feature) if callable(getattr(Feature, name))}
    table = section("What a feature can give")
    assert {name for name in methods if f"`{name}(" not in table} == set()
    assert len(methods - {"needed"}) <= 20
    assert set(re.findall(r"`(\w+)\(", table)) - {"Narrowing", "Grant", "replace"} <= methods

    declared = {name for name in members(Feature) if not callable(getattr(Feature, name))}
    assert {name for name in declared if f"`{name}`" not in section("What a feature declares")} == set()


def test_the_table_names_every_member_of_the_host_and_there_are_few() -> None:
    table = section("What a feature gets of the server")
    assert {name for name in members(Host) if f"`{name}" not in table} == set()
    assert {name for name in members(Operator) if f"`{name}" not in table} == set()
    assert len(members(Host)) + len(members(Operator)) <= 25

"""A skill names capabilities in its frontmatter, and nothing that it may hold instead does any harm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.capabilities.frontmatter import MAX_CHARACTERS, MAX_ENTRY_CHARACTERS, MAX_NAMES, capabilities_of


def skill(frontmatter: str, body: str = "# Review\n") -> str:
    return f"---\n{frontmatter}\n---\n{body}"


@pytest.mark.parametrize(
    "written",
    [
        "browser sqlite",
        "browser, sqlite",
        "browser,sqlite",
        "[browser, sqlite]",
        "\n  - browser\n  - sqlite",
        "'browser sqlite'",
        "browser  sqlite browser",
        ">\n  browser\n  sqlite",
        "[browser, [nested], sqlite]",
    ],
)
def test_names_are_a_text_or_a_list(written: str) -> None:
    assert capabilities_of(skill(f"name: review\ncapabilities: {written}\ndescription: x")) == ("browser", "sqlite")


def test_a_quoted_key_counts_too() -> None:
    assert capabilities_of(skill('"capabilities": browser')) == ("browser",)


def test_words_that_yaml_takes_for_other_values_stay_names() -> None:
    assert capabilities_of(skill("capabilities: [yes, 1.10, 2026-01-02, null]")) == (
        "yes",
        "1.10",
        "2026-01-02",
        "null",
    )


@pytest.mark.parametrize("text", ["\ufeff---\ncapabilities: a\n---\n", "---\r\ncapabilities: a\r\n---\r\nbody\r\n"])
def test_a_byte_order_mark_and_other_line_ends_are_read(text: str) -> None:
    assert capabilities_of(text) == ("a",)


def test_a_frontmatter_may_be_the_whole_text() -> None:
    assert capabilities_of("---\ncapabilities: a\n---") == ("a",)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "---",
        "capabilities: a",
        "---\ncapabilities: a\n",
        "\n---\ncapabilities: a\n---\n",
        "# Title\n---\ncapabilities: a\n---\n",
        "----\ncapabilities: a\n---\n",
        skill("name: x", "capabilities: a\n---\n"),
        skill("metadata:\n  capabilities: a"),
        skill("Capabilities: a"),
        skill("capabilities:"),
        skill("capabilities: {a: b}"),
        skill("capabilities: '  '"),
        skill("- capabilities: a"),
        skill("capabilities: a: b: c"),
        skill("capabilities: [a"),
        skill("capabilities: \x00"),
        skill("capabilities: ../../etc/passwd"),
        skill(f"capabilities: {'a' * 200}"),
    ],
)
def test_nonsense_names_nothing(text: str) -> None:
    assert capabilities_of(text) == ()


def test_a_tag_makes_nothing() -> None:
    assert capabilities_of(skill("x: !!python/object/apply:os.system [exit 1]\ncapabilities: a")) == ("a",)


def test_aliases_and_merges_are_not_followed() -> None:
    levels = [f"b{n + 1}: &b{n + 1} {{<<: [{', '.join([f'*b{n}'] * 9)}]}}" for n in range(40)]
    assert capabilities_of(skill("\n".join(["b0: &b0 {x: y}", *levels, "capabilities: a"]))) == ("a",)


def test_what_is_wrong_elsewhere_costs_nothing() -> None:
    assert capabilities_of(skill("description: Review: do it\ncapabilities: a\ntags: [x")) == ("a",)


def test_deep_nesting_names_nothing() -> None:
    assert capabilities_of(skill(f"capabilities: {'[' * 1000}")) == ()


def test_a_list_at_the_margin_ends_where_the_next_key_begins() -> None:
    assert capabilities_of(skill("capabilities:\n- a\n\n- b\nname: c\n- d")) == ("a", "b")


def test_no_more_than_so_many_names_count() -> None:
    names = [f"c{n}" for n in range(MAX_NAMES + 5)]
    assert capabilities_of(skill(f"capabilities: {' '.join(names)}")) == tuple(names[:MAX_NAMES])


def test_an_entry_that_is_too_long_is_not_read() -> None:
    assert capabilities_of(skill(f"capabilities: a {'b ' * MAX_ENTRY_CHARACTERS}")) == ()


def test_a_frontmatter_that_is_too_long_is_not_read() -> None:
    assert capabilities_of(skill(f"x: {'y' * MAX_CHARACTERS}\ncapabilities: a")) == ()


@given(st.text())
def test_no_frontmatter_raises(frontmatter: str) -> None:
    assert isinstance(capabilities_of(skill(f"capabilities: {frontmatter}")), tuple)

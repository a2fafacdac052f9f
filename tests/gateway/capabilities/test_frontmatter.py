"""A skill names capabilities in its frontmatter, and nothing that it may hold instead does any harm."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.gateway.capabilities.feature import MAX_CHARACTERS, MAX_NAMES, capabilities_of


def skill(frontmatter: str, body: str = "# Review\n") -> str:
    return f"---\n{frontmatter}\n---\n{body}"


def test_names_are_a_text_or_a_list() -> None:
    for written in [
        "browser sqlite",
        "browser, sqlite",
        "browser,sqlite",
        "[browser, sqlite]",
        "\n  - browser\n  - sqlite",
        "'browser sqlite'",
        "browser  sqlite browser",
        ">\n  browser\n  sqlite",
        "browser sqlite  # and what they need",
    ]:
        text = skill(f"name: review\ncapabilities: {written}\ndescription: x")
        assert capabilities_of(text) == ("browser", "sqlite"), written


def test_words_that_yaml_takes_for_other_values_stay_names() -> None:
    names = ("yes", "1.10", "2026-01-02", "null")
    assert capabilities_of(skill(f"capabilities: [{', '.join(names)}]")) == names


def test_a_byte_order_mark_other_line_ends_and_a_quoted_key_are_read() -> None:
    for text in [
        "\ufeff---\ncapabilities: a\n---\n",
        "---\r\ncapabilities: a\r\n---\r\nbody\r\n",
        "---\ncapabilities: a\n---",
        skill('"capabilities": a'),
    ]:
        assert capabilities_of(text) == ("a",), text


def test_nonsense_names_nothing() -> None:
    for text in [
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
        skill("capabilities: \x00"),
        skill("capabilities: ../../etc/passwd"),
        skill(f"capabilities: {'a' * 200}"),
        skill(f"capabilities: {'[' * 1000}"),
        skill(f"x: {'y' * MAX_CHARACTERS}\ncapabilities: a"),
    ]:
        assert capabilities_of(text) == (), text


def test_tags_aliases_and_merges_make_nothing() -> None:
    assert capabilities_of(skill("x: !!python/object/apply:os.system [exit 1]\ncapabilities: a")) == ("a",)
    levels = [f"b{n + 1}: &b{n + 1} {{<<: [{', '.join([f'*b{n}'] * 9)}]}}" for n in range(40)]
    assert capabilities_of(skill("\n".join(["b0: &b0 {x: y}", *levels, "capabilities: a"]))) == ("a",)


def test_what_is_wrong_elsewhere_costs_nothing() -> None:
    assert capabilities_of(skill("description: Review: do it\ncapabilities: a\ntags: [x")) == ("a",)
    assert capabilities_of(skill("capabilities:\n- a\n\n- b\nname: c\n- d")) == ("a", "b")


def test_no_more_than_so_many_names_count() -> None:
    names = [f"c{n}" for n in range(MAX_NAMES + 5)]
    assert capabilities_of(skill(f"capabilities: {' '.join(names)}")) == tuple(names[:MAX_NAMES])


@given(st.text())
def test_no_frontmatter_raises(frontmatter: str) -> None:
    assert isinstance(capabilities_of(skill(f"capabilities: {frontmatter}")), tuple)

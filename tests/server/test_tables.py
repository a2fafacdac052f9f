"""Tables on a terminal: names stay in one piece, and nothing is lost or stands over the edge."""

from __future__ import annotations

import io
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

import agent_utilities
from agent_utilities.server.command_line.terminal import NamesTable
from tests.every import every

WORDS = st.text(st.sampled_from("ab_-.,=/ 7語"), max_size=40)
NAME = "kubernetes_list_namespaced_pods"
REASON = "denied in its configuration (/home/someone/servers.json: mcpServers.fresh.excludeTools)"


def printed(table: NamesTable, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), emoji=False)
    console.print(table)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def listed(width: int) -> list[str]:
    table = NamesTable("a [green]title[/]", "name", "verdict", "reason", "tags", "≈ tokens")
    table.add_row(NAME, "[red]denied[/]", REASON, "kubernetes, read, cluster", "1,234")
    table.add_row("git_log", "visible", "", "git", "12")
    return printed(table, width)


class TestNames:
    def test_are_whole_on_80_columns_and_texts_are_wrapped_by_words(self) -> None:
        title, *lines = listed(80)
        assert title == "a title"
        assert any(line.startswith(f"{NAME}  denied   denied in its ") for line in lines)
        assert all(f" {tag}" in " ".join(lines) for tag in ("kubernetes,", "read,", "cluster"))

    @every("name", ["playwright_browser_take_screenshot", f"github-enterprise_{NAME}", "n" * 79])
    def test_are_whole_on_80_columns_however_many_columns_are_beside_them(self, name: str) -> None:
        table = NamesTable("", "server", "transport", "state", "tools", "permitted", "≈ tokens", "seconds")
        table.add_row(name, "stdio", "waits for a login", "1,024", "1,000", "451,000", "1.25")
        lines = printed(table, 80)
        assert (lines[0], lines[2].rstrip()) == (
            "server  transport  state  tools  permitted  ≈ tokens  seconds".ljust(80).rstrip(),
            name,
        )
        assert lines[3].rstrip().split("  ")[1:] == ["stdio", "waits for a login", "1,024", "1,000", "451,000", "1.25"]

    def test_are_broken_where_there_is_no_other_way(self) -> None:
        assert NAME in "".join(line.split("  ")[0] for line in listed(40))


def test_numbers_are_flush_right() -> None:
    assert [line[-8:] for line in listed(120)[1:] if line.startswith((NAME, "git_log"))] == ["   1,234", "      12"]


@every(("width", "is_drawn"), [(20, True), (12, False)])
def test_charts_are_left_out_before_a_name_is_broken(width: int, is_drawn: bool) -> None:
    table = NamesTable("", "name", "")
    table.add_row("read_files", Text("████"))
    text = "\n".join(printed(table, width))
    assert ("████" in text, "read_files" in text) == (is_drawn, True)


@given(rows=st.lists(st.tuples(WORDS, WORDS, WORDS), max_size=4), width=st.integers(20, 90))
def test_nothing_is_lost_and_nothing_stands_over_the_edge(rows: list[tuple[str, str, str]], width: int) -> None:
    table = NamesTable("", "one", "two", "three")
    for row in rows:
        table.add_row(*map(Text, row))
    lines = printed(table, width)
    assert max(map(cell_len, lines)) <= width
    given_text = "".join(cell for row in rows for cell in row)
    assert sorted("".join(lines[2:]).replace(" ", "")) == sorted(given_text.replace(" ", ""))


def test_every_command_prints_its_tables_alike() -> None:
    package = Path(agent_utilities.__file__).parent
    using = [path.name for path in package.rglob("*.py") if "rich.table" in path.read_text(encoding="utf-8")]
    assert using == ["terminal.py"]

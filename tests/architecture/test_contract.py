"""The pages and the code lead to one another: laws, links and the files that pages name."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.house import rooms
from tests.every import every

ROOT = Path(__file__).parents[2]
DESIGN = ROOT / "docs" / "design.md"
PAGES = [*sorted(ROOT.glob("docs/**/*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
_FOLDERS = ("agent_utilities", "demo", "tests", "benchmarks")
CODE = [path for folder in _FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
_LAWS = re.compile(r"\blaws?\s+(L\d+(?:(?:, | and | to )L\d+)*)", re.IGNORECASE)
_LINK = re.compile(r"\]\((?!https?:)([^)\s]+)\)")


def without_code(text: str) -> str:
    """Return a page without its fenced blocks, whose `#` lines are no headings."""
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """Return the anchors that a page's headings make: lower case, punctuation out, spaces to dashes."""
    headings = re.findall(r"^#+ (.+)$", without_code(path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def laws_named(text: str) -> set[str]:
    """Return the laws that a text names: `law L1`, `laws L2, L3`."""
    return {law for names in _LAWS.findall(text) for law in re.findall(r"L\d+", names)}


def is_broken(page: Path, link: str) -> bool:
    """Whether a page's relative link names a file, or a heading in it, that is not there."""
    name, _, anchor = link.partition("#")
    target = page.parent / name if name else page
    return not target.exists() or (anchor != "" and target.suffix == ".md" and anchor not in anchors(target))


class TestLaws:
    def test_every_law_that_code_names_is_a_heading_of_the_design(self) -> None:
        stated = set(re.findall(r"^### (L\d+) ", DESIGN.read_text(encoding="utf-8"), re.MULTILINE))
        named = {path.name: laws_named(path.read_text(encoding="utf-8")) - stated for path in CODE}
        assert {name: laws for name, laws in named.items() if laws and name != Path(__file__).name} == {}

    def test_there_are_eight(self) -> None:
        assert laws_named("laws L1, L2, L3, L4, L5, L6, L7 and L8") == set(
            re.findall(r"^### (L\d+) ", DESIGN.read_text(encoding="utf-8"), re.MULTILINE)
        )

    def test_a_law_that_is_nowhere_stated_is_told_of(self) -> None:
        assert laws_named("(law L9), and laws L1 and L10") == {"L9", "L1", "L10"}


class TestLinks:
    @every("page", PAGES)
    def test_every_relative_link_leads_somewhere(self, page: Path) -> None:
        links = _LINK.findall(without_code(page.read_text(encoding="utf-8")))
        assert [link for link in links if is_broken(page, link)] == []

    def test_a_link_to_a_heading_that_is_not_there_is_told_of(self) -> None:
        assert is_broken(DESIGN, "#l9-nowhere")
        assert is_broken(DESIGN, "nowhere.md")
        assert not is_broken(DESIGN, "#l1-nested")

    @every("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
    def test_the_design_is_linked_from(self, page: Path) -> None:
        assert "](docs/design.md" in page.read_text(encoding="utf-8")


class TestRooms:
    def test_the_designs_table_has_those_of_the_contract_from_top_to_bottom(self) -> None:
        section = DESIGN.read_text(encoding="utf-8").partition("## Rooms and floors")[2].partition("\n### ")[0]
        cells = re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE)
        named = [name.removesuffix(".py") for cell in cells for name in re.findall(r"`(\w+(?:\.py)?)/?`", cell)]
        assert named == rooms()


class TestPaths:
    def test_every_test_and_benchmark_that_the_design_names_is_there(self) -> None:
        named = re.findall(r"`((?:tests|benchmarks|agent_utilities)/[\w./]+)`", DESIGN.read_text(encoding="utf-8"))
        assert [path for path in named if not (ROOT / path).exists()] == []

    def test_every_class_that_holds_a_law_is_there(self) -> None:
        laws = (ROOT / "tests/laws/test_laws.py").read_text(encoding="utf-8")
        named = re.findall(r"`(TestL\d\w+)`", DESIGN.read_text(encoding="utf-8"))
        assert named
        assert [name for name in named if f"class {name}" not in laws] == []

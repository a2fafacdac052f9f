"""What a release says of itself, from `pyproject.toml`, the changelog and `server.json`."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from agent_utilities.moved import _ROOMS
from releasing import CheckError, Project, filled_in, missing, notes, read_project, rename, section, steps
from tests.every import every

ROOT = Path(__file__).parents[2]
PROJECT = read_project((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CHANGELOG = """# Changelog

## [Unreleased]

## [2.1.0] - 2026-12-01

### Added
- Programs.

## [2.0.0] - 2026-11-01

- The first.
"""
NAMED = replace(PROJECT, version="2.1.0", name="some-name", registry_name="io.github.somebody/some-name")
OLD_PATHS = {"mcp": "server", "features": ""}


class TestProject:
    def test_is_asked_for_a_name_and_has_none_yet(self) -> None:
        assert (PROJECT.name, PROJECT.built_as) == ("", "agent-utilities")

    def test_pins_what_builds_it_and_all_of_it_exactly(self) -> None:
        assert PROJECT.build_constraints[0].startswith("hatchling==")
        assert [line for line in PROJECT.build_constraints if "==" not in line] == []

    def test_is_for_every_python_from_the_oldest(self) -> None:
        assert PROJECT.pythons[:2] == ("3.11", "3.12")


class TestMissing:
    def test_is_nothing_where_all_is_said(self) -> None:
        assert missing(NAMED, CHANGELOG) == []

    @every(
        ("project", "changelog", "told"),
        [
            (replace(NAMED, name=""), CHANGELOG, "nobody has said under which name: "),
            (replace(NAMED, name="Agent_Utilities"), CHANGELOG, "the name 'Agent_Utilities' is somebody else's"),
            (replace(NAMED, registry_name=""), CHANGELOG, "nobody has said under which name in the MCP registry"),
            (NAMED, CHANGELOG.replace("## [2.1.0]", "- More.\n\n## [2.1.0]"), "CHANGELOG.md has entries under"),
        ],
        ids=["no name", "another's", "no name in the registry", "unreleased"],
    )
    def test_is_told_in_a_line(self, project: Project, changelog: str, told: str) -> None:
        assert [line[: len(told)] for line in missing(project, changelog)] == [told]


class TestNotes:
    def test_are_the_part_of_the_changelog_alone(self) -> None:
        assert notes(CHANGELOG, NAMED, {}) == "### Added\n- Programs.\n"

    def test_of_the_oldest_version_end_with_the_file(self) -> None:
        assert section(CHANGELOG, "2.0.0") == "- The first."

    def test_a_dot_of_a_version_is_no_wildcard(self) -> None:
        assert section(CHANGELOG, "2.1x0") == section(CHANGELOG.replace("2.1.0", "2x1y0"), "2.1.0") == ""

    def test_name_old_paths_and_the_version_they_end_with(self) -> None:
        told = notes(CHANGELOG, NAMED, OLD_PATHS)
        assert f"### Ends with {NAMED.old_paths_end}\n" in told
        assert "- `agent_utilities.mcp` is `agent_utilities.server`\n" in told
        assert "- `agent_utilities.features` is `agent_utilities`\n" in told

    def test_are_of_what_is_not_released_as_long_as_there_is_any(self) -> None:
        assert notes(CHANGELOG.replace("## [2.1.0]", "- More.\n\n## [2.1.0]"), NAMED, {}) == "- More.\n"

    def test_a_version_without_any_is_refused(self) -> None:
        with pytest.raises(CheckError, match=r"says nothing of 2\.1\.1"):
            notes(CHANGELOG, replace(NAMED, version="2.1.1"), {})

    @every("version", ["2.2.0", "2.10.0", "3.0.0"])
    def test_old_paths_that_should_have_gone_are_refused(self, version: str) -> None:
        with pytest.raises(CheckError, match="old paths end with"):
            notes(
                CHANGELOG.replace("2.1.0", version), replace(NAMED, version=version, old_paths_end="2.2.0"), OLD_PATHS
            )

    def test_of_this_repository_can_be_cut(self) -> None:
        told = notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), PROJECT, _ROOMS)
        assert len(told) > 1000


class TestServerJson:
    TEMPLATE = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))

    def test_has_the_version_of_the_project(self) -> None:
        assert filled_in(self.TEMPLATE, PROJECT) == self.TEMPLATE

    def test_gets_its_names_and_version(self) -> None:
        told = filled_in(self.TEMPLATE, NAMED)
        assert (told["name"], told["version"]) == ("io.github.somebody/some-name", "2.1.0")
        assert (told["packages"][0]["identifier"], told["packages"][0]["version"]) == ("some-name", "2.1.0")

    def test_names_no_package_that_somebody_could_publish(self) -> None:
        assert self.TEMPLATE["packages"][0]["identifier"] == "(not published yet)"
        assert self.TEMPLATE["name"].startswith("com.example/")

    def test_keeps_to_the_lengths_of_the_registry(self) -> None:
        # The whole schema of 2025-12-11 is what `tasks.py release --check` reads it by.
        assert 1 <= len(self.TEMPLATE["description"]) <= 100
        assert 1 <= len(self.TEMPLATE["title"]) <= 100


class TestRename:
    def tree(self, folder: Path) -> Path:
        for name in ("pyproject.toml", "README.md", "agent_utilities/cli/new.py", "agent_utilities/__init__.py"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
        return folder

    def test_is_of_the_package_of_its_program_and_of_its_version(self, tmp_path: Path) -> None:
        tree = self.tree(tmp_path)
        rename(tree, NAMED)
        project = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        assert (project["name"], set(project["scripts"])) == ("some-name", {"agent-utilities", "some-name"})
        assert 'version("some-name")' in (tree / "agent_utilities/__init__.py").read_text(encoding="utf-8")
        assert 'PUBLISHED_AS = "some-name"' in (tree / "agent_utilities/cli/new.py").read_text(encoding="utf-8")

    def test_says_whose_entry_in_the_registry_is_wanted(self, tmp_path: Path) -> None:
        tree = self.tree(tmp_path)
        rename(tree, NAMED)
        assert "mcp-name: io.github.somebody/some-name " in (tree / "README.md").read_text(encoding="utf-8")

    def test_without_a_name_changes_nothing(self, tmp_path: Path) -> None:
        tree = self.tree(tmp_path)
        rename(tree, PROJECT)
        assert (tree / "README.md").read_text(encoding="utf-8") == (ROOT / "README.md").read_text(encoding="utf-8")

    def test_a_place_that_moved_is_told(self, tmp_path: Path) -> None:
        tree = self.tree(tmp_path)
        (tree / "agent_utilities/cli/new.py").write_text("", encoding="utf-8")
        with pytest.raises(CheckError, match=r"new\.py does not say 'PUBLISHED_AS"):
            rename(tree, NAMED)


def test_steps_of_a_dockerfile_are_its_commands_in_order() -> None:
    text = "FROM x\n# RUN not\nRUN a && b \\\n    && c   d\nCOPY . .\nRUN e\n"
    assert steps(text) == ["a", "b", "c d", "e"]

"""The package's version stands in one place, and the changelog knows it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import agent_utilities

ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
CODE = [path for path in sorted((ROOT / "agent_utilities").rglob("*")) if path.suffix in (".py", ".cypher")]


def test_the_version_is_that_of_the_installed_package() -> None:
    assert agent_utilities.__version__ == VERSION


def test_no_code_repeats_it() -> None:
    assert [path.name for path in CODE if f'"{VERSION}"' in path.read_text(encoding="utf-8")] == []


def test_the_metadata_are_not_read_before_they_are_asked_for() -> None:
    code = "import agent_utilities; print('__version__' in vars(agent_utilities))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_changelog_has_a_heading_for_it_with_its_date() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[([^\]]+)\](?: - (\d{4}-\d\d-\d\d))?$", text, re.MULTILINE)
    assert headings[0] == ("Unreleased", "")
    assert (VERSION, True) in [(name, bool(date)) for name, date in headings]


def test_every_public_name_is_there() -> None:
    assert [name for name in agent_utilities.__all__ if not hasattr(agent_utilities, name)] == []
    assert set(agent_utilities.__all__) <= set(dir(agent_utilities))

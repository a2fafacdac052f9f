"""On package indexes `agent-utilities` is somebody else's: nothing here has it installed by that name."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from agent_utilities.cli import new
from agent_utilities.cli.new import make_package
from tests.every import every

ROOT = Path(__file__).parents[2]
_NAME = r"""["'\s]agent[-_]utilities(?![\w./-])"""
_PROGRAMS, _DOES = "pip3?|pipx|uvx?|poetry|pdm|conda|hatch", "install|add|download|run|wheel|--from|--with"
BY_NAME = re.compile(
    rf"""
    \bagent[-_]utilities\[                                        # an extra of it
    | \b({_PROGRAMS})\b[^`\n&;|]*(?<![\w-])({_DOES})\b[^`\n&;|.]*{_NAME}
    | \buvx{_NAME}                                                # but not `uvx --from . agent-utilities`
    | \binstall(s|ing)?\s`?agent[-_]utilities\b(?!\s(from|beside))
    | pypi\.org/project/agent[-_]utilities
    """,
    re.VERBOSE | re.IGNORECASE,
)
READ = [
    *(path for path in (ROOT / "agent_utilities").rglob("*") if path.suffix in (".py", ".tmpl", ".toml", ".sh", ".md")),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "agents").glob("*/README.md"),
    *(ROOT / "graph").rglob("*.md"),
    *(ROOT / "deploy").rglob("*.y*ml"),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "Dockerfile", "docker-compose.yml")),
]


def told_in(text: str) -> list[str]:
    return [found.group() for found in BY_NAME.finditer(text)]


@every(
    "text",
    [
        "pip install agent-utilities",
        "install agent-utilities[minilm]",
        "pip install 'agent-utilities[plot]'",
        "python -m pip install -U agent_utilities",
        "uv add agent-utilities",
        "uv tool install agent-utilities",
        "uvx agent-utilities gateway",
        "uvx --from agent-utilities agent-utilities gateway",
        "uv run --with agent-utilities python",
        "pipx run agent-utilities",
    ],
)
def test_what_installs_it_by_name_is_known(text: str) -> None:
    assert told_in(text) != []


@every(
    "text",
    [
        "uvx --from . agent-utilities gateway",
        "uv tool install . && agent-utilities gateway",
        "`agent-utilities embeddings install`",
        "pip install ./agent-utilities-clone",
        "agent-utilities connect --install",
    ],
)
def test_what_does_not_is_let_through(text: str) -> None:
    assert told_in(text) == []


def test_no_page_hint_error_or_template_tells_to() -> None:
    told = {str(path.relative_to(ROOT)): found for path in READ if (found := told_in(path.read_text(encoding="utf-8")))}
    assert told == {}


def dependencies_of(folder: Path) -> list[str]:
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return list(project["dependencies"])


def test_a_new_package_does_not_depend_on_it_by_a_name_that_is_not_its_own(tmp_path: Path) -> None:
    assert new.PUBLISHED_AS == ""
    assert dependencies_of(make_package("weather-agent", tmp_path)) == []


def test_a_new_package_depends_on_the_name_that_it_is_published_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new, "PUBLISHED_AS", "another-name")
    assert dependencies_of(make_package("weather-agent", tmp_path)) == ["another-name>=2.0,<3"]

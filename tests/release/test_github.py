"""What GitHub reads: workflows and issue forms. None of it was run there, so each says so."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import release
from releasing import read_project
from tasks import ROOT, TASKS
from tests.every import every

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = [path for path in sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")) if path.name != "config.yml"]
PROJECT = read_project((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def commands(path: Path) -> list[str]:
    return [step["run"] for job in read(path)["jobs"].values() for step in job["steps"] if "run" in step]


class TestWorkflows:
    def test_are_for_tests_docs_the_package_and_the_image(self) -> None:
        assert [path.stem for path in WORKFLOWS] == ["docs", "image", "publish", "tests"]

    @every("path", WORKFLOWS)
    def test_say_first_that_they_are_untried(self, path: Path) -> None:
        assert path.read_text(encoding="utf-8").startswith("# UNTRIED: ")

    @every("path", WORKFLOWS)
    def test_may_only_read_but_for_jobs_that_say_what_else(self, path: Path) -> None:
        assert read(path)["permissions"] == {"contents": "read"}

    @every("path", WORKFLOWS)
    def test_end_each_job_in_time(self, path: Path) -> None:
        assert [name for name, job in read(path)["jobs"].items() if "timeout-minutes" not in job] == []

    @every("path", WORKFLOWS)
    def test_put_no_text_of_others_into_a_command(self, path: Path) -> None:
        assert [command for command in commands(path) if "${{" in command] == []

    @every("path", WORKFLOWS)
    def test_run_tasks_that_are_there(self, path: Path) -> None:
        named = re.findall(r"tasks\.py ([a-z-]+)", "\n".join(commands(path)))
        assert set(named) <= set(TASKS)

    def test_have_every_python_on_three_systems(self) -> None:
        matrix = read(ROOT / ".github/workflows/tests.yml")["jobs"]["fast"]["strategy"]["matrix"]
        assert matrix["python"] == list(PROJECT.pythons)
        assert [name.partition("-")[0] for name in matrix["os"]] == ["ubuntu", "macos", "windows"]

    def test_publish_without_a_token_that_is_kept(self) -> None:
        text = (ROOT / ".github/workflows/publish.yml").read_text(encoding="utf-8")
        assert "secrets." not in text
        assert read(ROOT / ".github/workflows/publish.yml")["jobs"]["package"]["permissions"] == {"id-token": "write"}

    @pytest.mark.outside
    def test_are_what_actionlint_takes(self) -> None:
        try:
            program = release.actionlint()
        except release.UntriedError as error:
            pytest.skip(str(error))
        command = [str(program), "-shellcheck=", "-pyflakes=", *map(str, WORKFLOWS)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


class TestForms:
    @every("path", FORMS)
    def test_have_what_github_wants_of_them(self, path: Path) -> None:
        form = read(path)
        assert form.keys() == {"name", "description", "body"}
        asked = [field for field in form["body"] if field["type"] != "markdown"]
        assert {field["type"] for field in asked} <= {"textarea", "input", "dropdown", "checkboxes"}
        assert len({field["id"] for field in asked}) == len(asked) > 0
        assert [field for field in asked if not field["attributes"]["label"]] == []

    def test_lead_away_whoever_has_found_a_hole(self) -> None:
        assert "SECURITY.md" in (ROOT / ".github/ISSUE_TEMPLATE/bug.yml").read_text(encoding="utf-8")


@every("path", [ROOT / "SECURITY.md", *FORMS])
def test_nobody_is_named_who_may_not_be_there(path: Path) -> None:
    assert re.findall(r"[\w.+-]+@[\w-]+\.\w+", path.read_text(encoding="utf-8")) == []

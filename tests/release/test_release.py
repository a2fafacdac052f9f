"""`python3 tasks.py release --check`, the whole of it, on the last commit; and what it makes under another name."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import release
from releasing import read_project
from tasks import ROOT, found_pythons

PROJECT = read_project((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]


def test_checks_pass_and_what_is_waited_for_is_told() -> None:
    done = subprocess.run(
        [sys.executable, "release.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "\nFAILED " in f"\n{done.stdout}") == (0, False), done.stdout + done.stderr
    assert "\nnot ready: nobody has said under which name: " in done.stdout


def test_it_runs_under_whatever_name_it_is_published_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "DIST", tmp_path)
    named = replace(PROJECT, name="another-name", registry_name="io.github.somebody/another-name")
    assert "another_name-" in release.check_builds(named)
    version = f"3.{sys.version_info.minor}"
    release.check_installed(named, version, found_pythons()[version], tmp_path / "list.cdx.json")
    assert release.check_sbom(named, tmp_path / "list.cdx.json")
    assert release.check_server_json(named)

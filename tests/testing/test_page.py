"""The example of docs/authors.md, run as written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import agent_utilities.testing
from agent_utilities.cli.new import make_package

PAGE = Path(__file__).parents[2] / "docs" / "authors.md"
TEXT = PAGE.read_text(encoding="utf-8")


@pytest.mark.outside  # it runs pytest in a process of its own
def test_its_tests_pass_in_a_new_package_with_no_plugin_but_what_that_brings(tmp_path: Path) -> None:
    (code,) = re.findall(r"<!-- example: testing -->\n```python\n(.*?)```", TEXT, re.DOTALL)
    folder = make_package("notes-agent", tmp_path)
    (folder / "tests" / "test_page.py").write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "anyio", "-p", "no:cacheprovider", "tests/test_page.py"],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_it_names_every_fake() -> None:
    missing = [name for name in agent_utilities.testing.__all__ if f"`{name}(" not in TEXT]
    assert missing == []

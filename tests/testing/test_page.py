"""The example of docs/authors.md, run as written."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import agent_utilities.testing

PAGE = Path(__file__).parents[2] / "docs" / "authors.md"
TEXT = PAGE.read_text(encoding="utf-8")


@pytest.mark.anyio
async def test_its_tests_pass() -> None:
    (code,) = re.findall(r"<!-- example: testing -->\n```python\n(.*?)```", TEXT, re.DOTALL)
    scope: dict[str, object] = {}
    exec(compile(code, str(PAGE), "exec"), scope)
    tests = [value for name, value in scope.items() if name.startswith("test_") and inspect.iscoroutinefunction(value)]
    for test in tests:
        await test()
    assert len(tests) == 2


def test_it_names_every_fake() -> None:
    missing = [name for name in agent_utilities.testing.__all__ if f"`{name}(" not in TEXT]
    assert missing == []

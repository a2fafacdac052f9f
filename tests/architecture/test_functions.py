"""Functions that fit on a screen."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.every import every

ROOT = Path(__file__).parents[2]
LONGEST = 50


def functions_over(limit: int, folder: Path) -> list[str]:
    """Return the functions under a folder that take more lines than the limit, decorators aside."""
    return [
        f"{path.name}: {node.name} takes {length} lines"
        for path in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > limit
    ]


@every("folder", ["agent_utilities", "agents", "benchmarks", "demo"])
def test_no_function_takes_more_than_50_lines(folder: str) -> None:
    assert functions_over(LONGEST, ROOT / folder) == []


def test_a_longer_one_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("def fits():\n" + "    pass\n" * 49 + "def long():\n" + "    pass\n" * 50)
    assert functions_over(LONGEST, tmp_path) == ["long.py: long takes 51 lines"]

"""The house: small files, and the words of the design."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "agent_utilities").rglob("*.py"))
BANNED = re.compile(r"manager|helper|util(?!ities)|engine|filter", re.IGNORECASE)


def length(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


class TestFiles:
    def test_none_is_over_400_lines(self):
        assert [path.name for path in FILES if length(path) > 400] == []

    @pytest.mark.parametrize("agent", ["git", "filesystem", "logs"])
    def test_an_agents_server_takes_at_most_40_lines(self, agent):
        assert length(ROOT / f"agents/{agent}-agent/{agent}_agent/server.py") <= 40


class TestWords:
    def test_no_file_or_definition_bears_a_banned_word(self):
        agents = [path for path in ROOT.glob("agents/*/*_agent/*.py")]
        found = [f"{path.name}: {name}" for path in (*FILES, *agents) for name in _names(path) if BANNED.search(name)]
        assert found == []


def _names(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [path.stem, *(node.name for node in ast.walk(tree) if isinstance(node, defined))]

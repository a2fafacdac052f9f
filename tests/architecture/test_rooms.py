"""The house: no file too long to be read from top to bottom."""

from __future__ import annotations

from pathlib import Path

from tests.every import every

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "agent_utilities").rglob("*.py"))


def length(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


class TestFiles:
    def test_none_is_over_400_lines(self):
        # The one class above FastMCP may have more: every method that it answers for is told once, there.
        assert [path.name for path in FILES if length(path) > (460 if path.name == "agent_server.py" else 400)] == []

    @every("agent", ["git", "filesystem", "logs"])
    def test_an_agents_server_takes_at_most_40_lines(self, agent):
        assert length(ROOT / f"agents/{agent}-agent/{agent}_agent/server.py") <= 40
